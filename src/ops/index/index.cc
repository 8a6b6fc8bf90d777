// Picking and writing elements by coordinates, masks and row numbers.
#include <cstring>

#include "base/copy_bytes.h"
#include "ops/index/indices.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

// ---- coordinates: indices has shape (M, ...), each column names a slice data[i0, ..., iM-1]
struct Coordinates {
  int64_t slices, slice;         // how many slices, elements in each
  std::vector<int64_t> offsets;  // first element of each slice
  Coordinates(const Shape& data, const Tensor& indices) {
    const int64_t m = indices.extent(0);
    slices = indices.shape().elements(1, indices.ndim());
    slice = data.elements(static_cast<int>(m), data.ndim());
    offsets.assign(static_cast<size_t>(slices), 0);
    const std::vector<int64_t> at = integers(indices);
    for (int64_t axis = 0; axis < m; ++axis) {
      const int64_t extent = data[static_cast<int>(axis)], stride = data.elements(static_cast<int>(axis) + 1, data.ndim());
      for (int64_t j = 0; j < slices; ++j) {
        const int64_t v = at[axis * slices + j];
        if (v < -extent || v >= extent) raise<IndexError>("index {} is out of range for axis {}, which has {} elements", v, axis, extent);
        offsets[j] += (v < 0 ? v + extent : v) * stride;
      }
    }
  }
};
static Shape gathered_shape(const Shape& data, const Shape& indices) {
  if (indices.empty() || indices[0] > data.ndim())
    raise<ShapeError>("indices of shape {} name {} axes, but data of shape {} has {}", indices, indices.empty() ? 0 : indices[0], data,
                      data.ndim());
  Shape out;
  for (int i = 1; i < indices.ndim(); ++i) out.push_back(indices[i]);
  for (int i = static_cast<int>(indices[0]); i < data.ndim(); ++i) out.push_back(data[i]);
  return out;
}
static void check_scatter(const Shape& data, const Shape& indices, const Shape& target) {
  const Shape needed = gathered_shape(target, indices);
  if (!(data == needed))
    raise<ShapeError>("data has shape {}, but indices of shape {} into shape {} need {}", data, indices, target, needed);
}
static void write_slices(const Tensor& data, const Tensor& indices, Tensor& out) {
  const Coordinates c(out.shape(), indices);
  const int64_t bytes = c.slice * dtype_bytes(out.dtype());
  char* const to = bytes_of(out);
  const char* const from = bytes_of(data);
  const int64_t element = dtype_bytes(out.dtype());
  copy_pieces(
      bytes, c.slices, [&](int64_t j) { return to + c.offsets[j] * element; }, [&](int64_t j) { return from + j * bytes; });
}
static void fill_zero(Tensor& t) { std::memset(bytes_of(t), 0, t.nbytes()); }

GLUINO_OP(gather_nd, NoAttrs) {
  op.doc("The slices of data that columns of coordinates name.")
      .input("data")
      .input("indices")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape> in) { return gathered_shape(in[0], in[1]); })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Coordinates c(k.in(0).shape(), k.in(1));
        const int64_t element = dtype_bytes(k.out().dtype()), bytes = c.slice * element;
        char* const to = bytes_of(k.out());
        const char* const from = bytes_of(k.in(0));
        copy_pieces(
            bytes, c.slices, [&](int64_t j) { return to + j * bytes; }, [&](int64_t j) { return from + c.offsets[j] * element; });
      })
      .gradient({{1}, {}},
                [](const Gradient& g) -> Tensors {
                  return {call("_gather_nd_backward", {g.head(), g.in(1), g.like(0)}), Tensor()};
                })
      .sample({{3, 4}, index_sample({2, 5}, 3)})
      .sample({{3, 4}, index_sample({1, 2}, 3)});
}
GLUINO_OP(_gather_nd_backward, NoAttrs) {
  op.doc("Zeros of the shape of like with data added at the coordinates.")
      .input("data")
      .input("indices")
      .own_dtype()
      .input("like")
      .shape_only()
      .kernel_dtypes({DType::float32, DType::float64})
      .shape([](const NoAttrs&, std::span<const Shape> in) { return check_scatter(in[0], in[1], in[2]), in[2]; })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Coordinates c(k.out().shape(), k.in(1));
        fill_zero(k.out());
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* from = k.data<T>(0);
          for (int64_t j = 0; j < c.slices; ++j) {
            T* to = k.out_data<T>() + c.offsets[j];
            for (int64_t i = 0; i < c.slice; ++i) to[i] = static_cast<T>(to[i] + from[j * c.slice + i]);
          }
        });
      })
      .gradient({{1}, {}},
                [](const Gradient& g) -> Tensors {
                  return {call("gather_nd", {g.head(), g.in(1)}), Tensor(), Tensor()};
                })
      .sample({{5}, index_sample({2, 5}, 3), {3, 4}});
}

struct ScatterAttrs {
  Shape shape;
  static void fields(AttrFields<ScatterAttrs>& f) { f.required("shape", &ScatterAttrs::shape, "shape of the result"); }
};
GLUINO_OP(scatter_nd, ScatterAttrs) {
  op.doc("Zeros with the slices of data written at columns of coordinates.")
      .input("data")
      .input("indices")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const ScatterAttrs& a, std::span<const Shape> in) { return check_scatter(in[0], in[1], a.shape), a.shape; })
      .refuses_values()
      .kernel([](const ScatterAttrs&, KernelContext& k) {
        fill_zero(k.out());
        write_slices(k.in(0), k.in(1), k.out());
      })
      .gradient({{1}, {}},
                [](const Gradient& g) -> Tensors {
                  return {call("gather_nd", {g.head(), g.in(1)}), Tensor()};
                })
      .sample_without_gradient({{4}, index_sample({1, 4}, 6)}, {.shape = {6}})
      .sample({{1, 3}, index_sample({1, 1}, 4)}, {.shape = {4, 3}});
}
GLUINO_OP(_scatter_set_nd, ScatterAttrs) {
  op.doc("lhs with the slices of rhs written at columns of coordinates.")
      .input("lhs")
      .input("rhs")
      .input("indices")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .inplace(0)
      .shape([](const ScatterAttrs&, std::span<const Shape> in) { return check_scatter(in[1], in[2], in[0]), in[0]; })
      .refuses_values()
      .kernel([](const ScatterAttrs&, KernelContext& k) {
        const Tensor lhs = with_dtype(k.in(0), k.out().dtype());
        if (bytes_of(lhs) != bytes_of(k.out())) std::memcpy(bytes_of(k.out()), bytes_of(lhs), k.out().nbytes());
        write_slices(with_dtype(k.in(1), k.out().dtype()), k.in(2), k.out());
      })
      .gradient({{2}, {}},
                [](const ScatterAttrs& a, const Gradient& g) -> Tensors {
                  return {g.wants(0) ? call("_scatter_set_nd", {g.head(), zeros_like(g.like(1)), g.in(2)}, {{"shape", a.shape}}) : Tensor(),
                          g.wants(1) ? call("gather_nd", {g.head(), g.in(2)}) : Tensor(), Tensor()};
                })
      .sample({{4, 3}, {1, 3}, index_sample({1, 1}, 4)}, {.shape = {4, 3}});
}

// ---- flat positions and coordinates
GLUINO_OP(_ravel_multi_index, ScatterAttrs) {
  op.doc("Flat positions of columns of coordinates in a tensor of the given shape.")
      .alias("ravel_multi_index")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const ScatterAttrs& a, std::span<const Shape> in) {
        if (in[0].empty() || in[0][0] != a.shape.ndim())
          raise<ShapeError>("data has shape {}, but its first extent must be {}", in[0], a.shape.ndim());
        Shape out = in[0];
        out.erase(0);
        return out;
      })
      .kernel([](const ScatterAttrs& a, KernelContext& k) {
        const std::vector<int64_t> at = integers(k.in(0));
        const int64_t n = k.out().size();
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t j = 0; j < n; ++j) {
            int64_t flat = 0;
            for (int i = 0; i < a.shape.ndim(); ++i) flat = flat * a.shape[i] + at[i * n + j];
            k.out_data<T>()[j] = element<T>(static_cast<double>(flat));
          }
        });
      })
      .not_differentiable("an index is not a function of real numbers")
      .sample({index_sample({2, 3}, 4)}, {.shape = {4, 5}});
}
GLUINO_OP(_unravel_index, ScatterAttrs) {
  op.doc("Columns of coordinates of flat positions in a tensor of the given shape.")
      .alias("unravel_index")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const ScatterAttrs& a, std::span<const Shape> in) {
        Shape out = in[0];
        out.insert(0, a.shape.ndim());
        return out;
      })
      .kernel([](const ScatterAttrs& a, KernelContext& k) {
        const std::vector<int64_t> at = integers(k.in(0));
        const auto n = static_cast<int64_t>(at.size());
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t j = 0; j < n; ++j) {
            int64_t rest = at[j];
            for (int i = a.shape.ndim() - 1; i >= 0; --i) {
              const int64_t extent = std::max<int64_t>(1, a.shape[i]);
              k.out_data<T>()[i * n + j] = element<T>(static_cast<double>(i ? rest % extent : rest));
              rest /= extent;
            }
          }
        });
      })
      .not_differentiable("an index is not a function of real numbers")
      .sample({index_sample({3}, 20)}, {.shape = {4, 5}});
}

// ---- masks and rows
struct MaskAttrs {
  int axis = 0;
  static void fields(AttrFields<MaskAttrs>& f) { f.field("axis", &MaskAttrs::axis, "the axis that the mask covers"); }
};
static std::vector<int64_t> chosen(const Tensor& mask) {
  const Tensor flags = with_dtype(mask, DType::boolean);
  std::vector<int64_t> at;
  for (int64_t i = 0; i < flags.size(); ++i)
    if (flags.data<bool>()[i]) at.push_back(i);
  return at;
}
static int check_mask(const MaskAttrs& a, const Shape& data, const Shape& mask) {
  const int axis = normalize_axis(a.axis, data);
  if (mask.ndim() != 1 || mask[0] != data[axis])
    raise<ShapeError>("the mask has shape {}, but axis {} of data of shape {} needs {}", mask, axis, data, Shape{data[axis]});
  return axis;
}
// What is left of data under a mask has its shape but for the axis: how many there are is in the mask's values.
static void check_masked(const MaskAttrs& a, const Shape& data, const Shape& mask, const Shape& masked) {
  const int axis = check_mask(a, data, mask);
  Shape needed = data;
  if (masked.ndim() == needed.ndim()) needed[axis] = masked[axis];
  if (!(masked == needed)) raise<ShapeError>("shape {} is not what a mask leaves on axis {} of shape {}", masked, axis, data);
}
static std::vector<int64_t> checked_places(const Tensor& mask, const Tensor& masked, int axis) {
  std::vector<int64_t> at = chosen(mask);
  if (masked.extent(axis) != static_cast<int64_t>(at.size()))
    raise<ShapeError>("the mask has {} elements that are not 0, but there is room for {}", at.size(), masked.extent(axis));
  return at;
}
static void copy_masked(const Tensor& data, int axis, const std::vector<int64_t>& at, Tensor& out) {
  if (out.size() == 0) return;
  const AxisSplit s(data.shape(), axis);
  const int64_t bytes = s.inner * dtype_bytes(out.dtype()), n = out.extent(axis);
  for (int64_t o = 0; o < s.outer; ++o) {
    char* const to = bytes_of(out) + o * n * bytes;
    const char* const from = bytes_of(data) + o * s.extent * bytes;
    copy_pieces(
        bytes, n, [&](int64_t i) { return to + i * bytes; }, [&](int64_t i) { return from + at[i] * bytes; });
  }
}
GLUINO_OP(_contrib_boolean_mask, MaskAttrs) {
  op.doc("The elements of an axis where the mask is not 0.")
      .alias("boolean_mask", "_npi_boolean_mask")
      .input("data")
      .input("index")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .dynamic_shape()
      .kernel([](const MaskAttrs& a, KernelContext& k) {
        const int axis = check_mask(a, k.in(0).shape(), k.in(1).shape());
        const std::vector<int64_t> at = chosen(k.in(1));
        Shape shape = k.in(0).shape();
        shape[axis] = static_cast<int64_t>(at.size());
        Tensor out = make_tensor(shape, k.in(0).dtype(), k.in(0).device());
        copy_masked(k.in(0), axis, at, out);
        k.set_out(0, out);
      })
      .gradient({{1}, {}},
                [](const MaskAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_boolean_mask_backward", {g.head(), g.in(1), g.like(0)}, {{"axis", int64_t{a.axis}}}), Tensor()};
                })
      .sample({{4, 3}, index_sample({4}, 2)})
      .sample({{2, 3}, index_sample({3}, 2)}, {.axis = 1});
}
GLUINO_OP(_boolean_mask_backward, MaskAttrs) {
  op.doc("Zeros of the shape of like with data where the mask is not 0.")
      .input("data")
      .input("index")
      .own_dtype()
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const MaskAttrs& a, std::span<const Shape> in) { return check_masked(a, in[2], in[1], in[0]), in[2]; })
      .refuses_values()
      .kernel([](const MaskAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.axis, k.out().shape());
        const std::vector<int64_t> at = checked_places(k.in(1), k.in(0), axis);
        const AxisSplit s(k.out().shape(), axis);
        fill_zero(k.out());
        const int64_t bytes = s.inner * dtype_bytes(k.out().dtype()), n = k.in(0).extent(axis);
        for (int64_t o = 0; o < s.outer; ++o) {
          char* const to = bytes_of(k.out()) + o * s.extent * bytes;
          const char* const from = bytes_of(k.in(0)) + o * n * bytes;
          copy_pieces(
              bytes, n, [&](int64_t i) { return to + at[i] * bytes; }, [&](int64_t i) { return from + i * bytes; });
        }
      })
      .gradient({{1}, {}},
                [](const MaskAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_boolean_mask_like", {g.head(), g.in(1), g.like(0)}, {{"axis", int64_t{a.axis}}}), Tensor(), Tensor()};
                })
      .sample_without_gradient({{1, 3}, SampleInput({1}, 1, 2, true), {1, 3}});
}
GLUINO_OP(_boolean_mask_like, MaskAttrs) {
  op.doc("The elements of an axis where the mask is not 0, which are as many as like has there.")
      .input("data")
      .input("index")
      .own_dtype()
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const MaskAttrs& a, std::span<const Shape> in) { return check_masked(a, in[0], in[1], in[2]), in[2]; })
      .refuses_values()
      .kernel([](const MaskAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.axis, k.in(0).shape());
        copy_masked(k.in(0), axis, checked_places(k.in(1), k.out(), axis), k.out());
      })
      .gradient({{1}, {}},
                [](const MaskAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_boolean_mask_backward", {g.head(), g.in(1), g.like(0)}, {{"axis", int64_t{a.axis}}}), Tensor(), Tensor()};
                })
      .sample_without_gradient({{1, 3}, SampleInput({1}, 1, 2, true), {1, 3}});
}

GLUINO_OP(_contrib_index_copy, NoAttrs) {
  op.doc("old_tensor with the rows that index_vector names replaced by those of new_tensor.")
      .alias("_npx_index_copy")
      .input("old_tensor")
      .input("index_vector")
      .own_dtype()
      .input("new_tensor")
      .dtypes(DTypeSet::any)
      .inplace(0)
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        Shape rows = in[0];
        if (in[0].empty() || in[1].ndim() != 1)
          raise<ShapeError>("old_tensor has shape {} and index_vector {}, but rows and a vector are needed", in[0], in[1]);
        rows[0] = in[1][0];
        if (!(rows == in[2])) raise<ShapeError>("new_tensor has shape {}, but {} is needed", in[2], rows);
        return in[0];
      })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Tensor old = with_dtype(k.in(0), k.out().dtype()), rows = with_dtype(k.in(2), k.out().dtype());
        if (bytes_of(old) != bytes_of(k.out())) std::memcpy(bytes_of(k.out()), bytes_of(old), k.out().nbytes());
        const Indices at(k.in(1), old.extent(0), IndexMode::raise);
        const int64_t bytes = old.shape().elements(1, old.ndim()) * dtype_bytes(old.dtype());
        char* const to = bytes_of(k.out());
        const char* const from = bytes_of(rows);
        copy_pieces(
            bytes, at.size(), [&](int64_t i) { return to + at[i] * bytes; }, [&](int64_t i) { return from + i * bytes; });
      })
      .gradient({{1}, {}},
                [](const Gradient& g) -> Tensors {
                  return {g.wants(0) ? call("_contrib_index_copy", {g.head(), g.in(1), zeros_like(g.like(2))}) : Tensor(), Tensor(),
                          g.wants(2) ? call("take", {g.head(), g.in(1)}) : Tensor()};
                })
      .sample({{5, 3}, index_sample({1}, 5), {1, 3}});
}

struct IndexArrayAttrs {
  std::optional<Shape> axes;
  static void fields(AttrFields<IndexArrayAttrs>& f) { f.field("axes", &IndexArrayAttrs::axes, "which coordinates to give; None for all"); }
};
GLUINO_OP(_contrib_index_array, IndexArrayAttrs) {
  op.doc("The coordinates of every element, as int64.")
      .input("data")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const IndexArrayAttrs& a, std::span<const Shape> in) {
        Shape out = in[0];
        if (a.axes)
          for (int64_t axis : *a.axes) normalize_axis(axis, in[0]);
        out.push_back(a.axes ? a.axes->ndim() : in[0].ndim());
        return out;
      })
      .dtype([](const IndexArrayAttrs&, std::span<const DType>, DType) { return DType::int64; })
      .kernel([](const IndexArrayAttrs& a, KernelContext& k) {
        const Shape& shape = k.in(0).shape();
        int64_t* out = k.out_data<int64_t>();
        std::vector<int> axes;
        for (int i = 0; !a.axes && i < shape.ndim(); ++i) axes.push_back(i);
        if (a.axes)
          for (int64_t axis : *a.axes) axes.push_back(normalize_axis(axis, shape));
        for (int64_t i = 0; i < shape.elements(); ++i)
          for (int axis : axes) *out++ = i / shape.elements(axis + 1, shape.ndim()) % shape[axis];
      })
      .not_differentiable("coordinates are not a function of the values")
      .sample({{2, 3}})
      .sample({{2, 3}}, {.axes = Shape{1, 0}});
}

struct ArangeLikeAttrs {
  double start = 0, step = 1;
  int repeat = 1;
  std::optional<int> axis;
  static void fields(AttrFields<ArangeLikeAttrs>& f) {
    f.field("start", &ArangeLikeAttrs::start, "first value")
        .field("step", &ArangeLikeAttrs::step, "distance between values")
        .field("repeat", &ArangeLikeAttrs::repeat, "how often each value is repeated")
        .field("axis", &ArangeLikeAttrs::axis, "give a vector as long as this axis; None for the shape of data");
  }
};
GLUINO_OP(_contrib_arange_like, ArangeLikeAttrs) {
  op.doc("Evenly spaced values, as many as data or one of its axes has elements.")
      .alias("_npx_arange_like")
      .input("data")
      .shape_only()
      .dtypes(DTypeSet::any)
      .ignores({"ctx"})
      .shape([](const ArangeLikeAttrs& a, std::span<const Shape> in) {
        if (a.repeat < 1) raise<AttrError>("attribute 'repeat' is {}, at least 1 is needed", a.repeat);
        return a.axis ? Shape{in[0][normalize_axis(*a.axis, in[0])]} : in[0];
      })
      .kernel([](const ArangeLikeAttrs& a, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          for (int64_t i = 0, elements = k.out().size(); i < elements; ++i)
            out[i] = element<T>(a.start + static_cast<double>(i / a.repeat) * a.step);
        });
      })
      .not_differentiable("does not depend on the values")
      .sample({{3, 4}}, {.axis = 1})
      .sample({{2, 3}}, {.start = 1, .step = 0.5, .repeat = 2});
}

}  // namespace
}  // namespace gluino::ops
