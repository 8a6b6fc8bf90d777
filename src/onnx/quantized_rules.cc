// Whole numbers with a scale and a zero point, rounded exactly as ONNX says: to the nearest, ties to even, then saturated.
#include "base/format.h"
#include "onnx/window.h"

namespace gluino::onnx {
namespace {

// (n,) along an axis of x; one number stays one.
Tensor along(const Tensor& t, int axis, int rank) {
  if (t.ndim() == 0 || t.size() == 1) return t.reshape({1}).reshape({});
  Shape shape = Shape::filled(rank, 1);
  shape[axis] = -1;
  return t.reshape(shape);
}

Tensor saturated(const Tensor& x, DType dtype) {
  const bool is_signed = dtype == DType::int8;
  return clip(x, {.a_min = is_signed ? -128.0 : 0.0, .a_max = is_signed ? 127.0 : 255.0}).astype(dtype);
}

Tensor quantized(const Tensor& x, const Tensor& scale, const Tensor& zero, int axis) {
  const int rank = x.ndim();
  const Tensor steps = round_to_even(broadcast_div(x.astype(DType::float32), along(scale, axis, rank)));
  const DType dtype = zero.defined() ? zero.dtype() : DType::uint8;
  return saturated(zero.defined() ? broadcast_add(steps, along(zero.astype(DType::float32), axis, rank)) : steps, dtype);
}

Tensor without_zero(const Tensor& x, const Tensor& zero, int axis, DType wide) {
  const Tensor numbers = x.astype(wide);
  return zero.defined() ? broadcast_sub(numbers, along(zero.astype(wide), axis, x.ndim())) : numbers;
}

int quantized_axis(Call& c) {
  const int rank = c.rank(0);
  return rank == 0 ? 0 : c.axis(std::min<int64_t>(c.integer("axis", 1), rank - 1), rank);
}

Tensor quantize(Call& c) { return quantized(c.in(0), c.in(1), c.optional(2), quantized_axis(c)); }

Tensor dequantize(Call& c) {
  const int axis = quantized_axis(c);
  const Tensor& scale = c.in(1);
  return broadcast_mul(without_zero(c.in(0), c.optional(2), axis, DType::float32), along(scale, axis, c.rank(0)));
}

Tensors quantize_by_range(Call& c) {
  const Tensor x = c.in(0), zero = constant_of(0, DType::float32);
  const Tensor high = broadcast_maximum(max(x).reshape({}), zero), low = broadcast_minimum(min(x).reshape({}), zero);
  const Tensor scale = (high - low) / 255.0;
  const Tensor point = saturated(round_to_even(broadcast_div(negative(low), scale)), DType::uint8);
  return {quantized(x, scale, point, 0), scale, point};
}

// Sums of products of 8-bit numbers are exact in float64.
Tensor exact_product(Call& c, int a, int a_zero, int b, int b_zero) {
  const Tensor x = c.in(a), y = c.in(b);
  // A vector of zero points: one per row of a, per column of b.
  return matmul(without_zero(x, c.optional(a_zero), x.ndim() - 2, DType::float64),
                without_zero(y, c.optional(b_zero), y.ndim() - 1, DType::float64));
}

Tensor multiply_whole(Call& c) { return exact_product(c, 0, 2, 1, 3).astype(DType::int32); }

Tensor multiply_quantized(Call& c) {
  const Tensor sums = exact_product(c, 0, 2, 3, 5).astype(DType::float32);
  const Tensor scale = broadcast_div(broadcast_mul(c.in(1), c.in(4)), c.in(6));
  return saturated(broadcast_add(round_to_even(broadcast_mul(sums, scale)), c.in(7).astype(DType::float32)), c.in(7).dtype());
}

// Convolution of numbers whose zero has been taken off: padding is the zero point, which is 0 then.
Tensor exact_convolution(Call& c, Tensor x, const Tensor& weight) {
  const Shape& shape = weight.shape();
  Window w = window_of(c, x, Shape(shape.data() + 2, std::max(0, shape.ndim() - 2)));
  if (!w.is_symmetric()) {
    x = pad_for(x, w, 0);
    w.before = Shape::filled(w.axes(), 0);
  }
  return convolution(x, weight,
                     {.kernel = w.kernel,
                      .stride = w.stride,
                      .dilate = w.dilation,
                      .pad = w.before,
                      .num_filter = shape[0],
                      .num_group = c.integer("group", 1),
                      .no_bias = true});
}

Tensor convolve_whole(Call& c) {
  return exact_convolution(c, without_zero(c.in(0), c.optional(2), 1, DType::float64),
                           without_zero(c.in(1), c.optional(3), 0, DType::float64))
      .astype(DType::int32);
}

Tensor convolve_quantized(Call& c) {
  Tensor sums = exact_convolution(c, without_zero(c.in(0), c.optional(2), 1, DType::float64),
                                  without_zero(c.in(3), c.optional(5), 0, DType::float64));
  if (c.has(8)) sums = broadcast_add(sums, along(c.in(8).astype(DType::float64), 1, sums.ndim()));
  const Tensor scale = along(broadcast_div(broadcast_mul(c.in(1), c.in(4)), c.in(6)), 1, sums.ndim());
  const Tensor scaled = round_to_even(broadcast_mul(sums.astype(DType::float32), scale));
  return saturated(broadcast_add(scaled, c.in(7).astype(DType::float32)), c.in(7).dtype());
}

}  // namespace

void add_quantized_rules(Rules& rules) {
  rules.add("QuantizeLinear", quantize);
  rules.add("DequantizeLinear", dequantize);
  rules.add("DynamicQuantizeLinear", quantize_by_range);
  rules.add("MatMulInteger", multiply_whole);
  rules.add("QLinearMatMul", multiply_quantized);
  rules.add("ConvInteger", convolve_whole);
  rules.add("QLinearConv", convolve_quantized);
}

}  // namespace gluino::onnx
