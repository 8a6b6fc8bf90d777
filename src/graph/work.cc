#include "graph/work.h"

#include <cmath>

namespace gluino {
namespace {

// How many products a call sums up, by what its inputs are; 0 where it multiplies no matrices and slides no filters.
//   A weight of shape (rows, ...) meets every element of the output with one row, or every element of the data where the call spreads
//   it and rows are the data's channels: then the data is smaller. A vector of all parameters of recurrent layers is used once per step and
//   sequence. The product of matrices (m, k) and (k, n) has m k n: the root of the sizes of all three.
int64_t multiply_adds_of(const Graph& graph, const Graph::Node& node) {
  if (node.inputs.size() < 2) return 0;
  const InputSpec &first = node.op->input_spec(node.attrs, 0), &second = node.op->input_spec(node.attrs, 1);
  const Shape &a = graph.shape(node.inputs[0]), &b = graph.shape(node.inputs[1]), &out = *node.outputs[0].shape;
  if (first.own_dtype) return 0;  // it is looked up, not multiplied
  if (second.name == "weight" && a.ndim() >= 2 && b.ndim() >= 2 && b[0] > 0)
    return (b[0] == a[1] ? std::min(a.elements(), out.elements()) : out.elements()) * (b.elements() / b[0]);
  if (second.name == "parameters" && a.ndim() == 3) return a.elements(0, 2) * b.elements();
  const bool are_matrices = (first.name == "lhs" && second.name == "rhs") || (first.name == "A" && second.name == "B");
  if (!are_matrices || node.op->is_elementwise() || a.ndim() < 1 || b.ndim() < 1) return 0;
  const int64_t batch = a.ndim() > 2 && a.ndim() == b.ndim() ? a.elements(0, a.ndim() - 2) : 1;
  const double size = static_cast<double>(a.elements()) / static_cast<double>(batch) *
                      (static_cast<double>(b.elements()) / static_cast<double>(batch)) *
                      (static_cast<double>(out.elements()) / static_cast<double>(batch));
  return batch * static_cast<int64_t>(std::llround(std::sqrt(size)));
}

}  // namespace

int64_t operations_of(const Graph& graph, const Graph::Node& node) {
  if (!node.op || node.op->is_view) return 0;
  if (const int64_t products = multiply_adds_of(graph, node)) return 2 * products;
  // Parameters of a normalisation, say, are read too, but are small beside the values.
  int64_t most = 0;
  for (const OutputInfo& o : node.outputs) most = std::max(most, o.shape->elements());
  for (ValueId v : node.inputs)
    if (graph.node(v).op) most = std::max(most, graph.shape(v).elements());
  return most;
}

}  // namespace gluino
