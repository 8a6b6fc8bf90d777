#include "passes/scalar_program.h"

#include <algorithm>

#include "kernels/primitives.h"
#include "kernels/program_text.h"
#include "op/infer.h"
#include "passes/pass.h"

namespace gluino {
namespace {

// A copy, perhaps to another dtype or broadcast: what it reads need not be computed with, so it takes the type of what it gives.
bool is_conversion(const Graph::Node& node) {
  Program program(ComputeType::f32);
  std::vector<Expr> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(Expr::input(program, static_cast<int>(i)));
  return !inputs.empty() && node.op->expression(node.attrs.get(), inputs).position() == inputs[0].position();
}

}  // namespace

bool holds(ComputeType type, DType dtype) {
  return dtype == kernels::storage_of(type) || dtype == DType::boolean ||
         (type == ComputeType::f32 && (dtype == DType::float16 || dtype == DType::bfloat16));
}

std::optional<ComputeType> scalar_type(const Graph& graph, const Graph::Node& node) {
  if (!node.op || !node.op->is_elementwise() || node.outputs.size() != 1 || has_effect(node)) return std::nullopt;
  if (!node.outputs[0].shape || !node.outputs[0].dtype) return std::nullopt;
  const DType dtype = *node.outputs[0].dtype;
  std::vector<DType> inputs;
  for (ValueId v : node.inputs) {
    if (!graph.info(v).dtype) return std::nullopt;
    inputs.push_back(*graph.info(v).dtype);
  }
  DType computed = promote_inputs(*node.op, node.attrs, inputs);
  if (is_conversion(node)) {
    if (dtype == DType::boolean) return std::nullopt;  // asks whether a number is 0 before it is converted
    computed = dtype;
  }
  const ComputeType type = kernels::compute_type(computed);
  return holds(type, dtype) ? std::optional(type) : std::nullopt;
}

bool broadcast_to_exactly(const std::vector<const Shape*>& shapes, const Shape& whole) {
  Shape reached = Shape::filled(whole.ndim(), 1);
  for (const Shape* s : shapes) {
    const int shift = whole.ndim() - s->ndim();
    if (shift < 0) return false;
    for (int i = 0; i < s->ndim(); ++i) {
      if ((*s)[i] == 1) continue;
      if ((*s)[i] != whole[i + shift]) return false;
      reached[i + shift] = (*s)[i];
    }
  }
  // Leading axes must come from somewhere, too.
  const bool has_axes = std::any_of(shapes.begin(), shapes.end(), [&](const Shape* s) { return s->ndim() == whole.ndim(); });
  return has_axes && reached == whole;
}
bool has_shape_of_inputs(const Graph& graph, const Graph::Node& node) {
  std::vector<const Shape*> shapes;
  for (ValueId v : node.inputs) shapes.push_back(&*graph.info(v).shape);
  return broadcast_to_exactly(shapes, *node.outputs[0].shape);
}

Expr rounded(Expr x, DType dtype) {
  switch (dtype) {
    case DType::float16: return to_float16(x);
    case DType::bfloat16: return to_bfloat16(x);
    case DType::boolean: return to_bool(x);
    default: return x;
  }
}

Program program_of(const Graph::Node& node, ComputeType type) {
  Program program(type);
  std::vector<Expr> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(Expr::input(program, static_cast<int>(i)));
  rounded(node.op->expression(node.attrs.get(), inputs), *node.outputs[0].dtype);
  return program;
}

std::optional<Program> fused_program(const Graph::Node& node) {
  if (!node.op || node.op != &OpRegistry::global().get("_fused")) return std::nullopt;
  for (const auto& [name, text] : node.op->print_attrs(node.attrs))
    if (name == "program") return parse_program(text);
  return std::nullopt;
}

std::string program_text_of(const Graph& graph, const Graph::Node& node) {
  if (const auto type = scalar_type(graph, node)) return has_shape_of_inputs(graph, node) ? program_text(program_of(node, *type)) : "";
  const auto fused = fused_program(node);
  return fused && fused->num_results() == 1 ? program_text(*fused) : "";
}

bool is_float32(const Graph& graph, const Graph::Node& node) {
  return node.outputs[0].dtype == DType::float32 &&
         std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return graph.info(v).dtype == DType::float32; });
}

}  // namespace gluino
