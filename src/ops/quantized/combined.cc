// Operators of several tensors of 8 bits, layers that are computed in real numbers between them, and products of prepared matrices.
#include "ops/quantized/levels.h"

namespace gluino::ops {
namespace {

struct JoinedLevelsAttrs {
  int64_t num_args = 1, dim = 1;
  static void fields(AttrFields<JoinedLevelsAttrs>& f) {
    f.field("num_args", &JoinedLevelsAttrs::num_args, "number of tensors; follows from the call")
        .field("dim", &JoinedLevelsAttrs::dim, "the axis to join along");
  }
};
DType joined_type(std::span<const DType> data) {
  const bool all_unsigned = !data.empty() && std::all_of(data.begin(), data.end(), [](DType d) { return d == DType::uint8; });
  return all_unsigned ? DType::uint8 : DType::int8;
}
GLUINO_OP(_contrib_quantized_concat, JoinedLevelsAttrs) {
  composed(op.doc("Joins levels along an axis: all tensors first, then the two bounds of each; the result has the widest bounds.")
               .variadic("data")
               .dtypes(DTypeSet::numeric)
               .outputs(quantized_outputs())
               .dtype([](const JoinedLevelsAttrs&, std::span<const DType> in, DType) {
                 return quantized_dtypes(joined_type(in.first(in.size() / 3)));
               }),
           [](const JoinedLevelsAttrs& a, std::span<const Tensor> in) {
             if (in.size() % 3) raise<UserError>("{} inputs were given, but each tensor needs its two bounds", in.size());
             const size_t count = in.size() / 3;
             Tensors real;
             std::vector<DType> types;
             Tensor low = in[count], high = in[count + 1];
             for (size_t i = 0; i < count; ++i) {
               const Tensor &least = in[count + 2 * i], &most = in[count + 2 * i + 1];
               real.push_back(real_of(in[i], least, most));
               types.push_back(in[i].dtype());
               low = call("broadcast_minimum", {low, least});
               high = call("broadcast_maximum", {high, most});
             }
             return quantized(joined(real, a.dim), as_dtype(low, DType::float32), as_dtype(high, DType::float32), joined_type(types));
           })
      .not_differentiable(kRounded)
      .sample({levels_sample({2, 3}), levels_sample({2, 1}), low_sample(), high_sample(), low_sample(), high_sample()}, {.num_args = 2});
}

// ---- sums and products of two

template <class A>
OpBuilder<A>& declare_pair(OpBuilder<A>& op) {
  op.input("lhs").input("rhs");
  for (const char* name : {"lhs_min", "lhs_max", "rhs_min", "rhs_max"}) op.input(name).own_dtype();
  return op.dtypes(DTypeSet::numeric).not_differentiable(kRounded);
}
std::vector<SampleInput> pair_sample() {
  return {levels_sample({2, 3}), levels_sample({2, 3}), low_sample(), high_sample(), low_sample(), high_sample()};
}

struct SumAttrs : CalibratedRange {
  static void fields(AttrFields<SumAttrs>& f) { range_fields(f); }
};
GLUINO_OP(_contrib_quantized_elemwise_add, SumAttrs) {
  composed(declare_pair(op.doc("The sum of what two tensors of levels stand for: of 8 bits between known bounds, else int32."))
               .outputs(quantized_outputs())
               .dtype([](const SumAttrs& a, std::span<const DType>, DType) {
                 return quantized_dtypes(a.is_known() ? DType::int8 : DType::int32);
               }),
           [](const SumAttrs& a, std::span<const Tensor> in) {
             const Tensor sum = call("elemwise_add", {real_of(in[0], in[2], in[3]), real_of(in[1], in[4], in[5])});
             if (a.is_known()) return quantized(sum, a.low(), a.high(), DType::int8);
             const Tensor bound = greater_size(in[2], in[3]) + greater_size(in[4], in[5]);
             const Tensor level = as_dtype(bound, DType::float64) / kInt32Levels;
             Tensors found = summed(call("broadcast_div", {as_dtype(sum, DType::float64), level}), level);
             return Tensors{found[0], -bound, bound};
           })
      .sample(pair_sample())
      .sample(pair_sample(), calibrated(SumAttrs{}, -3, 3));
}

struct ProductAttrs : CalibratedRange {
  bool enable_float_output = false;
  static void fields(AttrFields<ProductAttrs>& f) {
    range_fields(f);
    f.field("enable_float_output", &ProductAttrs::enable_float_output, "give the real numbers instead of levels");
  }
};
GLUINO_OP(_contrib_quantized_elemwise_mul, ProductAttrs) {
  composed(declare_pair(op.doc("The product of what two tensors of levels stand for: of 8 bits between known bounds, else int32, or real."))
               .num_outputs([](const ProductAttrs& a) { return a.enable_float_output ? 1 : 3; })
               .output_names(
                   [](const ProductAttrs& a) { return a.enable_float_output ? std::vector<std::string>{"output"} : quantized_outputs(); })
               .dtype([](const ProductAttrs& a, std::span<const DType>, DType) {
                 if (a.enable_float_output) return std::vector<DType>{DType::float32};
                 return quantized_dtypes(a.is_known() ? DType::int8 : DType::int32);
               }),
           [](const ProductAttrs& a, std::span<const Tensor> in) -> Tensors {
             const Tensor level = level_of(in[0].dtype(), in[2], in[3]) * level_of(in[1].dtype(), in[4], in[5]);
             const Tensor product = call("elemwise_mul", {as_dtype(in[0], DType::float64), as_dtype(in[1], DType::float64)});
             if (!a.enable_float_output && !a.is_known()) return summed(product, level);
             const Tensor real = call("broadcast_mul", {as_dtype(product, DType::float32), level});
             if (a.enable_float_output) return {real};
             return quantized(real, a.low(), a.high(), DType::int8);
           })
      .sample(pair_sample())
      .sample(pair_sample(), calibrated(ProductAttrs{}, -3, 3))
      .sample(pair_sample(), {.enable_float_output = true});
}

// ---- layers between dequantize and quantize

struct QuantizedNormAttrs : CalibratedRange {
  double eps = 1e-3, momentum = 0.9;
  bool fix_gamma = true, use_global_stats = false, output_mean_var = false;
  int64_t axis = 1;
  static void fields(AttrFields<QuantizedNormAttrs>& f) {
    range_fields(f);
    f.field("eps", &QuantizedNormAttrs::eps, "added to the variance")
        .field("momentum", &QuantizedNormAttrs::momentum, "has no effect: the statistics stay")
        .field("fix_gamma", &QuantizedNormAttrs::fix_gamma, "treat gamma as ones")
        .field("use_global_stats", &QuantizedNormAttrs::use_global_stats, "has no effect: the moving statistics are used")
        .field("output_mean_var", &QuantizedNormAttrs::output_mean_var, "has no effect")
        .field("axis", &QuantizedNormAttrs::axis, "the axis of the channels");
  }
};
GLUINO_OP(_contrib_quantized_batch_norm, QuantizedNormAttrs) {
  op.doc("Batch normalization with known statistics, from levels of 8 bits to such between known bounds.").input("data");
  for (const char* name : {"gamma", "beta", "moving_mean", "moving_var", "min_data", "max_data"}) op.input(name).own_dtype();
  composed(op.ignores({"cudnn_off"})
               .dtypes(DTypeSet::numeric)
               .outputs(quantized_outputs())
               .dtype([](const QuantizedNormAttrs&, std::span<const DType>, DType) { return quantized_dtypes(DType::int8); }),
           [](const QuantizedNormAttrs& a, std::span<const Tensor> in) {
             if (!a.is_known()) throw AttrError("min_calib_range and max_calib_range are needed: quantize the model with calibration");
             const Tensor x = real_of(in[0], in[5], in[6]);
             Shape column = Shape::filled(x.ndim(), 1);
             column[normalize_axis(a.axis, x.shape())] = -1;
             const Tensor spread = call("rsqrt", {in[4] + a.eps}), scale = a.fix_gamma ? spread : spread * in[1];
             const Tensor shift = in[2] - in[3] * scale;
             const Tensor y = call("broadcast_add", {call("broadcast_mul", {x, reshaped(scale, column)}), reshaped(shift, column)});
             return quantized(y, a.low(), a.high(), DType::int8);
           })
      .not_differentiable(kRounded)
      .sample({levels_sample({2, 3, 2}), {3}, {3}, {3}, uniform_sample({3}, 0.5, 2), low_sample(), high_sample()},
              calibrated(QuantizedNormAttrs{.fix_gamma = false}, -3, 3));
}

struct QuantizedRnnAttrs {
  int64_t state_size = 0, num_layers = 1;
  std::string mode = "lstm";
  bool bidirectional = false, state_outputs = false;
  double p = 0;
  std::optional<int64_t> projection_size;
  static void fields(AttrFields<QuantizedRnnAttrs>& f) {
    f.required("state_size", &QuantizedRnnAttrs::state_size, "size of the state of each layer")
        .required("num_layers", &QuantizedRnnAttrs::num_layers, "number of stacked layers")
        .field("bidirectional", &QuantizedRnnAttrs::bidirectional, "whether to run in both directions")
        .required("mode", &QuantizedRnnAttrs::mode, "rnn_relu, rnn_tanh, lstm or gru")
        .field("p", &QuantizedRnnAttrs::p, "has no effect: nothing is dropped when predicting")
        .field("state_outputs", &QuantizedRnnAttrs::state_outputs, "also give the final states")
        .field("projection_size", &QuantizedRnnAttrs::projection_size, "size of the projection of an lstm");
  }
  bool is_lstm() const { return mode == "lstm"; }
};
GLUINO_OP(_contrib_quantized_rnn, QuantizedRnnAttrs) {
  composed(op.doc("A recurrent layer on unsigned levels with a scale and a shift.")
               .input("data")
               .input("parameters")
               .own_dtype()
               .input("state")
               .own_dtype()
               .input("state_cell")
               .own_dtype()
               .present_if([](const QuantizedRnnAttrs& a) { return a.is_lstm(); })
               .input("data_scale")
               .own_dtype()
               .input("data_shift")
               .own_dtype()
               .ignores({"lstm_state_clip_min", "lstm_state_clip_max", "lstm_state_clip_nan", "use_sequence_length"})
               .dtypes(DTypeSet::numeric)
               .num_outputs([](const QuantizedRnnAttrs& a) { return a.state_outputs ? (a.is_lstm() ? 3 : 2) : 1; })
               .dtype([](const QuantizedRnnAttrs&, std::span<const DType>, DType) { return DType::float32; }),
           [](const QuantizedRnnAttrs& a, std::span<const Tensor> in) {
             const Tensor levels = as_dtype(in[0], DType::float32);
             const Tensor x = call("broadcast_div", {call("broadcast_sub", {levels, in[in.size() - 1]}), in[in.size() - 2]});
             Tensors inputs{x, in[1], in[2]};
             if (a.is_lstm()) inputs.push_back(in[3]);
             Tensors found = call_all("RNN", inputs,
                                      {{"state_size", a.state_size},
                                       {"num_layers", a.num_layers},
                                       {"mode", a.mode},
                                       {"bidirectional", a.bidirectional},
                                       {"state_outputs", a.state_outputs},
                                       {"projection_size", a.projection_size ? AttrValue(*a.projection_size) : AttrValue()}});
             found.resize(a.state_outputs ? (a.is_lstm() ? 3 : 2) : 1);  // without the masks of dropped values
             return found;
           })
      .not_differentiable(kRounded)
      .sample({levels_sample({3, 2, 2}), {36}, {1, 2, 2}, uniform_sample({1}, 1, 2), uniform_sample({1}, 1, 2)},
              {.state_size = 2, .num_layers = 1, .mode = "gru"});
}

// ---- products of prepared matrices: levels of data and weight, scaled by the caller

GLUINO_OP(_contrib_intgemm_maxabsolute, NoAttrs) {
  composed(op.doc("The greatest size of an element.").alias("_npx_intgemm_maxabsolute").input("data"),
           [](const NoAttrs&, std::span<const Tensor> in) { return reshaped(reduced("max", call("abs", {in[0]}), {}, false), {1}); })
      .not_differentiable("it prepares data for whole numbers")
      .sample({{2, 3}});
}
Tensor as_levels(const Tensor& x, const Tensor& most) { return quantized(as_dtype(x, DType::float32), -most, most, DType::int8)[0]; }
GLUINO_OP(_contrib_intgemm_prepare_data, NoAttrs) {
  composed(op.doc("Data as levels of the greatest size.")
               .alias("_npx_intgemm_prepare_data")
               .input("data")
               .input("maxabs")
               .own_dtype()
               .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::int8; }),
           [](const NoAttrs&, std::span<const Tensor> in) { return as_levels(in[0], in[1]); })
      .not_differentiable(kRounded)
      .sample({{2, 3}, high_sample()});
}
struct PreparedAttrs {
  bool already_quantized = false;
  static void fields(AttrFields<PreparedAttrs>& f) {
    f.field("already_quantized", &PreparedAttrs::already_quantized, "whether the weight is levels already");
  }
};
GLUINO_OP(_contrib_intgemm_prepare_weight, PreparedAttrs) {
  composed(op.doc("A weight as levels of the greatest size, in the order of its elements.")
               .alias("_npx_intgemm_prepare_weight")
               .input("weight")
               .input("maxabs")
               .own_dtype()
               .present_if([](const PreparedAttrs& a) { return !a.already_quantized; })
               .dtypes(DTypeSet::numeric)
               .dtype([](const PreparedAttrs&, std::span<const DType>, DType) { return DType::int8; }),
           [](const PreparedAttrs& a, std::span<const Tensor> in) {
             return a.already_quantized ? as_dtype(in[0], DType::int8) : as_levels(in[0], in[1]);
           })
      .not_differentiable(kRounded)
      .sample({{2, 3}, high_sample()})
      .sample({levels_sample({2, 3})}, {.already_quantized = true});
}
GLUINO_OP(_contrib_intgemm_take_weight, NoAttrs) {
  composed(op.doc("Rows of a prepared weight.")
               .alias("_npx_intgemm_take_weight")
               .input("weight")
               .input("indices")
               .own_dtype()
               .dtypes(DTypeSet::numeric),
           [](const NoAttrs&, std::span<const Tensor> in) { return taken(in[0], in[1], 0); })
      .not_differentiable(kRounded)
      .sample({levels_sample({4, 3}), index_sample({2}, 4)});
}
enum class ProductType : uint8_t { float32, int32 };
struct PreparedProductAttrs {
  int64_t num_hidden = 0;
  bool no_bias = false, flatten = true;
  ProductType out_type = ProductType::float32;
  static void fields(AttrFields<PreparedProductAttrs>& f) {
    f.required("num_hidden", &PreparedProductAttrs::num_hidden, "number of outputs")
        .field("no_bias", &PreparedProductAttrs::no_bias, "leave the bias out")
        .field("flatten", &PreparedProductAttrs::flatten, "treat all axes but the first as one")
        .choice("out_type", &PreparedProductAttrs::out_type, {"float32", "int32"}, "dtype of the result");
  }
  bool is_real() const { return out_type == ProductType::float32; }
};
GLUINO_OP(_contrib_intgemm_fully_connected, PreparedProductAttrs) {
  composed(
      op.doc("The dense layer on a prepared weight: the product of levels times a scale, plus the bias.")
          .alias("_npx_intgemm_fully_connected")
          .input("data")
          .input("weight")
          .own_dtype()
          .input("scaling")
          .own_dtype()
          .present_if([](const PreparedProductAttrs& a) { return a.is_real(); })
          .input("bias")
          .own_dtype()
          .present_if([](const PreparedProductAttrs& a) { return !a.no_bias; })
          .dtypes(DTypeSet::numeric)
          .dtype([](const PreparedProductAttrs& a, std::span<const DType>, DType) { return a.is_real() ? DType::float32 : DType::int32; }),
      [](const PreparedProductAttrs& a, std::span<const Tensor> in) {
        const bool is_prepared = !is_floating(in[0].dtype());
        const Tensor most =
            is_prepared ? Tensor() : reshaped(reduced("max", call("abs", {as_dtype(in[0], DType::float32)}), {}, false), {1});
        const Tensor levels = is_prepared ? in[0] : as_levels(in[0], most);
        const Tensor product = call("FullyConnected", {as_dtype(levels, DType::float64), as_dtype(in[1], DType::float64)},
                                    {{"num_hidden", a.num_hidden}, {"no_bias", true}, {"flatten", a.flatten}});
        Tensor out = as_dtype(product, a.is_real() ? DType::float32 : DType::int32);
        if (a.is_real()) out = call("broadcast_mul", {out, is_prepared ? in[2] : in[2] * (most / 127)});
        return a.no_bias ? out : call("broadcast_add", {out, as_dtype(in.back(), out.dtype())});
      })
      .not_differentiable(kRounded)
      .sample({{2, 3}, levels_sample({4, 3}), uniform_sample({1}, 0, 1), {4}}, {.num_hidden = 4})
      .sample({levels_sample({2, 3}), levels_sample({4, 3})}, {.num_hidden = 4, .no_bias = true, .out_type = ProductType::int32});
}

}  // namespace
}  // namespace gluino::ops
