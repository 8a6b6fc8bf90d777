#include "passes/simplify.h"

namespace gluino {

Graph simplify(const Graph& graph, const PassContext& context) {
  // An output that is a copy must stay one: the caller may change it in place.
  std::vector<bool> is_output(graph.nodes.size(), false);
  for (ValueId v : graph.outputs) is_output[static_cast<size_t>(v.node)] = true;
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.nodes[i];
    if (!node.op || node.inputs.empty() || !node.op->is_identity || is_output[i]) {
      rewriter.keep(static_cast<int>(i));
      continue;
    }
    const OutputInfo &in = graph.info(node.inputs[0]), &out = node.outputs[0];
    const bool same_type = in.shape && out.shape && *in.shape == *out.shape && in.dtype == out.dtype;
    if (same_type && node.op->is_identity(node.attrs.get(), context.training)) {
      // Further outputs (a dropout mask) are read by gradients of training only.
      rewriter.replace(static_cast<int>(i), std::vector<ValueId>(node.outputs.size(), rewriter.mapped(node.inputs[0])));
    } else {
      rewriter.keep(static_cast<int>(i));
    }
  }
  return rewriter.finish();
}

}  // namespace gluino
