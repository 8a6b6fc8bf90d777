#include "passes/simplify.h"

#include "passes/facts/result_memory.h"

namespace gluino {
namespace {

class Simplifier {
 public:
  Simplifier(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        rewriter_(graph),
        origin_(graph.nodes.size()),
        memory_(graph),
        is_output_(graph.nodes.size(), false) {
    for (ValueId v : graph.outputs) is_output_[v.node] = true;
    if (context.has_backward) find_reachable();
  }
  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto& node = graph_.node(i);
      const auto n = static_cast<int>(i);
      origin_[i] = n;
      const bool is_result = is_output_[i] || (memory_.owner(n) == n && memory_.is_given(n));
      if (!is_identity(node) || (is_result && !may_be_output(node.inputs[0].node))) {
        rewriter_.keep(n);
        continue;
      }
      origin_[i] = origin_[node.inputs[0].node];
      if (is_output_[i]) is_output_[origin_[i]] = true;
      if (is_result) memory_.give(origin_[i]);
      // Further outputs (a dropout mask) are read by gradients of training only.
      rewriter_.replace(n, std::vector<ValueId>(node.outputs.size(), rewriter_.mapped(node.inputs[0])));
    }
    return rewriter_.finish();
  }

 private:
  bool is_identity(const Graph::Node& node) const {
    if (!node.op || node.inputs.empty() || !node.op->is_identity) return false;
    const OutputInfo &in = graph_.info(node.inputs[0]), &out = node.outputs[0];
    const bool same_type = in.shape && out.shape && *in.shape == *out.shape && in.dtype == out.dtype;
    if (!same_type || !node.op->is_identity(node.attrs.get(), node.mode.training.value_or(context_.training))) return false;
    if (context_.has_backward && !node.op->is_view && is_reachable_[memory_.owner(node.inputs[0].node)])
      return false;               // a copy that was made so that the original may change
    return !node.mode.is_paused;  // it still stops what flows back
  }
  // Which memory the caller can change before backward: inputs and outputs, views of them included.
  void find_reachable() {
    is_reachable_.assign(graph_.nodes.size(), false);
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i)
      if (!graph_.node(i).op || memory_.is_given(i)) is_reachable_[memory_.owner(i)] = true;
  }
  // The caller may change an output in place: it must be memory of its own, neither an input's nor another output's.
  bool may_be_output(int source) const {
    const Graph::Node& made = graph_.node(origin_[source]);
    return made.op && !made.op->is_view && !is_output_[origin_[source]] && !memory_.is_given(origin_[source]);
  }

  const Graph& graph_;
  const PassContext& context_;
  Rewriter rewriter_;
  std::vector<int> origin_;  // the node whose results a node has after the identities on the way are gone
  ResultMemory memory_;
  std::vector<bool> is_output_, is_reachable_;
};

}  // namespace

Graph simplify(Graph graph, const PassContext& context) { return Simplifier(graph, context).run(); }

}  // namespace gluino
