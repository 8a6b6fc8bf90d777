#include "passes/scalar_program.h"

#include "kernels/program_text.h"
#include "passes/pass.h"

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

std::string program_text_of(const Graph& graph, const Graph::Node& node) {
  if (!node.op || node.outputs.size() != 1 || has_effect(node) || !computes_in(graph, node, *node.outputs[0].dtype)) return "";
  if (node.op->is_elementwise()) return program_text(program_of(node, *node.outputs[0].dtype));
  if (node.op != &OpRegistry::global().get("_fused")) return "";
  for (const auto& [name, text] : node.op->print_attrs(node.attrs))
    if (name == "program") return text;
  return "";
}

}  // namespace gluino
