#include "passes/differentiate.h"

#include <map>

#include "base/format.h"
#include "graph/trace.h"

namespace gluino {
namespace {

class Backward {
 public:
  Backward(const Graph& graph, const std::vector<int>& wanted)
      : graph_(graph), reaches_(graph.nodes.size(), false), heads_(graph.nodes.size()) {
    make_nodes();
    for (int n : wanted)
      if (n >= 0) reaches_[n] = true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!graph_.nodes[i].op) continue;
      for (ValueId v : graph_.nodes[i].inputs) reaches_[i] = reaches_[i] || reaches_[v.node];
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) heads_[i].resize(graph_.nodes[i].outputs.size());
  }

  Differentiated run(const std::vector<int>& wanted) {
    std::vector<Value> outputs;
    std::vector<Ref<GraphNode>> head_nodes;
    for (size_t k = 0; k < graph_.outputs.size(); ++k) {
      const ValueId v = graph_.outputs[k];
      outputs.push_back(value(v));
      auto head = make_ref<GraphNode>();
      head->name = fmt::format("head{}", k);
      head_nodes.push_back(head);
      const OutputInfo& info = graph_.info(v);
      if (is_floating(*info.dtype)) accumulate(v, tensor_of({head, 0}, *info.shape, *info.dtype, current_device()));
    }
    for (int i = static_cast<int>(graph_.nodes.size()) - 1; i >= 0; --i) step(i);
    Differentiated result;
    for (int n : wanted) {
      const Tensor g = n < 0 ? Tensor() : heads_[n][0];
      result.has_gradient.push_back(g.defined());
      if (g.defined()) outputs.push_back(value_of(g));
    }
    result.graph = assemble(outputs, head_nodes);
    result.forward_nodes = static_cast<int>(graph_.nodes.size());
    return result;
  }

 private:
  void make_nodes() {
    for (const auto& n : graph_.nodes) {
      auto node = make_ref<GraphNode>();
      node->op = n.op;
      node->name = n.name;
      node->attrs = n.attrs;
      node->constant = n.constant;
      for (ValueId v : n.inputs) node->inputs.push_back(value(v));
      nodes_.push_back(std::move(node));
    }
  }
  Value value(ValueId v) const { return {nodes_[v.node], v.index}; }
  Tensor symbolic(ValueId v) const {
    const OutputInfo& info = graph_.info(v);
    return tensor_of(value(v), *info.shape, *info.dtype, current_device());
  }
  void accumulate(ValueId v, const Tensor& g) {
    Tensor& slot = heads_[v.node][v.index];
    slot = slot.defined() ? call("elemwise_add", {slot, g}) : g;
  }

  void step(int number) {
    const auto& node = graph_.nodes[number];
    auto& heads = heads_[number];
    const bool any = std::any_of(heads.begin(), heads.end(), [](const Tensor& t) { return t.defined(); });
    if (!node.op || !node.op->gradient || !any || !reaches_[number]) return;
    Tensors ins(node.inputs.size()), outs(node.outputs.size()), likes;
    std::vector<bool> wanted;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      likes.push_back(symbolic(node.inputs[i]));
      const auto& used = node.op->uses.inputs;
      if (node.op->uses.all_inputs || std::find(used.begin(), used.end(), static_cast<int>(i)) != used.end()) ins[i] = likes.back();
      wanted.push_back(reaches_[node.inputs[i].node]);
    }
    for (int k : node.op->uses.outputs)
      if (k < static_cast<int>(outs.size())) outs[k] = symbolic({number, k});
    if (node.op->uses.last_output) outs.back() = symbolic({number, static_cast<int>(outs.size()) - 1});
    Tensors full = heads;
    for (size_t k = 0; k < full.size(); ++k)
      if (!full[k].defined()) full[k] = call("zeros_like", {symbolic({number, static_cast<int>(k)})});
    const Tensors gradients =
        node.op->gradient(node.attrs.get(), Gradient(*node.op, std::move(ins), std::move(outs), std::move(full), std::move(likes), wanted));
    for (size_t i = 0; i < gradients.size(); ++i)
      if (wanted[i] && gradients[i].defined()) {
        check_shape(*node.op, i, gradients[i], *graph_.info(node.inputs[i]).shape);
        const DType dtype = *graph_.info(node.inputs[i]).dtype;
        accumulate(node.inputs[i], gradients[i].dtype() == dtype ? gradients[i] : gradients[i].astype(dtype));
      }
  }

  // Memory is planned by the input's shape.
  static void check_shape(const OpDef& op, size_t input, const Tensor& gradient, const Shape& needed) {
    const detail::TensorImpl& g = impl_of(gradient);
    if (g.symbolic && !g.symbolic->has_shape)
      raise<UserError>("the shape of the gradient of {} for input {} depends on values; call it without hybridize()", op.name, input);
    if (!(g.shape == needed))
      throw InternalError(fmt::format("the gradient of {} for input {} has shape {} instead of {}", op.name, input, g.shape, needed));
  }

  // Forward nodes keep their order; what the gradients appended follows in the order it was made.
  Graph assemble(const std::vector<Value>& outputs, const std::vector<Ref<GraphNode>>& head_nodes) const {
    Graph g = graph_;
    g.outputs.clear();
    std::map<const GraphNode*, int> numbers;
    for (size_t i = 0; i < nodes_.size(); ++i) numbers[nodes_[i].get()] = static_cast<int>(i);
    auto append = [&](const GraphNode& n) {
      Graph::Node node{n.op, n.name, n.attrs, {}, {}, n.constant, {}};
      for (const Value& v : n.inputs) node.inputs.push_back({numbers.at(v.node.get()), v.index});
      node.outputs.resize(n.op ? static_cast<size_t>(n.op->num_outputs(n.attrs)) : 1);
      node.is_folded = n.constant.defined();
      numbers[&n] = g.add(std::move(node));
    };
    for (size_t k = 0; k < head_nodes.size(); ++k) {
      append(*head_nodes[k]);
      g.nodes.back().outputs[0] = graph_.info(graph_.outputs[k]);
    }
    for (const GraphNode* n : nodes_in_order(outputs))
      if (!numbers.contains(n)) append(*n);
    for (const Value& v : outputs) g.outputs.push_back({numbers.at(v.node.get()), v.index});
    infer_graph(g, {}, {});
    return g;
  }

  const Graph& graph_;
  std::vector<Ref<GraphNode>> nodes_;
  std::vector<bool> reaches_;   // whether a wanted leaf can be reached backwards from the node
  std::vector<Tensors> heads_;  // gradient that has flowed into each output
};

}  // namespace

Differentiated differentiate(const Graph& graph, const std::vector<int>& wanted) { return Backward(graph, wanted).run(wanted); }

int count_forward_nodes(const Graph& graph) {
  size_t n = 0;
  while (n < graph.nodes.size() && !(graph.nodes[n].is_variable() && graph.nodes[n].name == "head0")) ++n;
  return static_cast<int>(n);
}

}  // namespace gluino
