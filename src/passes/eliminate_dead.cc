#include "passes/eliminate_dead.h"

namespace gluino {

bool has_effect(const Graph::Node& node) {
  if (!node.op) return false;
  if (node.op->draws_random(node.attrs)) return true;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (node.op->is_state_input(node.attrs, i)) return true;
  return false;
}

Graph eliminate_dead(const Graph& graph, const PassContext&) {
  std::vector<bool> needed(graph.nodes.size(), false);
  for (ValueId v : graph.outputs) needed[v.node] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const auto& node = graph.node(i);
    needed[i] = needed[i] || node.is_variable() || has_effect(node);
    if (needed[i])
      for (ValueId v : node.inputs) needed[v.node] = true;
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (needed[i]) rewriter.keep(static_cast<int>(i));
  return rewriter.finish();
}

}  // namespace gluino
