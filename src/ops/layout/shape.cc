// Operators that change how elements are laid out but not what they are: reshapes (views) and permutations.
#include "base/extents.h"
#include "dispatch/compiler_rules.h"
#include "kernels/elementwise/strided.h"
#include "ops/common.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

using kernels::copy_strided;
using kernels::row_major_strides;

// ---- reshapes: all are views, and all gradients take the input's shape from a tensor

static Tensors reshape_gradient(const Gradient& g) { return {call("reshape_like", {g.head(), g.like(0)})}; }

struct ReshapeAttrs {
  Shape shape;
  bool reverse = false;
  Shape target_shape;
  bool keep_highest = false;
  static void fields(AttrFields<ReshapeAttrs>& f) {
    f.field("shape", &ReshapeAttrs::shape,
            "new shape; 0 copies an extent, -1 infers it, -2 copies the rest, -3 merges two, -4 splits one in two")
        .field("reverse", &ReshapeAttrs::reverse, "read codes and axes from the last to the first; -4 stands behind its extents then")
        .field("target_shape", &ReshapeAttrs::target_shape, "new shape in files before 0.9; 0 infers an extent")
        .field("keep_highest", &ReshapeAttrs::keep_highest, "with target_shape: keep the first extent");
  }
};

// One element of the attribute: a code or an extent; -4 brings two extents with it.
struct ReshapeCode {
  int64_t code, first = 0, second = 0;
};
static std::vector<ReshapeCode> reshape_codes(const Shape& shape) {
  std::vector<ReshapeCode> codes;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (shape[i] < -4) raise<AttrError>("attribute 'shape' {} has the unknown code {}", shape, shape[i]);
    if (shape[i] != -4) {
      codes.push_back({shape[i]});
      continue;
    }
    if (i + 2 >= shape.ndim()) throw AttrError("attribute 'shape': -4 must be followed by two extents (behind them with reverse)");
    codes.push_back({-4, shape[i + 1], shape[i + 2]});
    i += 2;
  }
  return codes;
}
static int64_t split_extent(int64_t total, int64_t known, const Shape& shape) {
  if (known <= 0 || total % known) raise<ShapeError>("attribute 'shape' {} cannot split an extent of {} by {}", shape, total, known);
  return total / known;
}
static void append_split(const ReshapeCode& c, int64_t total, const Shape& attr, Shape& out) {
  int64_t a = c.first, b = c.second;
  if (a == -1 && b == -1) raise<AttrError>("attribute 'shape' {}: only one of the extents after -4 can be -1", attr);
  if (a == -1) a = split_extent(total, b, attr);
  if (b == -1) b = split_extent(total, a, attr);
  if (saturated_product(a, b) != total) raise<ShapeError>("attribute 'shape' {} splits an extent of {} into {} and {}", attr, total, a, b);
  out.push_back(a);
  out.push_back(b);
}
static Shape reversed(const Shape& s) {
  Shape r = s;
  std::reverse(r.begin(), r.end());
  return r;
}
static Shape decode_reshape(const Shape& data, const Shape& attr, bool reverse) {
  const std::vector<ReshapeCode> codes = reshape_codes(reverse ? reversed(attr) : attr);
  const Shape in = reverse ? reversed(data) : data;
  Shape out;
  int axis = 0, inferred = -1;
  auto next = [&] {
    if (axis >= in.ndim()) raise<ShapeError>("attribute 'shape' {} asks for more axes than data of shape {} has", attr, data);
    return in[axis++];
  };
  for (const ReshapeCode& c : codes) {
    if (c.code == 0) {
      out.push_back(next());
    } else if (c.code == -1) {
      if (inferred >= 0) raise<AttrError>("attribute 'shape' {} has more than one -1", attr);
      inferred = out.ndim();
      out.push_back(1);
      ++axis;
    } else if (c.code == -2) {
      while (axis < in.ndim()) out.push_back(next());
    } else if (c.code == -3) {
      const int64_t first = next();
      out.push_back(saturated_product(first, next()));
    } else if (c.code == -4) {
      append_split(c, next(), attr, out);
    } else {
      out.push_back(c.code);
      ++axis;
    }
  }
  if (inferred >= 0) {
    const int64_t rest = out.elements();
    out[inferred] = rest ? data.elements() / rest : 0;
  }
  return reverse ? reversed(out) : out;
}
static Shape decode_target_shape(const Shape& data, const ReshapeAttrs& a) {
  Shape out = a.target_shape;
  int inferred = -1;
  if (a.keep_highest && data.empty()) throw ShapeError("data is a scalar and has no first extent to keep");
  if (a.keep_highest && !out.empty()) out[0] = data[0];
  for (int i = a.keep_highest ? 1 : 0; i < out.ndim(); ++i)
    if (out[i] == 0) {
      if (inferred >= 0) raise<AttrError>("attribute 'target_shape' {} has more than one 0", a.target_shape);
      inferred = i;
      out[i] = 1;
    }
  if (inferred >= 0) out[inferred] = out.elements() ? data.elements() / out.elements() : 0;
  return out;
}
static Shape require_same_size(const Shape& from, const Shape& to) {
  if (from.elements() != to.elements())
    raise<ShapeError>("data of shape {} has {} elements and cannot become shape {}, which has {}", from, from.elements(), to,
                      to.elements());
  return to;
}

GLUINO_OP(Reshape, ReshapeAttrs) {
  op.doc("The same elements with another shape.")
      .alias("reshape")
      .input("data")
      .dtypes(DTypeSet::any)
      .view()
      .identity_if([](const auto&, bool) { return true; })
      .shape([](const ReshapeAttrs& a, std::span<const Shape> in) {
        const bool legacy = a.shape.empty() && !a.target_shape.empty();
        return require_same_size(in[0], legacy ? decode_target_shape(in[0], a) : decode_reshape(in[0], a.shape, a.reverse));
      })
      .gradient({}, reshape_gradient)
      .sample({{2, 3, 4}}, {.shape = {4, -1}})
      .sample({{2, 3, 4}}, {.shape = {-3, 0}})
      .sample({{2, 3, 4}}, {.shape = {-4, 1, -1, -2}})
      .sample({{2, 3, 4}}, {.shape = {-1, 0}, .reverse = true})
      .sample({{2, 3, 4}}, {.target_shape = {2, 0}});
}

struct ReshapeLikeAttrs {
  std::optional<int> lhs_begin, lhs_end, rhs_begin, rhs_end;
  static void fields(AttrFields<ReshapeLikeAttrs>& f) {
    f.field("lhs_begin", &ReshapeLikeAttrs::lhs_begin, "first axis of lhs to replace; None for 0")
        .field("lhs_end", &ReshapeLikeAttrs::lhs_end, "end of the axes of lhs to replace; None for all")
        .field("rhs_begin", &ReshapeLikeAttrs::rhs_begin, "first axis of rhs to take; None for 0")
        .field("rhs_end", &ReshapeLikeAttrs::rhs_end, "end of the axes of rhs to take; None for all");
  }
};
static std::pair<int, int> axis_range(const std::optional<int>& begin, const std::optional<int>& end, const Shape& s) {
  const int n = s.ndim();
  const int b = begin ? (*begin < 0 ? *begin + n : *begin) : 0, e = end ? (*end < 0 ? *end + n : *end) : n;
  if (b < 0 || b > n || e < b || e > n) raise<ShapeError>("axes [{}, {}) are out of range for shape {}", b, e, s);
  return {b, e};
}
GLUINO_OP(reshape_like, ReshapeLikeAttrs) {
  op.doc("The elements of lhs with the shape of rhs, or with a range of axes replaced by one of rhs.")
      .input("lhs")
      .input("rhs")
      .shape_only()
      .dtypes(DTypeSet::any)
      .view()
      .identity_if([](const auto&, bool) { return true; })
      .shape([](const ReshapeLikeAttrs& a, std::span<const Shape> in) {
        const auto [lb, le] = axis_range(a.lhs_begin, a.lhs_end, in[0]);
        const auto [rb, re] = axis_range(a.rhs_begin, a.rhs_end, in[1]);
        Shape out;
        for (int i = 0; i < lb; ++i) out.push_back(in[0][i]);
        for (int i = rb; i < re; ++i) out.push_back(in[1][i]);
        for (int i = le; i < in[0].ndim(); ++i) out.push_back(in[0][i]);
        return require_same_size(in[0], out);
      })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {call("reshape_like", {g.head(), g.like(0)}), Tensor()};
                })
      .sample({{2, 6}, {3, 4}})
      .sample({{30, 7}, {15, 2, 4}}, {.lhs_begin = 0, .lhs_end = 1, .rhs_begin = 0, .rhs_end = 2});
}

static Shape without_ones(const Shape& shape) {
  Shape out;
  for (int64_t extent : shape)
    if (extent != 1) out.push_back(extent);
  return out;
}
GLUINO_OP(_contrib_label_like, NoAttrs) {
  op.doc("A label with the shape of the prediction, from which it differs in axes of extent 1 only.")
      .alias("_label_like")
      .input("label")
      .input("prediction")
      .shape_only()
      .dtypes(DTypeSet::any)
      .view()
      .identity_if([](const auto&, bool) { return true; })
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        if (in[0].is_known() && in[1].is_known() && !(without_ones(in[0]) == without_ones(in[1])))
          raise<ShapeError>("the label has shape {}, but the prediction {}: they may differ in axes of extent 1 only", in[0], in[1]);
        return in[1];
      })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {call("reshape_like", {g.head(), g.like(0)}), Tensor()};
                })
      .sample({{6, 1}, {6}})
      .sample({{2, 3}, {2, 1, 3}});
}

GLUINO_OP(Flatten, NoAttrs) {
  op.doc("Joins all axes after the first.")
      .alias("flatten")
      .input("data")
      .dtypes(DTypeSet::any)
      .view()
      .identity_if([](const auto&, bool) { return true; })
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        if (in[0].empty()) throw ShapeError("data is a scalar, but at least one axis is needed");
        return Shape{in[0][0], in[0].elements(1, in[0].ndim())};
      })
      .gradient({}, reshape_gradient)
      .sample({{2, 3, 4}})
      .sample({{3}});
}

struct ExpandDimsAttrs {
  int axis = 0;
  static void fields(AttrFields<ExpandDimsAttrs>& f) { f.required("axis", &ExpandDimsAttrs::axis, "where the new axis stands"); }
};
GLUINO_OP(expand_dims, ExpandDimsAttrs) {
  op.doc("Inserts an axis of extent 1.")
      .alias("_npi_expand_dims")
      .input("data")
      .dtypes(DTypeSet::any)
      .view()
      .identity_if([](const auto&, bool) { return true; })
      .shape([](const ExpandDimsAttrs& a, std::span<const Shape> in) {
        const int n = in[0].ndim() + 1;
        if (a.axis < -n || a.axis >= n) raise<ShapeError>("axis {} is out of range: the result has {} axes", a.axis, n);
        Shape out = in[0];
        out.insert(a.axis < 0 ? a.axis + n : a.axis, 1);
        return out;
      })
      .gradient({}, reshape_gradient)
      .sample({{2, 3}}, {.axis = 1})
      .sample({{2, 3}}, {.axis = -1});
}

struct SqueezeAttrs {
  std::optional<Shape> axis;
  static void fields(AttrFields<SqueezeAttrs>& f) { f.field("axis", &SqueezeAttrs::axis, "the axes to remove; None for all of extent 1"); }
};
GLUINO_OP(squeeze, SqueezeAttrs) {
  op.doc("Removes axes of extent 1.")
      .alias("_np_squeeze")
      .input("data")
      .dtypes(DTypeSet::any)
      .view()
      .identity_if([](const auto&, bool) { return true; })
      .shape([](const SqueezeAttrs& a, std::span<const Shape> in) {
        bool remove[Shape::kMaxAxes] = {};
        for (int i = 0; i < in[0].ndim(); ++i) remove[i] = !a.axis && in[0][i] == 1;
        if (a.axis)
          for (int64_t axis : *a.axis) {
            const int i = normalize_axis(axis, in[0]);
            if (in[0][i] != 1) raise<ShapeError>("axis {} of data of shape {} has extent {} and cannot be removed", axis, in[0], in[0][i]);
            remove[i] = true;
          }
        Shape out;
        for (int i = 0; i < in[0].ndim(); ++i)
          if (!remove[i]) out.push_back(in[0][i]);
        if (out.empty() && !in[0].empty()) out.push_back(1);  // as MXNet
        return out;
      })
      .gradient({}, reshape_gradient)
      .sample({{2, 1, 3, 1}})
      .sample({{2, 1, 3, 1}}, {.axis = Shape{1}});
}

// ---- permutations

static void run_permute(const Tensor& in, const Shape& in_shape, const Shape& axes, Tensor& out) {
  const Shape strides = row_major_strides(in_shape);
  Shape shape = axes, from = axes;
  for (int i = 0; i < axes.ndim(); ++i) {
    shape[i] = in_shape[static_cast<int>(axes[i])];
    from[i] = strides[static_cast<int>(axes[i])];
  }
  copy_strided(dtype_bytes(in.dtype()), shape, bytes_of(in), from, bytes_of(out), row_major_strides(shape));
}

struct TransposeAttrs {
  Shape axes;
  static void fields(AttrFields<TransposeAttrs>& f) { f.field("axes", &TransposeAttrs::axes, "the new order of the axes; () reverses it"); }
};
static Shape permutation(const TransposeAttrs& a, const Shape& data) {
  const int n = data.ndim();
  Shape axes = Shape::filled(n, 0);
  if (a.axes.empty()) {
    for (int i = 0; i < n; ++i) axes[i] = n - 1 - i;
    return axes;
  }
  if (a.axes.ndim() != n) raise<ShapeError>("attribute 'axes' {} does not order the {} axes of data of shape {}", a.axes, n, data);
  bool seen[Shape::kMaxAxes] = {};
  for (int i = 0; i < n; ++i) {
    const int axis = normalize_axis(a.axes[i], data);
    if (seen[axis]) raise<AttrError>("attribute 'axes' {} lists axis {} twice", a.axes, axis);
    seen[axis] = true;
    axes[i] = axis;
  }
  return axes;
}
GLUINO_OP(transpose, TransposeAttrs) {
  op.doc("Permutes the axes.")
      .identity_if([](const TransposeAttrs& a, bool) {
        const int n = a.axes.ndim();
        for (int i = 0; i < n; ++i)
          if (a.axes[i] != i && a.axes[i] != i - n) return false;
        return n > 0;
      })
      .alias("_np_transpose")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const TransposeAttrs& a, std::span<const Shape> in) {
        Shape out = permutation(a, in[0]);
        for (int64_t& e : out) e = in[0][static_cast<int>(e)];
        return out;
      })
      .kernel([](const TransposeAttrs& a, KernelContext& k) {
        run_permute(k.in(0), k.in(0).shape(), permutation(a, k.in(0).shape()), k.out());
      })
      .gradient({},
                [](const TransposeAttrs& a, const Gradient& g) -> Tensors {
                  Shape inverse = a.axes;
                  const int n = a.axes.ndim();
                  for (int i = 0; i < n; ++i) inverse[static_cast<int>(a.axes[i] < 0 ? a.axes[i] + n : a.axes[i])] = i;
                  return {g.head().transpose(inverse)};
                })
      .sample({{2, 3, 4}}, {.axes = {1, 2, 0}})
      .sample({{3, 4}});
  for_compiler(op).permutation(permutation);
}

struct SwapAxisAttrs {
  int dim1 = 0, dim2 = 0;
  static void fields(AttrFields<SwapAxisAttrs>& f) {
    f.field("dim1", &SwapAxisAttrs::dim1, "one axis").field("dim2", &SwapAxisAttrs::dim2, "the other axis");
  }
};
static Shape swapped_axes(const SwapAxisAttrs& a, const Shape& data) {
  Shape axes = data;
  for (int i = 0; i < axes.ndim(); ++i) axes[i] = i;
  std::swap(axes[normalize_axis(a.dim1, data)], axes[normalize_axis(a.dim2, data)]);
  return axes;
}
GLUINO_OP(SwapAxis, SwapAxisAttrs) {
  op.doc("Swaps two axes.")
      .identity_if([](const SwapAxisAttrs& a, bool) { return a.dim1 == a.dim2; })
      .alias("swapaxes")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const SwapAxisAttrs& a, std::span<const Shape> in) {
        Shape out = in[0];
        std::swap(out[normalize_axis(a.dim1, in[0])], out[normalize_axis(a.dim2, in[0])]);
        return out;
      })
      .kernel([](const SwapAxisAttrs& a, KernelContext& k) {
        run_permute(k.in(0), k.in(0).shape(), swapped_axes(a, k.in(0).shape()), k.out());
      })
      .gradient({},
                [](const SwapAxisAttrs& a, const Gradient& g) -> Tensors {
                  return {call("SwapAxis", {g.head()}, {{"dim1", int64_t{a.dim1}}, {"dim2", int64_t{a.dim2}}})};
                })
      .sample({{2, 3, 4}}, {.dim1 = 0, .dim2 = 2});
  for_compiler(op).permutation(swapped_axes);
}

struct BlockAttrs {
  int block_size = 1;
  static void fields(AttrFields<BlockAttrs>& f) { f.required("block_size", &BlockAttrs::block_size, "side of the blocks"); }
};
static void check_block(const BlockAttrs& a, const Shape& s) {
  if (s.ndim() != 4) raise<ShapeError>("data has shape {}, but 4 axes are needed", s);
  if (a.block_size < 1) raise<AttrError>("attribute 'block_size' is {}, at least 1 is needed", a.block_size);
}
static Tensor with_block(std::string_view name, const BlockAttrs& a, const Tensor& t) {
  return call(name, {t}, {{"block_size", int64_t{a.block_size}}});
}
GLUINO_OP(depth_to_space, BlockAttrs) {
  op.doc("Moves groups of channels into blocks of pixels.")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const BlockAttrs& a, std::span<const Shape> in) {
        check_block(a, in[0]);
        const int64_t b = a.block_size;
        if (in[0][1] % (b * b)) raise<ShapeError>("{} channels cannot be split into blocks of {} x {}", in[0][1], b, b);
        return Shape{in[0][0], in[0][1] / (b * b), saturated_product(in[0][2], b), saturated_product(in[0][3], b)};
      })
      .kernel([](const BlockAttrs& a, KernelContext& k) {
        const Shape& s = k.in(0).shape();
        const int64_t b = a.block_size;
        run_permute(k.in(0), {s[0], b, b, s[1] / (b * b), s[2], s[3]}, {0, 3, 4, 1, 5, 2}, k.out());
      })
      .gradient({}, [](const BlockAttrs& a, const Gradient& g) -> Tensors { return {with_block("space_to_depth", a, g.head())}; })
      .sample({{1, 8, 2, 3}}, {.block_size = 2});
}
GLUINO_OP(space_to_depth, BlockAttrs) {
  op.doc("Moves blocks of pixels into groups of channels.")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const BlockAttrs& a, std::span<const Shape> in) {
        check_block(a, in[0]);
        const int64_t b = a.block_size;
        if (in[0][2] % b || in[0][3] % b)
          raise<ShapeError>("an image of {} x {} cannot be split into blocks of {} x {}", in[0][2], in[0][3], b, b);
        return Shape{in[0][0], saturated_product(in[0][1], b * b), in[0][2] / b, in[0][3] / b};
      })
      .kernel([](const BlockAttrs& a, KernelContext& k) {
        const Shape& s = k.in(0).shape();
        const int64_t b = a.block_size;
        run_permute(k.in(0), {s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 3, 5, 1, 2, 4}, k.out());
      })
      .gradient({}, [](const BlockAttrs& a, const Gradient& g) -> Tensors { return {with_block("depth_to_space", a, g.head())}; })
      .sample({{1, 2, 4, 6}}, {.block_size = 2});
}

struct ReverseAttrs {
  Shape axis;
  static void fields(AttrFields<ReverseAttrs>& f) { f.required("axis", &ReverseAttrs::axis, "the axes to reverse"); }
};
static void check_axes(const Shape& axes, const Shape& data) {
  bool seen[Shape::kMaxAxes] = {};
  for (int64_t each : axes) {
    const int axis = normalize_axis(each, data);
    if (seen[axis]) raise<AttrError>("attribute 'axis' {} lists axis {} twice", axes, axis);
    seen[axis] = true;
  }
}
GLUINO_OP(reverse, ReverseAttrs) {
  op.doc("Reverses the order of the elements along axes.")
      .alias("flip", "_npi_flip")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const ReverseAttrs& a, std::span<const Shape> in) { return check_axes(a.axis, in[0]), in[0]; })
      .same_shape()
      .kernel([](const ReverseAttrs& a, KernelContext& k) {
        const Shape& shape = k.in(0).shape();
        const Shape to = row_major_strides(shape);
        Shape from = to;
        int64_t offset = 0;
        for (int64_t each : a.axis) {
          const int axis = normalize_axis(each, shape);
          from[axis] = -to[axis];
          offset += (shape[axis] - 1) * to[axis];
        }
        const int bytes = dtype_bytes(k.in(0).dtype());
        copy_strided(bytes, shape, bytes_of(k.in(0)) + offset * bytes, from, bytes_of(k.out()), to);
      })
      .gradient({},
                [](const ReverseAttrs& a, const Gradient& g) -> Tensors {
                  return {call("reverse", {g.head()}, {{"axis", a.axis}})};
                })
      .sample({{2, 3, 4}}, {.axis = {1}})
      .sample({{2, 3}}, {.axis = {0, -1}});
}

}  // namespace
}  // namespace gluino::ops
