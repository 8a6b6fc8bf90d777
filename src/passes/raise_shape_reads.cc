#include "passes/raise_shape_reads.h"

#include <algorithm>

namespace gluino {
namespace {

ValueId highest_like(const Graph& graph, ValueId v) {
  const OutputInfo& wanted = graph.info(v);
  const auto is_like = [&](ValueId other) {
    const OutputInfo& info = graph.info(other);
    return info.shape && wanted.shape && *info.shape == *wanted.shape && info.dtype == wanted.dtype;
  };
  for (;;) {
    const auto& inputs = graph.node(v).inputs;
    const auto above = std::find_if(inputs.begin(), inputs.end(), is_like);
    if (above == inputs.end()) return v;
    v = *above;
  }
}

}  // namespace

Graph raise_shape_reads(const Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    Graph::Node node = graph.node(n);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool shape_only = node.op->input_spec(node.attrs, i).shape_only;
      node.inputs[i] = rewriter.mapped(shape_only ? highest_like(graph, node.inputs[i]) : node.inputs[i]);
    }
    rewriter.put(n, std::move(node));
  }
  return rewriter.finish();
}

}  // namespace gluino
