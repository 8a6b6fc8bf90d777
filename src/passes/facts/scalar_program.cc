#include "passes/facts/scalar_program.h"

#include <algorithm>
#include <cmath>

#include "dispatch/compiler_rules.h"
#include "dispatch/infer.h"
#include "kernels/isa/primitives.h"
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

// The type that an elementwise node computes in, whether or not a program can hold its result.
static std::optional<ComputeType> computed_type(const Graph& graph, const Graph::Node& node) {
  if (!node.op || !node.op->is_elementwise() || node.outputs.size() != 1 || has_effect(node)) return std::nullopt;
  if (!node.outputs[0].shape || !node.outputs[0].dtype) return std::nullopt;
  const DType dtype = *node.outputs[0].dtype;
  std::vector<DType> inputs;
  bool have_one_rank = true;
  for (ValueId v : node.inputs) {
    const OutputInfo& info = graph.info(v);
    if (!info.dtype || !info.shape) return std::nullopt;
    inputs.push_back(*info.dtype);
    have_one_rank &= info.shape->ndim() == node.outputs[0].shape->ndim();
  }
  if (node.op->kernel && !have_one_rank) return std::nullopt;  // the kernel may have a way of its own with other ranks
  DType computed = promote_inputs(*node.op, node.attrs, inputs);
  if (is_conversion(node)) {
    if (dtype == DType::boolean) return std::nullopt;  // asks whether a number is 0 before it is converted
    computed = dtype;
  }
  return kernels::compute_type(computed);
}

std::optional<ComputeType> scalar_type(const Graph& graph, const Graph::Node& node) {
  const auto type = computed_type(graph, node);
  return type && holds(*type, *node.outputs[0].dtype) ? type : std::nullopt;
}

bool compares_alike(const Graph& graph, const Graph::Node& node, ComputeType type) {
  const auto own = computed_type(graph, node);
  if (!own || (*own != ComputeType::i32 && *own != ComputeType::i64) || (type != ComputeType::f32 && type != ComputeType::f64))
    return false;
  // Below this all whole numbers are numbers of the type, and those above are rounded to none of them. So comparing with a small number
  // is exact, and 0 is no other number; two large numbers may become one.
  const double limit = type == ComputeType::f32 ? 0x1p24 : 0x1p53;
  const Program program = program_of(node, *own);
  std::vector<bool> is_small, is_truth;
  for (int i = 0; i < program.size(); ++i) {
    const Instruction& in = program[i];
    const auto small = [&](int k) { return is_small[in.args[k]]; };
    bool truth = true, few = true;
    switch (in.fn) {
      case ScalarFn::input: {
        const DType dtype = *graph.info(node.inputs[in.args[0]]).dtype;
        truth = false;
        few = dtype_bytes(dtype) == 1 || (dtype == DType::int32 && type == ComputeType::f64);
        const ComputeType read = kernels::compute_type(dtype);
        if (read != *own && (read != ComputeType::i32 || *own != ComputeType::i64)) return false;  // reading it changes it
        break;
      }
      case ScalarFn::constant:
        truth = false;
        if (in.value != std::trunc(in.value) || std::abs(in.value) >= limit) return false;
        break;
      case ScalarFn::equal:
      case ScalarFn::not_equal:
      case ScalarFn::greater:
      case ScalarFn::greater_equal:
      case ScalarFn::lesser:
      case ScalarFn::lesser_equal:
        if (!small(0) && !small(1)) return false;
        break;
      case ScalarFn::logical_and:
      case ScalarFn::logical_or:
      case ScalarFn::logical_xor:
      case ScalarFn::logical_not:
      case ScalarFn::to_bool: break;
      default: return false;
    }
    is_small.push_back(few);
    is_truth.push_back(truth);
  }
  return is_truth.back();
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
  for (ValueId v : node.inputs) shapes.push_back(&graph.shape(v));
  return broadcast_to_exactly(shapes, *node.outputs[0].shape);
}

Program program_of(const Graph::Node& node, ComputeType type) {
  Program program(type);
  std::vector<Expr> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(Expr::input(program, static_cast<int>(i)));
  const Expr result = rounded(node.op->expression(node.attrs.get(), inputs), *node.outputs[0].dtype);
  if (result.position() != program.size() - 1) program.add_result(result.position());  // a copy of one of several inputs
  return program;
}

std::optional<Program> fused_program(const Graph::Node& node) {
  const auto& program = rules_of(node.op).program;
  return program ? std::optional(program(node.attrs.get())) : std::nullopt;
}

std::optional<Program> elementwise_program(const Graph& graph, const Graph::Node& node) {
  const auto type = scalar_type(graph, node);
  if (!type) return fused_program(node);
  return has_shape_of_inputs(graph, node) ? std::optional(program_of(node, *type)) : std::nullopt;
}

bool is_float32(const Graph& graph, const Graph::Node& node) {
  return node.outputs[0].dtype == DType::float32 &&
         std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return graph.info(v).dtype == DType::float32; });
}

}  // namespace gluino
