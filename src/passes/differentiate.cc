#include "passes/differentiate.h"

#include <map>

#include "base/format.h"
#include "graph/gradient.h"

namespace gluino {
namespace {

// The graph as nodes that share their inputs, so that operators' gradients can be asked for more.
class SharedForm {
 public:
  explicit SharedForm(const Graph& graph) : graph_(graph) {
    for (const auto& n : graph.nodes) {
      auto node = make_ref<GraphNode>();
      node->op = n.op;
      node->name = n.name;
      node->attrs = n.attrs;
      node->constant = n.constant;
      node->mode = n.mode;
      node->outputs = n.outputs;
      for (ValueId v : n.inputs) node->inputs.push_back(value(v));
      nodes_.push_back(std::move(node));
    }
  }
  Value value(ValueId v) const { return {nodes_[v.node], v.index}; }
  std::vector<GraphNode*> nodes() const {
    std::vector<GraphNode*> list;
    for (const Ref<GraphNode>& n : nodes_) list.push_back(n.get());
    return list;
  }

  // Forward nodes keep their order; what the gradients appended follows in the order it was made.
  Graph with_gradients(const std::vector<Value>& outputs, const std::vector<Value>& heads) const {
    Graph g = graph_;
    g.outputs.clear();
    for (Graph::Node& n : g.nodes) n.mode.is_paused = false;  // has had its effect
    std::map<const GraphNode*, int> numbers;
    for (size_t i = 0; i < nodes_.size(); ++i) numbers[nodes_[i].get()] = static_cast<int>(i);
    auto append = [&](const GraphNode& n) {
      Graph::Node node{.op = n.op, .name = n.name, .attrs = n.attrs, .constant = n.constant};
      for (const Value& v : n.inputs) node.inputs.push_back({numbers.at(v.node.get()), v.index});
      node.outputs.resize(n.op ? static_cast<size_t>(n.op->num_outputs(n.attrs)) : 1);
      node.is_folded = n.constant.defined();
      node.mode.training = n.mode.training;
      numbers[&n] = g.add(std::move(node));
    };
    for (const Value& head : heads) {
      append(*head.node);
      g.nodes.back().outputs = head.node->outputs;
      g.nodes.back().is_head = true;
    }
    for (const GraphNode* n : nodes_in_order(outputs))
      if (!numbers.contains(n)) append(*n);
    for (const Value& v : outputs) g.outputs.push_back({numbers.at(v.node.get()), v.index});
    infer_graph(g, {}, {});
    return g;
  }

 private:
  const Graph& graph_;
  std::vector<Ref<GraphNode>> nodes_;
};

}  // namespace

Differentiated differentiate(const Graph& graph, const std::vector<int>& wanted) {
  const SharedForm shared(graph);
  GradientRequest request{.nodes = shared.nodes()};
  std::vector<Value> outputs;
  for (size_t k = 0; k < graph.outputs.size(); ++k) {
    auto head = make_ref<GraphNode>();
    head->name = fmt::format("head{}", k);
    head->outputs = {graph.info(graph.outputs[k])};
    outputs.push_back(shared.value(graph.outputs[k]));
    request.heads.push_back(outputs.back());
    request.head_grads.push_back(tensor_of_known({head, 0}));
  }
  std::vector<Value> heads;
  for (const Tensor& t : request.head_grads) heads.push_back(value_of(t));
  for (int n : wanted)
    if (n >= 0) request.wanted.push_back(shared.value({n, 0}));
  const Tensors gradients = symbolic_gradients(request);
  Differentiated result;
  size_t next = 0;
  for (int n : wanted) {
    const Tensor g = n < 0 ? Tensor() : gradients[next++];
    result.has_gradient.push_back(g.defined());
    if (g.defined()) outputs.push_back(value_of(g));
  }
  result.graph = shared.with_gradients(outputs, heads);
  return result;
}

}  // namespace gluino
