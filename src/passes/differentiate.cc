#include "passes/differentiate.h"

#include "base/format.h"

namespace gluino {
namespace {

using SharedNodes = std::vector<Ref<GraphNode>>;

// Forward nodes keep their order; what the gradients appended follows in the order it was made.
Graph with_gradients(Graph g, const SharedNodes& nodes, const std::vector<Value>& outputs, const std::vector<Value>& heads) {
  g.outputs.clear();
  NodeNumbers numbers;
  for (size_t i = 0; i < nodes.size(); ++i) numbers.try_emplace(nodes[i].get(), static_cast<int>(i));
  for (const Value& head : heads) g.nodes[append(g, *head.node, numbers)].outputs = head.node->outputs;
  for (const GraphNode* n : nodes_in_order(outputs))
    if (!numbers.contains(n)) {
      Graph::Node& added = g.nodes[append(g, *n, numbers)];
      added.is_folded = added.is_constant();
      if (n->outputs.size() == added.outputs.size()) added.outputs = n->outputs;
    }
  for (Graph::Node& n : g.nodes) n.mode.is_paused = false;  // has had its effect
  for (const Value& v : outputs) g.outputs.push_back({numbers.at(v.node.get()), v.index});
  infer_new_nodes(g);
  return g;
}

}  // namespace

Differentiated differentiate(Graph graph, const std::vector<int>& wanted, const std::vector<bool>& as_rows) {
  const SharedNodes nodes = shared_nodes(graph);  // the form in which operators' gradients can be asked for more
  const auto value = [&](ValueId v) { return Value{nodes[v.node], v.index}; };
  GradientRequest request;
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i]->outputs = graph.nodes[i].outputs;
    request.nodes.push_back(nodes[i].get());
  }
  std::vector<Value> outputs;
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    auto head =
        make_ref<GraphNode>(NodeOf<Value>{.name = fmt::format("head{}", k), .outputs = {graph.info(graph.outputs[k])}, .is_head = true});
    outputs.push_back(value(graph.outputs[k]));
    request.heads.push_back(outputs.back());
    request.head_grads.push_back(tensor_of_known({head, 0}));
  }
  std::vector<Value> heads;
  for (const Tensor& t : request.head_grads) heads.push_back(value_of(t));
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] < 0) continue;
    request.wanted.push_back(value({wanted[i], 0}));
    request.as_rows.push_back(!as_rows.empty() && as_rows[i]);
  }
  Differentiated result;
  GradientNotes notes;
  const std::vector<SymbolicGradient> gradients = symbolic_gradients_and_rows(request, &notes);
  size_t next = 0;
  for (int n : wanted) {
    const SymbolicGradient g = n < 0 ? SymbolicGradient() : gradients[next++];
    result.has_gradient.push_back(g.dense.defined() || !g.rows.empty());
    if (g.dense.defined()) outputs.push_back(value_of(g.dense));
    std::vector<std::string>& modes = result.row_modes.emplace_back();
    for (const PickedRows& piece : g.rows) {
      outputs.push_back(value_of(piece.indices));
      outputs.push_back(value_of(piece.values));
      modes.push_back(piece.mode);
    }
  }
  result.dead_ends = std::move(notes.ends);
  result.graph = with_gradients(std::move(graph), nodes, outputs, heads);
  if (heads.size() > 1) result.graph.parts = notes.parts.all();
  return result;
}

}  // namespace gluino
