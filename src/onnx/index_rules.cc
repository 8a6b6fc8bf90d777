// Elements chosen and written by index.
#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

Tensor gathered(Call& c) {
  const int axis = c.axis(c.integer("axis", 0), c.rank(0));
  return take(c.in(0), c.in(1), {.axis = axis});
}

// The last axis of indices, which holds coordinates, as the first one.
Tensor coordinates_first(const Tensor& indices) {
  Shape order{indices.ndim() - 1};
  for (int i = 0; i + 1 < indices.ndim(); ++i) order.push_back(i);
  return transpose(indices, {.axes = order});
}

// Coordinates of every element of a tensor of this shape: (axes, elements).
Tensor grid(const Shape& shape) {
  std::vector<int64_t> places;
  const int64_t n = shape.elements();
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    const int64_t inner = shape.elements(axis + 1, shape.ndim());
    for (int64_t i = 0; i < n; ++i) places.push_back(i / inner % shape[axis]);
  }
  return from_vector(places, Shape{shape.ndim(), n});
}

Tensor gathered_nd(Call& c) {
  const Tensor data = c.in(0), indices = c.in(1).astype(DType::int64);
  const auto batch_axes = static_cast<int>(c.integer("batch_dims", 0));
  if (batch_axes == 0) return gather_nd(data, coordinates_first(indices));
  if (batch_axes >= indices.ndim()) raise<ShapeError>("batch_dims is {}, but indices have {} axes", batch_axes, indices.ndim());
  // Coordinates on the batch axes are those of the indices themselves.
  Shape places, batch;
  for (int i = 0; i + 1 < indices.ndim(); ++i) places.push_back(indices.extent(i));
  const Tensor all = grid(places).reshape(to_shape([&] {
    std::vector<int64_t> full{places.ndim()};
    for (const int64_t n : places) full.push_back(n);
    return full;
  }()));
  const Tensor leading = part_of(all, 0, 0, batch_axes);
  return gather_nd(data, concat({leading, coordinates_first(indices)}, {.dim = 0}));
}

using Combine = Tensor (*)(const Tensor&, const Tensor&);
Combine combination(Call& c) {
  const std::string how = c.text("reduction", "none");
  if (how == "none") return nullptr;
  if (how == "add") return broadcast_add;
  if (how == "mul") return broadcast_mul;
  if (how == "max") return broadcast_maximum;
  if (how == "min") return broadcast_minimum;
  c.refuse(fmt::format("reduction '{}' is not known", how));
}

// `coordinates`: (axes, places); `updates`: (places, ...). Places may be named twice: they take part one after the other.
Tensor scattered(const Tensor& data, const Tensor& coordinates, const Tensor& updates, Combine combine) {
  const auto write = [](const Tensor& to, const Tensor& what, const Tensor& at) {
    return call("_scatter_set_nd", {to, what, at}, {{"shape", to.shape()}});
  };
  if (!combine) return write(data, updates, coordinates);
  if (combine == static_cast<Combine>(broadcast_add) && is_floating(data.dtype()))
    return data + call("_gather_nd_backward", {updates, coordinates, data});
  Tensor result = data;
  for (int64_t i = 0; i < updates.extent(0); ++i) {
    const auto one = [&](const Tensor& t, int axis) {
      return slice_axis(t, {.axis = axis, .begin = i, .end = std::optional<int64_t>(i + 1)});
    };
    const Tensor at = one(coordinates, 1);
    result = write(result, combine(gather_nd(result, at), one(updates, 0)), at);
  }
  return result;
}

Tensor scattered_nd(Call& c) {
  const Tensor data = c.in(0), indices = c.in(1).astype(DType::int64), updates = c.in(2);
  const int64_t axes = indices.extent(-1);
  Shape places{-1};
  for (int i = static_cast<int>(axes); i < data.ndim(); ++i) places.push_back(data.extent(i));
  if (indices.size() == 0) return identity(data);
  return scattered(data, transpose(indices.reshape({-1, axes})), updates.reshape(places), combination(c));
}

Tensor scattered_elements(Call& c) {
  const Tensor data = c.in(0), indices = c.in(1).astype(DType::int64), updates = c.in(2);
  const int axis = c.axis(c.integer("axis", 0), data.ndim());
  if (indices.size() == 0) return identity(data);
  const Tensor all = grid(indices.shape());
  Tensors rows;
  for (int i = 0; i < data.ndim(); ++i)
    rows.push_back(i == axis ? indices.reshape({1, -1}) : slice_axis(all, {.axis = 0, .begin = i, .end = std::optional<int64_t>(i + 1)}));
  const Tensor coordinates = rows.size() == 1 ? rows[0] : concat(rows, {.dim = 0});
  return scattered(data, coordinates, updates.reshape({-1}), combination(c));
}

Tensor gathered_elements(Call& c) {
  const Tensor data = c.in(0), indices = c.in(1).astype(DType::int64);
  const int axis = c.axis(c.integer("axis", 0), data.ndim());
  Tensor from = data;
  // Indices may cover less of the other axes than the data.
  for (int i = 0; i < data.ndim(); ++i)
    if (i != axis && indices.extent(i) != data.extent(i)) from = part_of(from, i, 0, indices.extent(i));
  return call("_take_along_axis", {from, indices}, {{"axis", int64_t{axis}}});
}

Tensor hot_ones(Call& c) {
  const Tensor values = c.in(2);
  const int64_t depth = c.whole_number(1);
  if (depth < 0) raise<UserError>("the depth is {}", depth);
  const Tensor indices = c.in(0).astype(DType::int64);
  const int rank = indices.ndim() + 1, axis = c.axis(c.integer("axis", -1), rank);
  const Tensor wrapped =
      where_broadcast(indices < 0, broadcast_add(indices, constant_of(static_cast<double>(depth), DType::int64)), indices);
  const Tensor hot = one_hot(wrapped, {.depth = depth, .dtype = values.dtype()});
  const auto part = [&](int64_t i) { return slice_axis(values, {.axis = 0, .begin = i, .end = std::optional<int64_t>(i + 1)}); };
  Tensor filled = broadcast_add(broadcast_mul(hot, broadcast_sub(part(1), part(0))), part(0));
  if (axis == rank - 1) return filled;
  Shape order;
  for (int i = 0; i < rank; ++i) order.push_back(i == axis ? rank - 1 : i < axis ? i : i - 1);
  return transpose(filled, {.axes = order});
}

Tensor running_sum(Call& c) {
  Tensor x = c.in(0);
  const int axis = c.axis(c.whole_number(1), x.ndim());
  const bool reverse = c.integer("reverse", 0) != 0;
  if (reverse) x = flip(x, {.axis = Shape{axis}});
  Tensor sum = cumsum(x, {.axis = axis});
  if (c.integer("exclusive", 0)) {
    const Tensor first = zeros_like(slice_axis(x, {.axis = axis, .begin = 0, .end = std::optional<int64_t>(1)}));
    sum = concat({first, part_of(sum, axis, 0, -1)}, {.dim = axis});
  }
  return reverse ? flip(sum, {.axis = Shape{axis}}) : sum;
}

Tensors largest(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = c.axis(c.integer("axis", -1), x.ndim());
  const int64_t k = c.has_attribute("k") ? c.integer("k", 1) : c.whole_number(1);
  Tensors both = topk(x, {.axis = axis, .k = k, .ret_typ = "both", .is_ascend = c.integer("largest", 1) == 0, .dtype = DType::int64});
  both.resize(2);
  return both;
}

}  // namespace

void add_index_rules(Rules& rules) {
  rules.add("Gather", gathered);
  rules.add("GatherElements", gathered_elements);
  rules.add("GatherND", gathered_nd);
  rules.add("ScatterND", scattered_nd);
  rules.add("ScatterElements", scattered_elements);
  rules.add("Scatter", scattered_elements);
  rules.add("OneHot", hot_ones);
  rules.add("CumSum", running_sum);
  rules.add("TopK", largest);
}

}  // namespace gluino::onnx
