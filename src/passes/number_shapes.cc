#include "passes/number_shapes.h"

namespace gluino {

// The same elements in another shape, which the inputs behind the first one give. An extent of 0 would be a code for Reshape.
static bool is_reshaped_like_others(const Graph& graph, const Graph::Node& node) {
  if (!node.op || !node.op->is_view || node.inputs.size() < 2 || node.outputs.size() != 1) return false;
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (!node.op->input_spec(node.attrs, i).shape_only) return false;
  const int64_t elements = node.outputs[0].shape->elements();
  return elements > 0 && graph.shape(node.inputs[0]).elements() == elements;
}

Graph number_shapes(Graph graph, const PassContext&) {
  const OpDef& reshape = OpRegistry::global().get("Reshape");
  Rewriter rewriter(graph);
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Graph::Node& node = graph.node(n);
    if (!is_reshaped_like_others(graph, node)) {
      rewriter.keep(n);
      continue;
    }
    const std::pair<std::string_view, AttrValue> attrs[] = {{"shape", *node.outputs[0].shape}};
    Graph::Node made = node;
    made.op = &reshape;
    made.attrs = reshape.make_attrs(attrs);
    made.inputs = {rewriter.mapped(node.inputs[0])};
    rewriter.put(n, std::move(made));
  }
  return rewriter.finish();
}

}  // namespace gluino
