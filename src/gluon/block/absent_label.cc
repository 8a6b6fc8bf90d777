#include "gluon/block/absent_label.h"

#include "dispatch/mode.h"
#include "gluino/ops.h"
#include "graph/interpret.h"
#include "graph/trace.h"

namespace gluino {

bool looks_like_label(std::string_view name) { return name == "label" || name.ends_with("_label"); }

static Tensor absent_label(const std::string& name, const std::optional<Shape>& shape, const Tensors& inputs) {
  if (!shape || !shape->is_known()) return sym::var(name);
  const Shape first = inputs.empty() ? Shape() : impl_of(inputs[0]).shape;  // without making it a guard
  if (shape->ndim() == 1 && first.ndim() > 0 && first[0] == (*shape)[0] && first.elements() > 0) {
    const Tensor column = slice_axis(inputs[0].reshape({0, -1}), {.axis = 1, .begin = 0, .end = 1});
    return zeros_like(column.reshape({-1})).astype(DType::float32);
  }
  for (const Tensor& t : inputs) (void)t.shape();  // other inputs need another program
  return zeros(*shape);
}

void add_absent_labels(const Graph& graph, const Tensors& inputs, TensorMap& tensors) {
  for (const Graph::Node& node : graph.nodes)
    if (node.is_variable() && looks_like_label(node.name) && !tensors.contains(node.name))
      tensors[node.name] = absent_label(node.name, node.outputs[0].shape, inputs);
}

}  // namespace gluino
