// Fourier transforms as functions, made of the two operators: the transform of real rows, and the real part of the inverse of complex ones,
// each with real and imaginary parts in turns.
#include "base/format.h"
#include "gluino/functions.h"
#include "gluino/op.h"

namespace gluino {
namespace {

// The place of an axis, from 0 on.
int64_t place_of(const char* function, const Tensor& x, int64_t axis) {
  if (!x.defined()) raise<UserError>("{}: a part of the input is a null tensor", function);
  const int64_t ndim = x.ndim(), place = axis < 0 ? axis + ndim : axis;
  if (place < 0 || place >= ndim) raise<IndexError>("{}: there is no axis {} in shape {}", function, axis, x.shape());
  return place;
}
int64_t place_of(const char* function, const Complex& x, int64_t axis) {
  const int64_t place = place_of(function, x.real, axis);
  place_of(function, x.imag, axis);
  if (!(x.real.shape() == x.imag.shape()))
    raise<ShapeError>("{}: the real part has shape {}, the imaginary part {}", function, x.real.shape(), x.imag.shape());
  return place;
}

// With the axis at the end, where the operators work; its own inverse.
Tensor at_end(const Tensor& x, int64_t place) {
  return place == x.ndim() - 1 ? x : call("SwapAxis", {x}, {{"dim1", place}, {"dim2", int64_t{x.ndim()} - 1}});
}
Complex at_end(const Complex& x, int64_t place) { return {at_end(x.real, place), at_end(x.imag, place)}; }

Complex transform(const Tensor& rows) {
  const Tensor x = is_floating(rows.dtype()) ? rows : rows.astype(DType::float32);
  const Tensors parts = call_all("SliceChannel", Tensors{call("_contrib_fft", {x}).reshape({-1, 2})},
                                 {{"num_outputs", int64_t{2}}, {"axis", int64_t{1}}, {"squeeze_axis", true}});
  return {call("reshape_like", {parts[0], x}), call("reshape_like", {parts[1], x})};
}
// (a + ib) becomes A + iB, whose parts are complex themselves
Complex transform(const Complex& x) {
  const Complex a = transform(x.real), b = transform(x.imag);
  return {a.real - b.imag, a.imag + b.real};
}
Tensor inverse_real(const Tensor& real, const Tensor& imag) {
  Shape merged = Shape::filled(real.ndim() - 1, 0);
  merged.push_back(-3);
  const Tensor pairs = call("stack", {real, imag}, {{"axis", int64_t{real.ndim()}}, {"num_args", int64_t{2}}}).reshape(merged);
  return call("_contrib_ifft", {pairs}) / static_cast<double>(real.extent(-1));
}
// The imaginary part of z is the real part of -iz.
Complex inverse(const Complex& x) { return {inverse_real(x.real, x.imag), inverse_real(x.imag, -x.real)}; }

Tensor part(const Tensor& x, int64_t begin, int64_t end) {
  return call("_slice_part", {x}, {{"axis", int64_t{-1}}, {"begin", begin}, {"end", end}});
}

}  // namespace

Complex fft(const Tensor& x, int64_t axis) {
  const int64_t place = place_of("fft", x, axis);
  return at_end(transform(at_end(x, place)), place);
}
Complex fft(const Complex& x, int64_t axis) {
  const int64_t place = place_of("fft", x, axis);
  return at_end(transform(at_end(x, place)), place);
}
Complex ifft(const Complex& x, int64_t axis) {
  const int64_t place = place_of("ifft", x, axis);
  return at_end(inverse(at_end(x, place)), place);
}

Complex rfft(const Tensor& x, int64_t axis) {
  const int64_t place = place_of("rfft", x, axis), half = x.extent(place) / 2 + 1;
  const Complex all = transform(at_end(x, place));
  return at_end(Complex{part(all.real, 0, half), part(all.imag, 0, half)}, place);
}
Tensor irfft(const Complex& x, int64_t axis, std::optional<int64_t> extent) {
  const int64_t place = place_of("irfft", x, axis), half = x.real.extent(place), n = extent.value_or(2 * (half - 1));
  if (n < 1 || n / 2 + 1 != half)
    raise<ShapeError>("irfft: {} numbers cannot become {}: they stand for {} or {}", half, n, 2 * half - 2, 2 * half - 1);
  const Complex first = at_end(x, place);
  const int64_t left = n - half;  // what follows is the conjugate of what was, backwards
  if (left == 0) return at_end(inverse_real(first.real, first.imag), place);
  const auto mirrored = [&](const Tensor& t) { return call("reverse", {part(t, 1, left + 1)}, {{"axis", Shape{t.ndim() - 1}}}); };
  const auto joined = [](const Tensor& a, const Tensor& b) {
    return call("Concat", {a, b}, {{"dim", int64_t{-1}}, {"num_args", int64_t{2}}});
  };
  return at_end(inverse_real(joined(first.real, mirrored(first.real)), joined(first.imag, -mirrored(first.imag))), place);
}

Complex fft2(const Tensor& x) { return fft(fft(x, -1), -2); }
Complex fft2(const Complex& x) { return fft(fft(x, -1), -2); }
Complex ifft2(const Complex& x) { return ifft(ifft(x, -1), -2); }

}  // namespace gluino
