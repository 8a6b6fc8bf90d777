#include "exec/value_flow.h"

namespace gluino {

std::vector<int> find_loops(const Graph& graph) {
  std::vector<int> loops;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (const OpDef* op = graph.nodes[n].op; op && dependence_rule_of(*op)) loops.push_back(static_cast<int>(n));
  return loops;
}

ValueFlow::ValueFlow(const Graph& graph, const std::vector<int>& loops, std::span<const Tensor> hidden) : graph_(graph) {
  for (size_t k = 0; k < loops.size(); ++k) {
    const Graph::Node& node = graph.nodes[loops[k]];
    std::vector<Shape> shapes;
    for (ValueId v : node.inputs) shapes.push_back(*graph.info(v).shape);
    loops_.emplace(loops[k], (*dependence_rule_of(*node.op))(node.attrs.get(), shapes, hidden.empty() ? Tensor() : hidden[k]));
  }
}

void ValueFlow::Set::add(ValueId v) {
  is_in_[v.node] = true;
  if (const auto it = parts_.find(v.node); it != parts_.end()) it->second[v.index] = true;
}
void ValueFlow::Set::add_all(int node) {
  is_in_[node] = true;
  if (const auto it = parts_.find(node); it != parts_.end()) it->second.assign(it->second.size(), true);
}

ValueFlow::Set ValueFlow::none() const {
  Set set;
  set.is_in_.resize(graph_.nodes.size(), false);
  for (const auto& [node, dependence] : loops_) set.parts_[node].resize(graph_.nodes[node].outputs.size(), false);
  return set;
}

void ValueFlow::follow(Set& set, int node, size_t inputs) const {
  for (size_t i = 0; i < inputs; ++i) follow_input(set, node, i);
}
void ValueFlow::follow_input(Set& set, int node, size_t input) const {
  if (!set.has(graph_.nodes[node].inputs[input])) return;
  const auto loop = loops_.find(node);
  if (loop == loops_.end()) return set.add_all(node);
  for (size_t o = 0; o < loop->second.num_outputs(); ++o)
    if (loop->second.depends(o, input)) set.add({node, static_cast<int>(o)});
}

bool ValueFlow::is_computed_from(const Set& set, int node, size_t input) const {
  const auto loop = loops_.find(node);
  if (!set.has_any(node) || loop == loops_.end()) return set.has_any(node);
  for (size_t o = 0; o < loop->second.num_outputs(); ++o)
    if (set.has({node, static_cast<int>(o)}) && loop->second.depends(o, input)) return true;
  return false;
}

}  // namespace gluino
