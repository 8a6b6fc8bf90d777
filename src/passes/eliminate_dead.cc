#include "passes/eliminate_dead.h"

#include "dispatch/compiler_rules.h"

namespace gluino {

// Through bodies of control flow, whatever their depth.
static bool acts(const OpDef& op, const Attrs& attrs) {
  if (rules_of(&op).has_effect) return true;
  if (!op.has_subgraphs()) return false;
  for (const Symbol& body : op.subgraphs_of(attrs.get()))
    for (const Graph::Node& node : body.graph().nodes)
      if (node.op && acts(*node.op, node.attrs)) return true;
  return false;
}

bool has_effect(const Graph::Node& node) {
  if (!node.op) return false;
  return node.op->draws_random(node.attrs) || acts(*node.op, node.attrs) || node.may_update_states();
}

Graph eliminate_dead(Graph graph, const PassContext&) {
  std::vector<bool> needed(graph.nodes.size(), false);
  for (ValueId v : graph.outputs) needed[v.node] = true;
  const auto forward_nodes = static_cast<size_t>(graph.count_forward_nodes());  // which user code wrote: their errors are its own
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const auto& node = graph.node(i);
    needed[i] =
        needed[i] || node.is_variable() || has_effect(node) || (i < forward_nodes && node.op && refuses_values(*node.op, node.attrs));
    if (needed[i])
      for (ValueId v : node.inputs) needed[v.node] = true;
  }
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (needed[i]) rewriter.keep(static_cast<int>(i));
  return rewriter.finish();
}

}  // namespace gluino
