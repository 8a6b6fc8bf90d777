#include "passes/readers.h"

namespace gluino {

Readers::Readers(const Graph& graph) : readers_(graph.nodes.size()), outputs_(graph.nodes.size()) {
  const auto add = [&](ValueId v, int reader) {
    readers_[v.node].push_back(reader);
    outputs_[v.node].push_back(v.index);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (ValueId v : graph.node(i).inputs) add(v, static_cast<int>(i));
  for (ValueId v : graph.outputs) add(v, kCaller);
}

}  // namespace gluino
