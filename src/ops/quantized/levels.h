// Numbers of 8 bits stand for real ones between two bounds, which travel beside them as tensors of one element. Signed numbers are levels
// of the greater bound's size, unsigned ones levels above the lower bound; products of both are summed as int32 around 0.
#pragma once
#include "ops/numpy/composed.h"

namespace gluino::ops {

constexpr double kInt32Levels = 2147483647;

inline double levels_of(DType dtype) { return dtype == DType::uint8 ? 255 : dtype == DType::int32 ? kInt32Levels : 127; }

inline Tensor greater_size(const Tensor& low, const Tensor& high) {
  return call("broadcast_maximum", {call("abs", {low}), call("abs", {high})});
}
// What one level stands for.
inline Tensor level_of(DType dtype, const Tensor& low, const Tensor& high) {
  return dtype == DType::uint8 ? (high - low) / 255 : greater_size(low, high) / levels_of(dtype);
}
// The real numbers that levels stand for; only between layers unsigned ones may start elsewhere than at 0.
inline Tensor real_of(const Tensor& x, const Tensor& low, const Tensor& high) {
  const Tensor scaled = call("broadcast_mul", {as_dtype(x, DType::float32), level_of(x.dtype(), low, high)});
  return x.dtype() == DType::uint8 ? call("broadcast_add", {scaled, low}) : scaled;
}

inline Tensor number_tensor(double value) { return call("_full", {}, {{"shape", Shape{1}}, {"value", value}}); }

// Levels with their bounds: what operators that give numbers of 8 bits return.
inline Tensors quantized(const Tensor& x, const Tensor& low, const Tensor& high, DType dtype) {
  const auto inverse = [](double levels, const Tensor& width) { return levels / call("_maximum_scalar", {width}, {{"scalar", 1e-30}}); };
  const auto clipped = [](const Tensor& t, double least, double most) { return call("clip", {t}, {{"a_min", least}, {"a_max", most}}); };
  if (dtype == DType::uint8) {
    const Tensor levels = call("broadcast_mul", {call("broadcast_sub", {x, low}), inverse(255, high - low)});
    return {as_dtype(clipped(call("floor", {levels + 0.5}), 0, 255), dtype), low, high};
  }
  const Tensor size = greater_size(low, high);
  const Tensor levels = call("broadcast_mul", {x, inverse(127, size)});
  const Tensor rounded = call("sign", {levels}) * call("floor", {call("abs", {levels}) + 0.5});
  return {as_dtype(clipped(rounded, -127, 127), dtype), -size, size};
}

// Sums of products in int32: exact, since float64 holds all of them. Bounds follow from what one level stands for.
inline Tensors summed(const Tensor& exact, const Tensor& level) {
  const Tensor bound = level * kInt32Levels;
  const Tensor whole = call("clip", {call("rint", {exact})}, {{"a_min", -kInt32Levels}, {"a_max", kInt32Levels}});
  return {as_dtype(whole, DType::int32), -bound, bound};
}

enum class QuantizedType : uint8_t { automatic, int8, uint8 };
// The bounds that were found when a model was quantized.
struct CalibratedRange {
  std::optional<double> min_calib_range, max_calib_range;
  bool is_known() const { return min_calib_range && max_calib_range; }
  Tensor low() const { return number_tensor(*min_calib_range); }
  Tensor high() const { return number_tensor(*max_calib_range); }
};
template <class A>
void range_fields(AttrFields<A>& f) {
  f.field("min_calib_range", static_cast<std::optional<double> A::*>(&CalibratedRange::min_calib_range),
          "lower bound of the result; None where it follows from values")
      .field("max_calib_range", static_cast<std::optional<double> A::*>(&CalibratedRange::max_calib_range),
             "upper bound of the result; None where it follows from values");
}
template <class A>
A calibrated(A attrs, double low, double high) {
  attrs.min_calib_range = low;
  attrs.max_calib_range = high;
  return attrs;
}
inline DType chosen_type(QuantizedType type, const CalibratedRange& range) {
  if (type != QuantizedType::automatic) return type == QuantizedType::uint8 ? DType::uint8 : DType::int8;
  return range.is_known() && *range.min_calib_range >= 0 ? DType::uint8 : DType::int8;
}

inline std::vector<std::string> quantized_outputs() { return {"output", "min_output", "max_output"}; }
inline std::vector<DType> quantized_dtypes(DType dtype) { return {dtype, DType::float32, DType::float32}; }
inline SampleInput levels_sample(Shape s) { return {std::move(s), -5, 6, true}; }
inline SampleInput low_sample() { return uniform_sample({1}, -2, -1); }
inline SampleInput high_sample() { return uniform_sample({1}, 1, 2); }
constexpr const char* kRounded = "it rounds to whole numbers";

}  // namespace gluino::ops
