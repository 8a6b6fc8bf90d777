#include "passes/fold_batch_norm.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "dispatch/compiler_rules.h"
#include "graph/trace.h"
#include "passes/facts/readers.h"

namespace gluino {
namespace {

class Folding {
 public:
  explicit Folding(Graph& graph) : graph_(graph), readers_(graph), layer_of_(graph.nodes.size(), -1), rewriter_(graph) {}

  Graph run() {
    std::vector<bool> disappears(graph_.nodes.size(), false);
    bool is_any_folded = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (can_fold(i)) {
        layer_of_[i] = graph_.node(i).inputs[0].node;
        disappears[layer_of_[i]] = is_any_folded = true;
      }
    if (!is_any_folded) return std::move(graph_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (layer_of_[i] >= 0) {
        if (fold(i)) continue;
        rewriter_.keep(layer_of_[i]);  // its axis did not fit
      }
      if (!disappears[i]) rewriter_.keep(static_cast<int>(i));
    }
    Graph result = rewriter_.finish();
    infer_new_nodes(result);
    return result;
  }

 private:
  bool can_fold(size_t i) const {
    const auto& norm = graph_.node(i);
    if (!rules_of(norm.op).channel_affine || norm.inputs[0].index != 0) return false;
    const auto& layer = graph_.node(norm.inputs[0]);
    if (!rules_of(layer.op).fold_affine || readers_.count(norm.inputs[0].node) != 1) return false;
    if (norm.mode != CallMode{} || layer.mode != CallMode{}) return false;
    for (int k = 1; k < static_cast<int>(norm.outputs.size()); ++k)
      if (readers_.any_of({static_cast<int>(i), k}, [](int) { return true; })) return false;
    // All of one dtype, so that folding changes none.
    const DType dtype = *norm.outputs[0].dtype;
    for (const auto* n : {&norm, &layer})
      for (ValueId v : n->inputs)
        if (*graph_.info(v).dtype != dtype) return false;
    return true;
  }

  // A variable in place of a value, so that operators can be applied to it.
  Tensor stand_in(ValueId v) {
    auto variable = make_ref<GraphNode>(NodeOf<Value>{});
    stands_for_[variable.get()] = rewriter_.mapped(v);
    held_.push_back(variable);
    const OutputInfo& info = graph_.info(v);
    return tensor_of({variable, 0}, *info.shape, *info.dtype, current_device());
  }

  bool fold(size_t i) {
    const auto& norm = graph_.node(i);
    const auto& layer = graph_.node(layer_of_[i]);
    Tensors layer_inputs, norm_inputs;
    for (ValueId v : layer.inputs) layer_inputs.push_back(stand_in(v));
    const OutputInfo& between = graph_.info(norm.inputs[0]);
    norm_inputs.push_back(make_shape_only(*between.shape, *between.dtype, current_device()));
    for (size_t k = 1; k < norm.inputs.size(); ++k) norm_inputs.push_back(stand_in(norm.inputs[k]));
    const ChannelAffine affine = rules_of(norm.op).channel_affine(norm.attrs.get(), norm_inputs);
    const FoldedCall folded = rules_of(layer.op).fold_affine(layer.attrs.get(), layer_inputs, affine);
    if (folded.inputs.empty()) return false;
    Graph::Node result{
        .op = layer.op, .name = norm.name, .attrs = folded.attrs, .user_attrs = norm.user_attrs, .outputs = {norm.outputs[0]}};
    for (const Tensor& t : folded.inputs) result.inputs.push_back(imported(value_of(t), norm.name));
    const int number = rewriter_.add(std::move(result));
    rewriter_.replace(static_cast<int>(i), std::vector<ValueId>(norm.outputs.size(), ValueId{number, 0}));
    return true;
  }

  // Appends what was computed from the stand-ins to the new graph.
  ValueId imported(const Value& value, const std::string& name) {
    if (const auto it = stands_for_.find(value.node.get()); it != stands_for_.end()) return it->second;
    for (const GraphNode* n : nodes_in_order({value})) {
      if (stands_for_.contains(n) || numbers_.contains(n)) continue;
      auto copy = renamed<ValueId>(*n, [&](const Value& v) {
        const auto given = stands_for_.find(v.node.get());
        return given != stands_for_.end() ? given->second : ValueId{numbers_.at(v.node.get()), v.index};
      });
      copy.name = fmt::format("{}_fold{}", name, numbers_.size());
      copy.is_folded = copy.is_constant();
      numbers_[n] = rewriter_.add(std::move(copy));
      held_.push_back(Ref<GraphNode>(const_cast<GraphNode*>(n)));
    }
    return {numbers_.at(value.node.get()), value.index};
  }

  Graph& graph_;  // as it was until the end
  const Readers readers_;
  std::vector<int> layer_of_;  // the layer that a node is folded into
  Rewriter rewriter_;
  std::map<const GraphNode*, ValueId> stands_for_;
  std::map<const GraphNode*, int> numbers_;
  std::vector<Ref<GraphNode>> held_;  // keeps the keys of the maps alive
};

}  // namespace

Graph fold_batch_norm(Graph graph, const PassContext& context) {
  const auto is_norm = [](const Graph::Node& n) { return static_cast<bool>(rules_of(n.op).channel_affine); };
  if (context.training || std::ranges::none_of(graph.nodes, is_norm)) return graph;
  return Folding(graph).run();
}

}  // namespace gluino
