// From real numbers to 8 bits and back.
#include <cmath>

#include "ops/quantized/levels.h"

namespace gluino::ops {
namespace {

Tensor extreme(const char* op, const Tensor& x) { return reshaped(reduced(op, x, {}, false), {1}); }

enum class Unsigned : uint8_t { int8, uint8 };
struct QuantizeAttrs {
  Unsigned out_type = Unsigned::uint8;
  static void fields(AttrFields<QuantizeAttrs>& f) {
    f.choice("out_type", &QuantizeAttrs::out_type, {"int8", "uint8"}, "dtype of the result");
  }
  DType dtype() const { return out_type == Unsigned::uint8 ? DType::uint8 : DType::int8; }
};
GLUINO_OP(_contrib_quantize, QuantizeAttrs) {
  composed(op.doc("Real numbers between two bounds as levels of 8 bits.")
               .input("data")
               .input("min_range")
               .input("max_range")
               .outputs(quantized_outputs())
               .dtype([](const QuantizeAttrs& a, std::span<const DType>, DType) { return quantized_dtypes(a.dtype()); }),
           [](const QuantizeAttrs& a, std::span<const Tensor> in) {
             const auto real = [](const Tensor& t) { return as_dtype(t, DType::float32); };
             return quantized(real(in[0]), real(in[1]), real(in[2]), a.dtype());
           })
      .not_differentiable(kRounded)
      .sample({{2, 3}, low_sample(), high_sample()})
      .sample({{2, 3}, low_sample(), high_sample()}, {.out_type = Unsigned::int8});
}

// The 8 bits that are asked for, and between which bounds.
struct LevelsAttrs : CalibratedRange {
  QuantizedType out_type = QuantizedType::int8;
  static void fields(AttrFields<LevelsAttrs>& f) {
    f.choice("out_type", &LevelsAttrs::out_type, {"auto", "int8", "uint8"},
             "dtype of the result; auto: unsigned where nothing is negative");
    range_fields(f);
  }
};
// Between the bounds, or where none are known between the least and the greatest value.
Tensors quantized_by(const CalibratedRange& range, const Tensor& x, DType dtype) {
  return range.is_known() ? quantized(x, range.low(), range.high(), dtype) : quantized(x, extreme("min", x), extreme("max", x), dtype);
}
GLUINO_OP(_contrib_quantize_v2, LevelsAttrs) {
  composed(op.doc("Real numbers as levels of 8 bits, between known bounds or between the least and the greatest of them.")
               .input("data")
               .dtypes(DTypeSet::numeric)
               .outputs(quantized_outputs())
               .dtype([](const LevelsAttrs& a, std::span<const DType>, DType) { return quantized_dtypes(chosen_type(a.out_type, a)); }),
           [](const LevelsAttrs& a, std::span<const Tensor> in) -> Tensors {
             const DType dtype = chosen_type(a.out_type, a);
             // What is quantized already passes.
             if (in[0].dtype() == dtype && a.is_known()) return {in[0], a.low(), a.high()};
             return quantized_by(a, as_dtype(in[0], DType::float32), dtype);
           })
      .not_differentiable(kRounded)
      .sample({{2, 3}})
      .sample({{2, 3}}, calibrated(LevelsAttrs{.out_type = QuantizedType::automatic}, 0, 1.5));
}

// Levels, and the bounds that say which numbers they stand for.
template <class A>
OpBuilder<A>& takes_levels(OpBuilder<A>& op) {
  return op.input("data").input("min_range").own_dtype().input("max_range").own_dtype().dtypes(DTypeSet::numeric);
}

struct RealTypeAttrs {
  DType out_type = DType::float32;
  static void fields(AttrFields<RealTypeAttrs>& f) { f.field("out_type", &RealTypeAttrs::out_type, "dtype of the result"); }
};
GLUINO_OP(_contrib_dequantize, RealTypeAttrs) {
  composed(takes_levels(op.doc("The real numbers that levels between two bounds stand for."))
               .dtype([](const RealTypeAttrs& a, std::span<const DType>, DType) { return a.out_type; }),
           [](const RealTypeAttrs& a, std::span<const Tensor> in) { return as_dtype(real_of(in[0], in[1], in[2]), a.out_type); })
      .not_differentiable(kRounded)
      .sample({levels_sample({2, 3}), low_sample(), high_sample()});
}

GLUINO_OP(_contrib_requantize, LevelsAttrs) {
  composed(takes_levels(op.doc("Sums of products in int32 as levels of 8 bits."))
               .outputs(quantized_outputs())
               .dtype([](const LevelsAttrs& a, std::span<const DType>, DType) { return quantized_dtypes(chosen_type(a.out_type, a)); }),
           [](const LevelsAttrs& a, std::span<const Tensor> in) {
             return quantized_by(a, real_of(in[0], in[1], in[2]), chosen_type(a.out_type, a));
           })
      .not_differentiable(kRounded)
      .sample({levels_sample({2, 3}), low_sample(), high_sample()});
}

struct AsymmetricAttrs : CalibratedRange {
  static void fields(AttrFields<AsymmetricAttrs>& f) { range_fields(f); }
};
GLUINO_OP(_contrib_quantize_asym, AsymmetricAttrs) {
  composed(op.doc("Real numbers as unsigned levels: level = number * scale + shift.")
               .input("data")
               .dtypes(DTypeSet::numeric)
               .outputs({"output", "scale", "shift"})
               .dtype([](const AsymmetricAttrs&, std::span<const DType>, DType) { return quantized_dtypes(DType::uint8); }),
           [](const AsymmetricAttrs& a, std::span<const Tensor> in) -> Tensors {
             if (in[0].dtype() == DType::uint8) return {in[0], number_tensor(1), number_tensor(0)};
             const Tensor x = as_dtype(in[0], DType::float32);
             if (in[0].dtype() == DType::int8) return {as_dtype(x + 128, DType::uint8), number_tensor(1), number_tensor(128)};
             const Tensor low = a.is_known() ? a.low() : extreme("min", x), high = a.is_known() ? a.high() : extreme("max", x);
             const Tensor scale = 255 / call("_maximum_scalar", {high - low}, {{"scalar", 1e-30}});
             const Tensor shift = 255 - high * scale;
             const Tensor levels = call("floor", {call("broadcast_add", {call("broadcast_mul", {x, scale}), shift}) + 0.5});
             return {as_dtype(call("clip", {levels}, {{"a_min", 0.0}, {"a_max", 255.0}}), DType::uint8), scale, shift};
           })
      .not_differentiable(kRounded)
      .sample({{2, 3}});
}

// ---- the bounds that lose least

struct EntropyAttrs {
  int64_t num_quantized_bins = 255;
  static void fields(AttrFields<EntropyAttrs>& f) {
    f.field("num_quantized_bins", &EntropyAttrs::num_quantized_bins, "how many levels there are");
  }
};
// The divergence of Kullback and Leibler between the inner bins of a histogram and the same in few levels.
double divergence(const std::vector<double>& hist, int64_t first, int64_t last, int64_t levels) {
  const int64_t bins = last - first;
  std::vector<double> p(hist.begin() + first, hist.begin() + last), q(bins, 0);
  for (int64_t i = 0; i < static_cast<int64_t>(hist.size()); ++i) {
    if (i < first) p.front() += hist[i];
    if (i >= last) p.back() += hist[i];
  }
  const int64_t each = bins / levels;
  for (int64_t level = 0; level < levels; ++level) {
    const int64_t from = level * each, to = level + 1 == levels ? bins : from + each;
    double sum = 0, filled = 0;
    for (int64_t i = from; i < to; ++i) {
      sum += hist[first + i];
      filled += p[i] != 0;
    }
    for (int64_t i = from; i < to && filled > 0; ++i) q[i] = p[i] != 0 ? sum / filled : 0;
  }
  double total_p = 0, total_q = 0, found = 0;
  // What is empty in one of them gets a little, taken from the others.
  const auto smooth = [](std::vector<double>& x) {
    double zeros = 0;
    for (double v : x) zeros += v == 0;
    if (zeros == static_cast<double>(x.size())) return false;
    const double share = 1e-4 * zeros / (static_cast<double>(x.size()) - zeros);
    for (double& v : x) v = v == 0 ? 1e-4 : v - share;
    return true;
  };
  if (!smooth(p) || !smooth(q)) return INFINITY;
  for (int64_t i = 0; i < bins; ++i) {
    total_p += p[i];
    total_q += q[i];
  }
  for (int64_t i = 0; i < bins; ++i)
    if (p[i] > 0 && q[i] > 0) found += p[i] / total_p * std::log(p[i] / total_p / (q[i] / total_q));
  return found;
}
GLUINO_OP(_contrib_calibrate_entropy, EntropyAttrs) {
  op.doc("The bound of a symmetric range for which a histogram loses least information in few levels, and that loss.")
      .input("hist")
      .input("hist_edges")
      .outputs({"threshold", "divergence"})
      .kernel_dtypes({DType::float32})
      .shape([](const EntropyAttrs& a, std::span<const Shape> in) {
        if (in[0].ndim() != 1 || in[1].ndim() != 1 || in[1][0] != in[0][0] + 1 || in[0][0] % 2 == 0)
          raise<ShapeError>("hist has shape {} and hist_edges {}, but an odd number of bins and one edge more are needed", in[0], in[1]);
        if (a.num_quantized_bins < 1 || a.num_quantized_bins > in[0][0])
          raise<AttrError>("num_quantized_bins is {}, but 1 to the {} bins are possible", a.num_quantized_bins, in[0][0]);
        return Shape{1};
      })
      .kernel([](const EntropyAttrs& a, KernelContext& k) {
        const std::vector<double> hist = k.in(0).to_vector<double>();
        const auto bins = static_cast<int64_t>(hist.size());
        double best = INFINITY, threshold = k.data<float>(1)[bins];
        for (int64_t half = a.num_quantized_bins / 2; half <= bins / 2; ++half) {
          const int64_t first = bins / 2 - half, last = bins / 2 + half + 1;
          const double found = divergence(hist, first, last, std::min(a.num_quantized_bins, last - first));
          if (found < best) {
            best = found;
            threshold = k.data<float>(1)[last];
          }
        }
        k.out_data<float>(0)[0] = static_cast<float>(threshold);
        k.out_data<float>(1)[0] = static_cast<float>(best);
      })
      .not_differentiable("it chooses a bound")
      .sample({uniform_sample({15}, 1, 9), uniform_sample({16}, 1, 2)}, {.num_quantized_bins = 5});
}

}  // namespace
}  // namespace gluino::ops
