// Small helpers that many operator definitions share.
#pragma once
#include "base/format.h"
#include "gluino/op.h"

namespace gluino::ops {

// Sums the axes along which an input of the shape of `like` was broadcast.
Tensor reduce_like(const Tensor& gradient, const Tensor& like);
// 1 where the relation (==, !=, <, <=, >, >=) holds and 0 elsewhere, in the inputs' dtype: a factor for gradients. Tensor's operators
// give truth values.
Tensor indicator(const Tensor& a, std::string_view relation, const Tensor& b);
Tensor indicator(const Tensor& a, std::string_view relation, double b);

// Inside kernels: t itself, or a converted copy.
Tensor with_dtype(const Tensor& t, DType dtype);

struct ScalarAttrs {
  double scalar = 1;
  bool is_int = true;
  static void fields(AttrFields<ScalarAttrs>& f) {
    f.field("scalar", &ScalarAttrs::scalar, "the number on the other side")
        .field("is_int", &ScalarAttrs::is_int, "whether the number was written as an integer; has no effect");
  }
};

// What flows back into a call has the shape of what the call gave.
inline void check_head(const Shape& head, const Shape& given) {
  if (!(head == given)) raise<ShapeError>("head has shape {}, but {} is needed", head, given);
}
inline void check_same_shape(const char* name, const Shape& given, const Shape& needed) {
  if (!(given == needed)) raise<ShapeError>("input '{}' has shape {}, but {} is needed", name, given, needed);
}
inline void check_one_element(const char* name, const Shape& given) {
  if (given.elements() != 1) raise<ShapeError>("input '{}' has shape {}, but one number is needed", name, given);
}

// A number of an attribute as an element.
template <class T>
T element(double value) {
  if constexpr (std::is_same_v<T, bool>)
    return value != 0;
  else if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

// Splits a shape around one axis: outer x extent x inner.
struct AxisSplit {
  int64_t outer, extent, inner;
  AxisSplit(const Shape& s, int axis) : outer(s.elements(0, axis)), extent(s[axis]), inner(s.elements(axis + 1, s.ndim())) {}
};

}  // namespace gluino::ops
