// Slices: taking them, writing into them, and the windows that their gradients are made of.
#include <cstring>

#include "base/copy_bytes.h"
#include "kernels/elementwise/strided.h"
#include "ops/common.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

using kernels::copy_strided;
using kernels::row_major_strides;

// A rectangle with steps inside a tensor of shape `full`.
struct Window {
  Shape shape, strides;
  int64_t offset = 0;
  explicit Window(const Shape& full) : shape(full), strides(row_major_strides(full)) {}
  // Restricts one axis to `count` elements from `start` on.
  void set(int axis, int64_t start, int64_t step, int64_t count) {
    offset += start * strides[axis];
    strides[axis] *= step;
    shape[axis] = count;
  }
};
static void read_window(const Tensor& from, const Window& w, Tensor& to) {
  const int bytes = dtype_bytes(from.dtype());
  if (w.shape.elements())
    copy_strided(bytes, w.shape, bytes_of(from) + w.offset * bytes, w.strides, bytes_of(to), row_major_strides(w.shape));
}
static void write_window(const Tensor& from, const Window& w, Tensor& to) {
  const int bytes = dtype_bytes(to.dtype());
  if (w.shape.elements())
    copy_strided(bytes, w.shape, bytes_of(from), row_major_strides(w.shape), bytes_of(to) + w.offset * bytes, w.strides);
}
static void fill_zero(Tensor& t) { std::memset(bytes_of(t), 0, t.nbytes()); }
static void copy_all(const Tensor& from, Tensor& to) {
  if (bytes_of(from) != bytes_of(to)) copy_bytes(bytes_of(to), bytes_of(from), to.nbytes());
}

// Where begin:end:step starts and how long it is on an axis of n elements, by NumPy's rules.
struct Span {
  int64_t start, step, count;
  Span(std::optional<int64_t> begin, std::optional<int64_t> end, std::optional<int64_t> by, int64_t n) {
    step = by.value_or(1);
    if (step == 0) throw AttrError("attribute 'step' has a 0");
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    auto clip = [&](int64_t v) { return std::clamp(v < 0 ? v + n : v, low, high); };
    start = begin ? clip(*begin) : (step > 0 ? 0 : n - 1);
    const int64_t stop = end ? clip(*end) : (step > 0 ? n : -1);
    const bool is_empty = step > 0 ? start >= stop : start <= stop;
    count = is_empty ? 0 : 1 + (step > 0 ? stop - start - 1 : stop - start + 1) / step;
    if (count == 0) start = 0;
    if (count < 2) step = 1;  // no second element, and no product with a step of any size
  }
};
static std::optional<int64_t> at(const OptionalInts& v, int i) { return i < static_cast<int>(v.size()) ? v[i] : std::nullopt; }

struct SliceAttrs {
  OptionalInts begin, end, step;
  static void fields(AttrFields<SliceAttrs>& f) {
    f.required("begin", &SliceAttrs::begin, "first index on each leading axis; None for the edge")
        .required("end", &SliceAttrs::end, "end on each leading axis, not included; None for the edge")
        .field("step", &SliceAttrs::step, "step on each leading axis; () for 1");
  }
};
static Window window_of(const Shape& full, const OptionalInts& begin, const OptionalInts& end, const OptionalInts& step) {
  const int n = static_cast<int>(std::max(begin.size(), end.size()));
  if (n > full.ndim()) raise<ShapeError>("{} axes are sliced, but data of shape {} has {}", n, full, full.ndim());
  Window w(full);
  for (int i = 0; i < n; ++i) {
    const Span s(at(begin, i), at(end, i), at(step, i), full[i]);
    w.set(i, s.start, s.step, s.count);
  }
  return w;
}
static Tensor place(const Tensor& head, const Tensor& like, const OptionalInts& begin, const OptionalInts& step = {}) {
  return call("_slice_backward", {head, like}, {{"begin", begin}, {"step", step}});
}

GLUINO_OP(slice, SliceAttrs) {
  op.doc("A rectangle of data: begin:end:step on each axis.")
      // Of the whole extent, so only a negative step can change the order.
      .identity_if(
          [](const SliceAttrs& a, bool) { return std::none_of(a.step.begin(), a.step.end(), [](const auto& s) { return s && *s < 0; }); })
      .alias("crop")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const SliceAttrs& a, std::span<const Shape> in) { return window_of(in[0], a.begin, a.end, a.step).shape; })
      .kernel(
          [](const SliceAttrs& a, KernelContext& k) { read_window(k.in(0), window_of(k.in(0).shape(), a.begin, a.end, a.step), k.out()); })
      .gradient({}, [](const SliceAttrs& a, const Gradient& g) -> Tensors { return {place(g.head(), g.like(0), a.begin, a.step)}; })
      .sample({{4, 5}}, {.begin = {1, std::nullopt}, .end = {3, 4}})
      .sample({{6, 5}}, {.begin = {5, 0}, .end = {std::nullopt, 5}, .step = {-2, 2}});
}

// ---- the two windows: each is the gradient of the other. How long they are follows from a tensor.
struct WindowAttrs {
  OptionalInts begin, step;
  static void fields(AttrFields<WindowAttrs>& f) {
    f.field("begin", &WindowAttrs::begin, "first index on each leading axis; None for the edge")
        .field("step", &WindowAttrs::step, "step on each leading axis; () for 1");
  }
};
static Window window_like(const Shape& full, const WindowAttrs& a, const Shape& like) {
  if (like.ndim() != full.ndim()) raise<ShapeError>("a window of shape {} does not fit into shape {}", like, full);
  Window w(full);
  for (int i = 0; i < full.ndim(); ++i) {
    const Span s(at(a.begin, i), std::nullopt, at(a.step, i), full[i]);
    if (like[i] > s.count) raise<ShapeError>("a window of shape {} does not fit into shape {}", like, full);
    w.set(i, like[i] ? s.start : 0, s.step, like[i]);
  }
  return w;
}
GLUINO_OP(_slice_backward, WindowAttrs) {
  op.doc("Zeros of the shape of like with data written from begin on: the gradient of a slice.")
      .input("data")
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const WindowAttrs& a, std::span<const Shape> in) { return window_like(in[1], a, in[0]), in[1]; })
      .kernel([](const WindowAttrs& a, KernelContext& k) {
        fill_zero(k.out());
        write_window(k.in(0), window_like(k.out().shape(), a, k.in(0).shape()), k.out());
      })
      .gradient({},
                [](const WindowAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_slice_window", {g.head(), g.like(0)}, {{"begin", a.begin}, {"step", a.step}}), Tensor()};
                })
      .sample({{2, 3}, {4, 5}}, {.begin = {1, std::nullopt}});
}
GLUINO_OP(_slice_window, WindowAttrs) {
  op.doc("A slice of data of the shape of like that starts at begin.")
      .input("data")
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const WindowAttrs& a, std::span<const Shape> in) { return window_like(in[0], a, in[1]), in[1]; })
      .kernel(
          [](const WindowAttrs& a, KernelContext& k) { read_window(k.in(0), window_like(k.in(0).shape(), a, k.out().shape()), k.out()); })
      .gradient({},
                [](const WindowAttrs& a, const Gradient& g) -> Tensors {
                  return {place(g.head(), g.like(0), a.begin, a.step), Tensor()};
                })
      .sample({{4, 5}, {2, 3}}, {.begin = {1, std::nullopt}});
}

struct SliceAxisAttrs {
  int axis = 0;
  int64_t begin = 0;
  std::optional<int64_t> end;
  static void fields(AttrFields<SliceAxisAttrs>& f) {
    f.required("axis", &SliceAxisAttrs::axis, "the axis to slice")
        .required("begin", &SliceAxisAttrs::begin, "first index")
        .required("end", &SliceAxisAttrs::end, "end, not included; None for the edge");
  }
};
static Window window_of(const Shape& full, const SliceAxisAttrs& a) {
  const int axis = normalize_axis(a.axis, full);
  Window w(full);
  const Span s(a.begin, a.end, 1, full[axis]);
  w.set(axis, s.start, s.step, s.count);
  return w;
}
// MXNet's operator refuses a part without elements or beyond the edge; functions that are made of parts need Python's.
template <class ShapeOf>
static void define_slice_axis(OpBuilder<SliceAxisAttrs>& op, ShapeOf shape_of) {
  op.identity_if([](const auto&, bool) { return true; })
      .input("data")
      .dtypes(DTypeSet::any)
      .shape(shape_of)
      .kernel([](const SliceAxisAttrs& a, KernelContext& k) { read_window(k.in(0), window_of(k.in(0).shape(), a), k.out()); })
      .gradient({},
                [](const SliceAxisAttrs& a, const Gradient& g) -> Tensors {
                  OptionalInts begin(static_cast<size_t>(a.axis < 0 ? a.axis + g.like(0).ndim() : a.axis) + 1);
                  begin.back() = a.begin;
                  return {place(g.head(), g.like(0), begin)};
                })
      .sample({{3, 5}}, {.axis = 1, .begin = 1, .end = 4})
      .sample({{3, 5}}, {.axis = -2, .begin = -2, .end = std::nullopt});
}
GLUINO_OP(_slice_part, SliceAxisAttrs) {
  op.doc("begin:end on one axis as Python's slices, which may be empty.");
  define_slice_axis(op, [](const SliceAxisAttrs& a, std::span<const Shape> in) { return window_of(in[0], a).shape; });
}
GLUINO_OP(slice_axis, SliceAxisAttrs) {
  op.doc("begin:end on one axis.");
  define_slice_axis(op, [](const SliceAxisAttrs& a, std::span<const Shape> in) {
    const Window w = window_of(in[0], a);
    const int64_t size = in[0][normalize_axis(a.axis, in[0])], end = a.end.value_or(size);
    if (size && (w.shape.elements() == 0 || a.begin < -size || end > size))
      raise<AttrError>("attributes 'begin' {} and 'end' {} name no part of axis {} of shape {}", a.begin, end, a.axis, in[0]);
    return w.shape;
  });
}

struct SliceLikeAttrs {
  Shape axes;
  static void fields(AttrFields<SliceLikeAttrs>& f) { f.field("axes", &SliceLikeAttrs::axes, "the axes to cut; () for all"); }
};
static Window window_of(const Shape& full, const Shape& like, const SliceLikeAttrs& a) {
  Window w(full);
  auto cut = [&](int i, int j) {
    if (like[j] > full[i]) raise<ShapeError>("axis {} of data of shape {} cannot be cut to {} as in shape {}", i, full, like[j], like);
    w.set(i, 0, 1, like[j]);
  };
  if (a.axes.empty() && like.ndim() != full.ndim()) raise<ShapeError>("shapes {} and {} differ in rank; name the axes to cut", full, like);
  for (int i = 0; a.axes.empty() && i < full.ndim(); ++i) cut(i, i);
  for (int64_t axis : a.axes) cut(normalize_axis(axis, full), normalize_axis(axis, like));
  return w;
}
GLUINO_OP(slice_like, SliceLikeAttrs) {
  op.doc("The leading part of data that has the extents of shape_like.")
      .identity_if([](const auto&, bool) { return true; })
      .input("data")
      .input("shape_like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const SliceLikeAttrs& a, std::span<const Shape> in) { return window_of(in[0], in[1], a).shape; })
      .kernel(
          [](const SliceLikeAttrs& a, KernelContext& k) { read_window(k.in(0), window_of(k.in(0).shape(), k.in(1).shape(), a), k.out()); })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {place(g.head(), g.like(0), {}), Tensor()};
                })
      .sample({{3, 4}, {2, 3}})
      .sample({{3, 4}, {2, 3, 5}}, {.axes = {1}});
}

// ---- writing into slices
GLUINO_OP(_slice_assign, SliceAttrs) {
  op.doc("lhs with a slice of it replaced by rhs.")
      .alias("_crop_assign", "_npi_slice_assign")
      .input("lhs")
      .input("rhs")
      .dtypes(DTypeSet::any)
      .inplace(0)
      .shape([](const SliceAttrs& a, std::span<const Shape> in) {
        const Shape window = window_of(in[0], a.begin, a.end, a.step).shape;
        if (!(window == in[1])) raise<ShapeError>("rhs has shape {}, but the slice of lhs has shape {}", in[1], window);
        return in[0];
      })
      .kernel([](const SliceAttrs& a, KernelContext& k) {
        copy_all(with_dtype(k.in(0), k.out().dtype()), k.out());
        write_window(with_dtype(k.in(1), k.out().dtype()), window_of(k.out().shape(), a.begin, a.end, a.step), k.out());
      })
      .gradient({},
                [](const SliceAttrs& a, const Gradient& g) -> Tensors {
                  return {g.wants(0) ? call("_slice_assign_scalar", {g.head()},
                                            {{"scalar", 0.0}, {"begin", a.begin}, {"end", a.end}, {"step", a.step}})
                                     : Tensor(),
                          g.wants(1) ? call("slice", {g.head()}, {{"begin", a.begin}, {"end", a.end}, {"step", a.step}}) : Tensor()};
                })
      .sample({{4, 5}, {2, 5}}, {.begin = {1, std::nullopt}, .end = {3, std::nullopt}});
}

struct SliceScalarAttrs {
  double scalar = 0;
  OptionalInts begin, end, step;
  static void fields(AttrFields<SliceScalarAttrs>& f) {
    f.field("scalar", &SliceScalarAttrs::scalar, "what to write")
        .required("begin", &SliceScalarAttrs::begin, "first index on each leading axis; None for the edge")
        .required("end", &SliceScalarAttrs::end, "end on each leading axis, not included; None for the edge")
        .field("step", &SliceScalarAttrs::step, "step on each leading axis; () for 1");
  }
};
GLUINO_OP(_slice_assign_scalar, SliceScalarAttrs) {
  op.doc("data with a slice of it replaced by one number.")
      .alias("_crop_assign_scalar", "_npi_slice_assign_scalar")
      .input("data")
      .dtypes(DTypeSet::any)
      .inplace(0)
      .shape([](const SliceScalarAttrs& a, std::span<const Shape> in) { return window_of(in[0], a.begin, a.end, a.step), in[0]; })
      .kernel([](const SliceScalarAttrs& a, KernelContext& k) {
        copy_all(k.in(0), k.out());
        const Window w = window_of(k.out().shape(), a.begin, a.end, a.step);
        const Tensor value = with_dtype(from_vector(std::vector<double>{a.scalar}), k.out().dtype());
        const int bytes = dtype_bytes(value.dtype());
        if (w.shape.elements())
          copy_strided(bytes, w.shape, bytes_of(value), Shape::filled(w.shape.ndim(), 0), bytes_of(k.out()) + w.offset * bytes, w.strides);
      })
      .gradient(
          {},
          [](const SliceScalarAttrs& a, const Gradient& g) -> Tensors {
            return {call("_slice_assign_scalar", {g.head()}, {{"scalar", 0.0}, {"begin", a.begin}, {"end", a.end}, {"step", a.step}})};
          })
      .sample({{4, 5}}, {.scalar = 1.5, .begin = {1, 0}, .end = {3, 4}, .step = {1, 2}});
}

// ---- Crop: a window of images
struct CropAttrs {
  int num_args = 1;
  Shape offset{0, 0}, h_w{0, 0};
  bool center_crop = false;
  static void fields(AttrFields<CropAttrs>& f) {
    f.field("num_args", &CropAttrs::num_args, "number of inputs: with 2 the size comes from the second")
        .field("offset", &CropAttrs::offset, "row and column of the first pixel")
        .field("h_w", &CropAttrs::h_w, "height and width, with one input")
        .field("center_crop", &CropAttrs::center_crop, "take the centre instead of offset");
  }
};
static Window window_of(const Shape& full, int64_t height, int64_t width, const CropAttrs& a) {
  if (full.ndim() != 4) raise<ShapeError>("data has shape {}, but 4 axes are needed", full);
  if (a.offset.ndim() != 2) raise<AttrError>("attribute 'offset' {} needs two elements", a.offset);
  const int64_t top = a.center_crop ? (full[2] - height) / 2 : a.offset[0], left = a.center_crop ? (full[3] - width) / 2 : a.offset[1];
  if (height < 0 || width < 0 || top < 0 || left < 0 || height > full[2] - top || width > full[3] - left)
    raise<ShapeError>("a window of {} x {} at ({}, {}) is not inside data of shape {}", height, width, top, left, full);
  Window w(full);
  w.set(2, top, 1, height);
  w.set(3, left, 1, width);
  return w;
}
static Window crop_window(const Shape& full, const Shape* like, const CropAttrs& a) {
  if (like && like->ndim() != 4) raise<ShapeError>("the second input has shape {}, but 4 axes are needed", *like);
  if (!like && a.h_w.ndim() != 2) raise<AttrError>("attribute 'h_w' {} needs two elements", a.h_w);
  return like ? window_of(full, (*like)[2], (*like)[3], a) : window_of(full, a.h_w[0], a.h_w[1], a);
}
GLUINO_OP(Crop, CropAttrs) {
  op.doc("A window of images, of a given size or of the size of the second input.")
      .input("data")
      .dtypes(DTypeSet::any)
      .input("crop_like")
      .shape_only()
      .present_if([](const CropAttrs& a) { return a.num_args > 1; })
      .shape([](const CropAttrs& a, std::span<const Shape> in) { return crop_window(in[0], in.size() > 1 ? &in[1] : nullptr, a).shape; })
      .kernel([](const CropAttrs& a, KernelContext& k) {
        read_window(k.in(0), window_of(k.in(0).shape(), k.out().extent(2), k.out().extent(3), a), k.out());
      })
      .gradient({},
                [](const CropAttrs& a, const Gradient& g) -> Tensors {
                  Tensors result(g.num_inputs());
                  result[0] = call("_crop_backward", {g.head(), g.like(0)}, {{"offset", a.offset}, {"center_crop", a.center_crop}});
                  return result;
                })
      .sample({{1, 2, 6, 7}}, {.num_args = 1, .offset = {1, 2}, .h_w = {3, 4}})
      .sample({{1, 2, 6, 7}, {1, 2, 4, 4}}, {.num_args = 2, .center_crop = true});
}
GLUINO_OP(_crop_backward, CropAttrs) {
  op.doc("Zeros of the shape of like with data in the window that Crop takes.")
      .input("data")
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const CropAttrs& a, std::span<const Shape> in) {
        check_same_shape("data", in[0], crop_window(in[1], &in[0], a).shape);
        return in[1];
      })
      .kernel([](const CropAttrs& a, KernelContext& k) {
        fill_zero(k.out());
        write_window(k.in(0), crop_window(k.out().shape(), &k.in(0).shape(), a), k.out());
      })
      .gradient({},
                [](const CropAttrs& a, const Gradient& g) -> Tensors {
                  return {
                      call("Crop", {g.head(), g.like(0)}, {{"num_args", int64_t{2}}, {"offset", a.offset}, {"center_crop", a.center_crop}}),
                      Tensor()};
                })
      .sample({{1, 2, 3, 4}, {1, 2, 6, 7}}, {.offset = {1, 2}});
}

}  // namespace
}  // namespace gluino::ops
