// What operators that are functions of others share: short calls, axes and attributes as NumPy has them.
#pragma once
#include <numeric>

#include "dispatch/composition.h"
#include "ops/common.h"

namespace gluino::ops {

inline Tensor reshaped(const Tensor& x, const Shape& shape) { return call("_npi_reshape", {x}, {{"newshape", shape}}); }
inline Tensor as_dtype(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : call("Cast", {x}, {{"dtype", dtype}}); }
// What is not a floating number is computed in float32.
inline DType real_dtype(DType dtype) { return is_floating(dtype) ? dtype : DType::float32; }
inline Tensor as_real(const Tensor& x) { return as_dtype(x, real_dtype(x.dtype())); }

// The extents of [first, last).
inline Shape part_of(const Shape& s, int first, int last) { return Shape(s.data() + first, last - first); }

inline AttrValue attr_or_none(const std::optional<Shape>& value) { return value ? AttrValue(*value) : AttrValue(); }

// The axes of an attribute as numbers from 0; all of them for None.
inline Shape axes_of(const std::optional<Shape>& axis, const Shape& shape) {
  Shape axes;
  if (!axis)
    for (int i = 0; i < shape.ndim(); ++i) axes.push_back(i);
  else
    for (int64_t a : *axis) axes.push_back(normalize_axis(a, shape));
  return axes;
}
inline bool contains(const Shape& numbers, int64_t number) { return std::find(numbers.begin(), numbers.end(), number) != numbers.end(); }

// A reduction by NumPy's rules: what has no axes left is a scalar, and no axes are no reduction.
inline Tensor reduced(std::string_view op, const Tensor& x, const std::optional<Shape>& axis, bool keepdims) {
  if (x.ndim() == 0 || (axis && axis->empty())) return x;
  const Tensor found = call(op, {x}, {{"axis", attr_or_none(axis)}, {"keepdims", keepdims}});
  const bool is_scalar = !keepdims && axes_of(axis, x.shape()).ndim() == x.ndim();
  return is_scalar ? reshaped(found, {}) : found;
}

inline Tensor moved_axes(const Tensor& x, const Shape& source, const Shape& destination) {
  if (source.ndim() != destination.ndim())
    raise<AttrError>("source {} and destination {} must name the same number of axes", source, destination);
  const Shape from = axes_of(source, x.shape()), to = axes_of(destination, x.shape());
  Shape order = Shape::filled(x.ndim(), -1);
  for (int i = 0; i < from.ndim(); ++i) {
    if (std::count(from.begin(), from.end(), from[i]) > 1 || order[static_cast<int>(to[i])] >= 0)
      raise<AttrError>("source {} or destination {} names an axis twice", source, destination);
    order[static_cast<int>(to[i])] = from[i];
  }
  int64_t next = 0;
  for (int64_t& place : order) {
    if (place >= 0) continue;
    while (contains(from, next)) ++next;
    place = next++;
  }
  return call("transpose", {x}, {{"axes", order}});
}

inline Tensor joined(const Tensors& parts, int64_t axis) {
  return call("Concat", parts, {{"dim", axis}, {"num_args", static_cast<int64_t>(parts.size())}});
}
inline Tensor slice_of(const Tensor& x, int64_t axis, int64_t begin, std::optional<int64_t> end) {
  return call("_slice_part", {x}, {{"axis", axis}, {"begin", begin}, {"end", end ? AttrValue(*end) : AttrValue()}});
}
inline Tensor taken(const Tensor& x, const Tensor& indices, int64_t axis) {
  return call("take", {x, indices}, {{"axis", axis}, {"mode", std::string("clip")}});
}
inline Tensor chosen(const Tensor& condition, const Tensor& yes, const Tensor& no) { return call("_npi_where", {condition, yes, no}); }

struct CountAttrs {
  int64_t num_args = 1;
  static void fields(AttrFields<CountAttrs>& f) { f.field("num_args", &CountAttrs::num_args, "number of inputs; follows from the call"); }
};

}  // namespace gluino::ops
