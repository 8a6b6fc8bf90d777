// Layers that MXNet joined for oneDNN, as its files hold them: a body, and, where the model was quantized, the bounds of its 8-bit inputs.
// The body is computed in real numbers between dequantize and quantize; those of a quantized model are of 64 bits, because a last bit that
// depends on the order of a sum would else decide about a level now and then, and a deep network makes much of that.
#include "base/format.h"
#include "control_flow/body.h"
#include "dispatch/composition.h"

namespace gluino {
namespace {

struct FusedLayerAttrs {
  Bodies bodies;
  bool quantized = false, enable_float_output = false, with_act = false, with_sum = false, with_postsum_act = false, with_relu = false,
       with_postsum_relu = false;
  std::optional<double> min_calib_range, max_calib_range;
  static void fields(AttrFields<FusedLayerAttrs>& f) {
    f.field("quantized", &FusedLayerAttrs::quantized, "whether inputs and outputs are levels of 8 bits")
        .field("enable_float_output", &FusedLayerAttrs::enable_float_output, "give real numbers all the same")
        .field("with_act", &FusedLayerAttrs::with_act, "whether an activation follows the layer")
        .field("with_sum", &FusedLayerAttrs::with_sum, "whether another tensor is added")
        .field("with_postsum_act", &FusedLayerAttrs::with_postsum_act, "whether an activation follows the sum")
        .field("with_relu", &FusedLayerAttrs::with_relu, "whether relu follows the layer")
        .field("with_postsum_relu", &FusedLayerAttrs::with_postsum_relu, "whether relu follows the sum")
        .field("min_calib_range", &FusedLayerAttrs::min_calib_range, "lower bound of the result; None where it follows from values")
        .field("max_calib_range", &FusedLayerAttrs::max_calib_range, "upper bound of the result; None where it follows from values");
  }
  bool gives_levels() const { return quantized && !enable_float_output; }
  bool is_calibrated() const { return min_calib_range && max_calib_range; }
  bool ends_in_activation() const { return with_relu || with_postsum_relu || with_postsum_act || (with_act && !with_sum); }
  // Without known bounds MXNet gave int32, which the next operator made levels of.
  DType levels_type() const { return is_calibrated() && *min_calib_range >= 0 && ends_in_activation() ? DType::uint8 : DType::int8; }
  const Body& body() const {
    if (bodies.size() != 1 || bodies[0].num_outputs() != 1) throw UserError("the layer needs one body with one output");
    return bodies[0];
  }
};

// Node inputs end with the tensor that is added; the body's variables stand in the order in which its operators read them, so it comes
// first there where it is the left side of the sum.
bool reads_sum_first(const FusedLayerAttrs& a) {
  if (!a.with_sum) return false;
  const std::vector<const GraphNode*> variables = variable_nodes(a.body().symbol());
  const GraphNode* node = a.body().symbol().outputs()[0].node.get();
  while (node->op && node->inputs.size() == 1) node = node->inputs[0].node.get();
  return node->inputs.size() == 2 && !variables.empty() && node->inputs[0].node.get() == variables[0] && node->inputs[1].node->op;
}
template <class T>
void order_for_body(const FusedLayerAttrs& a, std::vector<T>& inputs) {
  if (reads_sum_first(a)) std::rotate(inputs.begin(), inputs.end() - 1, inputs.end());
}
template <class T>
void order_for_node(const FusedLayerAttrs& a, std::vector<T>& inputs) {
  if (reads_sum_first(a)) std::rotate(inputs.begin(), inputs.begin() + 1, inputs.end());
}

Tensors run_fused(const FusedLayerAttrs& a, std::span<const Tensor> in) {
  const Body& body = a.body();
  const auto count = static_cast<size_t>(body.num_inputs());
  if (in.size() < count) raise<UserError>("{} inputs were given, but the body reads {}", in.size(), count);
  Tensors inputs(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count));
  size_t bound = count;
  for (Tensor& x : inputs) {
    if (is_floating(x.dtype())) continue;
    if (bound + 2 > in.size()) raise<UserError>("{} inputs were given, but one of 8 bits has no bounds", in.size());
    x = call("_contrib_dequantize", {x, in[bound], in[bound + 1]});
    bound += 2;
  }
  order_for_body(a, inputs);
  if (bound > count)
    for (Tensor& x : inputs) x = call("Cast", {x}, {{"dtype", std::string("float64")}});
  Tensor real = Body::Runner(body, inputs)(inputs)[0];
  if (bound > count) real = call("Cast", {real}, {{"dtype", std::string("float32")}});
  if (!a.gives_levels()) return {real};
  const auto number = [](const std::optional<double>& v) { return v ? AttrValue(*v) : AttrValue(); };
  const char* type = a.levels_type() == DType::uint8 ? "uint8" : "int8";
  return call_all(
      "_contrib_quantize_v2", {&real, 1},
      {{"out_type", std::string(type)}, {"min_calib_range", number(a.min_calib_range)}, {"max_calib_range", number(a.max_calib_range)}});
}

void define_fused(OpBuilder<FusedLayerAttrs>& op) {
  composed(op.variadic("data")
               .own_dtype()
               .dtypes(DTypeSet::any)
               .subgraphs(&FusedLayerAttrs::bodies)
               .ignores({"channel_wise_quantize", "dedup_sum", "with_bn", "with_eltwise", "no_bias", "num_hidden", "flatten", "kernel",
                         "stride", "pad", "dilate", "num_filter", "num_group", "layout", "workspace", "cudnn_tune", "cudnn_off"})
               .num_outputs([](const FusedLayerAttrs& a) { return a.gives_levels() ? 3 : 1; })
               .state_if([](const FusedLayerAttrs& a, int input) {
                 return a.bodies.size() == 1 && input < a.bodies[0].num_inputs() && !reads_sum_first(a) && a.bodies[0].is_state(input);
               })
               .dtype([](const FusedLayerAttrs& a, std::span<const DType>, DType) {
                 if (!a.gives_levels()) return std::vector<DType>{DType::float32};
                 return std::vector<DType>{a.levels_type(), DType::float32, DType::float32};
               })
               .complete([](const FusedLayerAttrs& a, OptionalShapes& in, const OptionalShapes&) {
                 const auto count = static_cast<size_t>(a.body().num_inputs());
                 if (in.size() < count) return;
                 OptionalShapes of_body(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count)), out;
                 order_for_body(a, of_body);
                 a.body().infer_shapes(of_body, out);
                 order_for_node(a, of_body);
                 std::copy(of_body.begin(), of_body.end(), in.begin());
                 for (size_t i = count; i < in.size(); ++i)
                   if (!in[i]) in[i] = Shape{1};
               }),
           run_fused)
      .not_differentiable("models for oneDNN predict");
}
GLUINO_OP(_sg_mkldnn_conv, FusedLayerAttrs) {
  define_fused(op.doc("A convolution joined with what follows it: batch normalization, activations, a sum."));
}
GLUINO_OP(_sg_mkldnn_fully_connected, FusedLayerAttrs) {
  define_fused(op.doc("A dense layer joined with the activation that follows it."));
}

}  // namespace
}  // namespace gluino
