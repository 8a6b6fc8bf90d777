// What the tape recorded, as a graph.
#include <map>
#include <optional>
#include <set>

#include "base/format.h"
#include "exec/program.h"
#include "gluino/autograd.h"
#include "graph/graph.h"

namespace gluino::autograd {
namespace {

// The recorded calls behind an entry, in the order they were made; without recursion, because tapes are long.
std::vector<const TapeNode*> calls_behind(const TapeEntry& entry) {
  std::vector<const TapeNode*> found, open;
  std::set<const TapeNode*> seen;
  auto visit = [&](const TapeEntry* e) {
    if (e && !e->is_leaf() && seen.insert(e->node.get()).second) open.push_back(e->node.get());
  };
  visit(&entry);
  while (!open.empty()) {
    const TapeNode* node = open.back();
    open.pop_back();
    found.push_back(node);
    for (const Ref<TapeEntry>& input : node->inputs) visit(input.get());
  }
  std::sort(found.begin(), found.end(), [](const TapeNode* a, const TapeNode* b) { return a->sequence < b->sequence; });
  return found;
}

// The calls inside of a hybridized one: the values of its results that are on the tape.
std::vector<Value> values_inside(const Compiled& c, const std::vector<Value>& sources) {
  const Graph& g = c.graph.before;
  const std::vector<int> source_nodes = source_nodes_of(c);
  std::vector<Ref<GraphNode>> nodes(g.nodes.size());
  std::vector<std::optional<Value>> given(g.nodes.size());
  for (size_t i = 0; i < source_nodes.size(); ++i) given[source_nodes[i]] = sources[i];
  const auto value = [&](ValueId v) { return given[v.node] ? *given[v.node] : Value{nodes[v.node], v.index}; };
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const Graph::Node& call = g.nodes[n];
    if (given[n]) continue;
    if (!call.op) {
      given[n] = sym::var(call.name).outputs()[0];
      continue;
    }
    std::vector<Value> inputs;
    for (ValueId v : call.inputs) inputs.push_back(value(v));
    nodes[n] = make_ref<GraphNode>(NodeOf<Value>{.op = call.op, .name = call.name, .attrs = call.attrs, .inputs = std::move(inputs)});
  }
  std::vector<Value> results;
  for (size_t i = 0; i < g.outputs.size(); ++i)
    if (c.is_on_tape[i]) results.push_back(value(g.outputs[i]));
  return results;
}

}  // namespace

Symbol get_symbol(const Tensor& recorded) {
  const TapeEntry* entry = entry_of(recorded);
  if (!entry) throw UserError("get_symbol: the tensor was not recorded; compute it inside autograd::record() from one with attach_grad()");
  std::map<const TapeNode*, std::vector<Value>> calls;  // their results
  std::map<const TapeEntry*, Value> leaves;
  auto value_of = [&](const TapeEntry* e) -> Value {
    if (e && !e->is_leaf()) return calls.at(e->node.get()).at(static_cast<size_t>(e->index));
    Value& leaf = leaves[e];
    if (!e || !leaf.node) leaf = sym::var(unique_name("var")).outputs()[0];  // what is off the tape cannot be told apart
    return leaf;
  };
  for (const TapeNode* call : calls_behind(*entry)) {
    std::vector<Value> inputs;
    for (const Ref<TapeEntry>& input : call->inputs) inputs.push_back(value_of(input.get()));
    if (const auto* compiled = dynamic_cast<const Compiled*>(call->whole.get())) {
      calls[call] = values_inside(*compiled, inputs);
      continue;
    }
    if (!call->op) raise<UserError>("get_symbol: {} was recorded as a whole, not operator by operator", call->name);
    const auto node = make_ref<GraphNode>(
        NodeOf<Value>{.op = call->op, .name = unique_name(call->op->name), .attrs = call->attrs, .inputs = std::move(inputs)});
    for (size_t i = 0; i < call->output_metas.size(); ++i) calls[call].push_back({node, static_cast<int>(i)});
  }
  return Symbol({value_of(entry)});
}

}  // namespace gluino::autograd
