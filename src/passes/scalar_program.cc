#include "passes/scalar_program.h"

namespace gluino {

Program program_of(const Graph::Node& node, DType dtype) {
  Program program(dtype == DType::float64 ? ComputeType::f64 : ComputeType::f32);
  std::vector<Expr> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(Expr::input(program, static_cast<int>(i)));
  node.op->expression(node.attrs.get(), inputs);
  return program;
}

bool computes_in(const Graph& graph, const Graph::Node& node, DType dtype) {
  if (dtype != DType::float32 && dtype != DType::float64) return false;
  if (node.outputs[0].dtype != dtype) return false;
  for (ValueId v : node.inputs)
    if (graph.info(v).dtype != dtype) return false;
  return true;
}

}  // namespace gluino
