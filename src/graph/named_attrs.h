// Attributes that say what is the default anyway. The operator does not need them, but files and attr() show them: they are kept among the
// user attributes.
#pragma once
#include "graph/graph.h"

namespace gluino {

// Those that whoever wrote the graph has named.
template <class Input>
void keep_named_defaults(NodeOf<Input>& node, const StringMap& named) {
  const void* values = node.attrs ? node.attrs.get() : node.op->default_attrs.get();
  for (const AttrField& field : node.op->fields) {
    if (field.required || !named.contains(field.name)) continue;
    if (std::string value = field.print(values); value == field.default_text) node.user_attrs[field.name] = std::move(value);
  }
}

// Of a program, where nobody has named any, the enumerations: MXNet's layers name them.
inline void keep_default_choices(Graph::Node& node) {
  if (!node.op) return;
  StringMap choices;
  for (const AttrField& field : node.op->fields)
    if (!field.choices.empty()) choices.emplace(field.name, std::string());
  if (!choices.empty()) keep_named_defaults(node, choices);
}

}  // namespace gluino
