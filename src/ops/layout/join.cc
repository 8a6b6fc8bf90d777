// Joining tensors along an axis and splitting them again.
#include <algorithm>

#include "dispatch/compiler_rules.h"
#include "kernels/convolution/blocked_layout.h"
#include "kernels/elementwise/strided.h"
#include "ops/common.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

// Copies between a whole tensor and a part of it that covers [start, start + extent) of one axis.
enum class Direction { into_whole, out_of_whole };
static void copy_part(Direction direction, const Tensor& whole, const AxisSplit& w, int64_t start, const Tensor& part, int64_t extent) {
  const Shape shape{w.outer, extent * w.inner}, part_strides{extent * w.inner, 1}, whole_strides{w.extent * w.inner, 1};
  if (shape.elements() == 0) return;
  const int bytes = dtype_bytes(whole.dtype());
  char* at = bytes_of(whole) + start * w.inner * bytes;
  if (direction == Direction::into_whole)
    kernels::copy_strided(bytes, shape, bytes_of(part), part_strides, at, whole_strides);
  else
    kernels::copy_strided(bytes, shape, at, whole_strides, bytes_of(part), part_strides);
}

struct ConcatAttrs {
  int num_args = 0;
  int dim = 1;
  static void fields(AttrFields<ConcatAttrs>& f) {
    f.field("num_args", &ConcatAttrs::num_args, "number of inputs; follows from the call")
        .field("dim", &ConcatAttrs::dim, "the axis to join along");
  }
};
static Shape concat_shape(std::span<const Shape> in, int dim) {
  const int axis = normalize_axis(dim, in[0]);
  Shape out = in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    bool fits = in[i].ndim() == out.ndim();
    for (int j = 0; fits && j < out.ndim(); ++j) fits = j == axis || in[i][j] == out[j];
    if (!fits) raise<ShapeError>("input {} has shape {} and cannot be joined with shape {} along axis {}", i, in[i], in[0], axis);
    out[axis] += in[i][axis];
  }
  return out;
}
// Inputs of one rank share every extent but that along `apart` (none with -1), where one of them or `joined` knows it.
static void share_extents(OptionalShapes& in, const std::optional<Shape>& joined, int apart) {
  std::optional<Shape> common = joined;
  for (const auto& s : in) {
    if (!s) continue;
    if (!common) common = Shape::filled(s->ndim(), Shape::kUnknown);
    if (common->ndim() != s->ndim()) return;  // the shape rule says so
    for (int i = 0; i < s->ndim(); ++i)
      if ((*common)[i] == Shape::kUnknown) (*common)[i] = (*s)[i];
  }
  if (!common) return;
  for (auto& s : in) {
    if (!s) s = Shape::filled(common->ndim(), Shape::kUnknown);
    for (int i = 0; i < s->ndim(); ++i)
      if (i != apart && (*s)[i] == Shape::kUnknown) (*s)[i] = (*common)[i];
  }
}

GLUINO_OP(Concat, ConcatAttrs) {
  op.doc("Joins tensors along an axis.")
      .alias("concat", "_rnn_param_concat")
      .variadic("data")
      .dtypes(DTypeSet::any)
      .shape([](const ConcatAttrs& a, std::span<const Shape> in) { return concat_shape(in, a.dim); })
      .complete([](const ConcatAttrs& a, OptionalShapes& in, const OptionalShapes& out) {
        const auto known = std::find_if(in.begin(), in.end(), [](const auto& s) { return s.has_value(); });
        if (known == in.end() && !out[0]) return;
        share_extents(in, out[0], normalize_axis(a.dim, out[0] ? *out[0] : **known));
      })
      .kernel([](const ConcatAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.dim, k.out().shape());
        const AxisSplit whole(k.out().shape(), axis);
        int64_t start = 0;
        for (int i = 0; i < k.num_inputs(); ++i) {
          const int64_t extent = k.in(i).extent(axis);
          copy_part(Direction::into_whole, k.out(), whole, start, with_dtype(k.in(i), k.out().dtype()), extent);
          start += extent;
        }
      })
      .gradient({},
                [](const ConcatAttrs& a, const Gradient& g) -> Tensors {
                  Tensors in{g.head()};
                  for (int i = 0; i < g.num_inputs(); ++i) in.push_back(g.like(i));
                  return call_all("_concat_backward", in, {{"num_args", int64_t{g.num_inputs()}}, {"dim", int64_t{a.dim}}});
                })
      .sample({{2, 3}, {2, 4}, {2, 1}})
      .sample({{2, 3}, {1, 3}}, {.dim = 0});
  // Channels can be joined block by block where all blocks but the last are full.
  for_compiler(op).works_on_blocks([](const ConcatAttrs& a, std::span<const Shape> in) {
    const auto is_full = [](const Shape& s) { return s[1] % kernels::kChannelBlock == 0; };
    return in[0].ndim() == 4 && (a.dim == 2 || a.dim == 3 || (a.dim == 1 && std::all_of(in.begin(), in.end() - 1, is_full)));
  });
}
GLUINO_OP(_concat_backward, ConcatAttrs) {
  op.doc("Splits data into parts of the extents of the other inputs along an axis.")
      .input("data")
      .variadic("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .num_outputs([](const ConcatAttrs& a) { return a.num_args; })
      .shape([](const ConcatAttrs& a, std::span<const Shape> in) {
        const Shape joined = concat_shape(in.subspan(1), a.dim);
        if (!(joined == in[0])) raise<ShapeError>("data has shape {}, but the parts join to {}", in[0], joined);
        return std::vector<Shape>(in.begin() + 1, in.end());
      })
      .kernel([](const ConcatAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.dim, k.in(0).shape());
        const AxisSplit whole(k.in(0).shape(), axis);
        int64_t start = 0;
        for (int i = 0; i < k.num_outputs(); ++i) {
          const int64_t extent = k.out(i).extent(axis);
          copy_part(Direction::out_of_whole, k.in(0), whole, start, k.out(i), extent);
          start += extent;
        }
      })
      .gradient({},
                [](const ConcatAttrs& a, const Gradient& g) -> Tensors {
                  Tensors heads, result(static_cast<size_t>(g.num_inputs()));
                  for (int i = 0; i + 1 < g.num_inputs(); ++i) heads.push_back(g.head(i));
                  result[0] = call("Concat", heads, {{"num_args", int64_t{a.num_args}}, {"dim", int64_t{a.dim}}});
                  return result;
                })
      .sample({{2, 5}, {2, 2}, {2, 3}}, {.num_args = 2});
}

struct StackAttrs {
  int axis = 0;
  int num_args = 0;
  static void fields(AttrFields<StackAttrs>& f) {
    f.field("axis", &StackAttrs::axis, "where the new axis stands")
        .field("num_args", &StackAttrs::num_args, "number of inputs; follows from the call");
  }
};
static int stack_axis(const StackAttrs& a, const Shape& each) {
  const int n = each.ndim() + 1;
  if (a.axis < -n || a.axis >= n) raise<ShapeError>("axis {} is out of range: the result has {} axes", a.axis, n);
  return a.axis < 0 ? a.axis + n : a.axis;
}
GLUINO_OP(stack, StackAttrs) {
  op.doc("Joins tensors of one shape along a new axis.")
      .alias("_npi_stack")
      .variadic("data")
      .dtypes(DTypeSet::any)
      .shape([](const StackAttrs& a, std::span<const Shape> in) {
        for (const Shape& s : in)
          if (!(s == in[0])) raise<ShapeError>("shapes {} and {} cannot be stacked: they must be the same", in[0], s);
        Shape out = in[0];
        out.insert(stack_axis(a, in[0]), static_cast<int64_t>(in.size()));
        return out;
      })
      .complete([](const StackAttrs& a, OptionalShapes& in, const OptionalShapes& out) {
        std::optional<Shape> one = out[0];
        if (one && one->ndim() > 0) one->erase(normalize_axis(a.axis, *one));
        share_extents(in, one, -1);
      })
      .kernel([](const StackAttrs& a, KernelContext& k) {
        const AxisSplit whole(k.out().shape(), stack_axis(a, k.in(0).shape()));
        for (int i = 0; i < k.num_inputs(); ++i)
          copy_part(Direction::into_whole, k.out(), whole, i, with_dtype(k.in(i), k.out().dtype()), 1);
      })
      .gradient({},
                [](const StackAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor in[] = {g.head()};
                  Tensors parts = call_all("SliceChannel", in,
                                           {{"num_outputs", int64_t{g.num_inputs()}}, {"axis", int64_t{a.axis}}, {"squeeze_axis", true}});
                  // A part of one number is (1,), as in MXNet.
                  for (int i = 0; i < g.num_inputs() && g.like(i).ndim() == 0; ++i) parts[i] = call("reshape_like", {parts[i], g.like(i)});
                  return parts;
                })
      .sample({{2, 3}, {2, 3}}, {.axis = 1})
      .sample({{2}, {2}, {2}}, {.axis = -1});
}

// ---- splitting
// Part i covers [starts[i], starts[i + 1]) of the axis.
static std::vector<Shape> part_shapes(const Shape& data, int axis, const std::vector<int64_t>& starts, bool squeeze) {
  std::vector<Shape> parts;
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    Shape s = data;
    s[axis] = starts[i + 1] - starts[i];
    if (s[axis] < 0 || starts[i] < 0 || starts[i + 1] > data[axis])
      raise<ShapeError>("part {} is [{}, {}) of an axis of extent {}", i, starts[i], starts[i + 1], data[axis]);
    if (squeeze && s[axis] != 1) raise<ShapeError>("squeeze_axis needs parts of extent 1, but part {} has {}", i, s[axis]);
    if (squeeze) s.erase(axis);
    if (s.empty()) s.push_back(1);
    parts.push_back(s);
  }
  return parts;
}
static std::vector<int64_t> equal_starts(int64_t extent, int64_t parts) {
  if (parts < 1) raise<AttrError>("data cannot be split into {} parts", parts);
  if (extent % parts) raise<ShapeError>("an axis of extent {} cannot be split into {} equal parts", extent, parts);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i <= parts; ++i) starts.push_back(extent / parts * i);
  return starts;
}
static void run_split(KernelContext& k, int axis, const std::vector<int64_t>& starts) {
  const AxisSplit whole(k.in(0).shape(), axis);
  for (int i = 0; i < k.num_outputs(); ++i) {
    const int64_t start = starts[i];
    copy_part(Direction::out_of_whole, k.in(0), whole, start, k.out(i), starts[i + 1] - start);
  }
}
static Tensor join_heads(const Gradient& g, int parts, int axis, bool squeezed) {
  Tensors heads;
  for (int i = 0; i < parts; ++i) heads.push_back(g.head(i));
  return squeezed && g.like(0).ndim() > 1 ? call("stack", heads, {{"num_args", int64_t{parts}}, {"axis", int64_t{axis}}})
                                          : call("Concat", heads, {{"num_args", int64_t{parts}}, {"dim", int64_t{axis}}});
}

struct SliceChannelAttrs {
  int num_outputs = 1;
  int axis = 1;
  bool squeeze_axis = false;
  static void fields(AttrFields<SliceChannelAttrs>& f) {
    f.required("num_outputs", &SliceChannelAttrs::num_outputs, "number of equal parts")
        .field("axis", &SliceChannelAttrs::axis, "the axis to split")
        .field("squeeze_axis", &SliceChannelAttrs::squeeze_axis, "remove the axis from the parts, whose extent must be 1");
  }
};
GLUINO_OP(SliceChannel, SliceChannelAttrs) {
  op.doc("Splits data into equal parts along an axis.")
      .alias("split")
      .input("data")
      .dtypes(DTypeSet::any)
      .num_outputs([](const SliceChannelAttrs& a) { return std::max(1, a.num_outputs); })
      .shape([](const SliceChannelAttrs& a, std::span<const Shape> in) {
        const int axis = normalize_axis(a.axis, in[0]);
        return part_shapes(in[0], axis, equal_starts(in[0][axis], a.num_outputs), a.squeeze_axis);
      })
      .kernel([](const SliceChannelAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.axis, k.in(0).shape());
        run_split(k, axis, equal_starts(k.in(0).extent(axis), a.num_outputs));
      })
      .gradient(
          {},
          [](const SliceChannelAttrs& a, const Gradient& g) -> Tensors { return {join_heads(g, a.num_outputs, a.axis, a.squeeze_axis)}; })
      .sample({{2, 6}}, {.num_outputs = 3})
      .sample({{2, 3, 2}}, {.num_outputs = 3, .squeeze_axis = true});
}

struct SplitAttrs {
  Shape indices;
  int axis = 1;
  bool squeeze_axis = false;
  int sections = 0;
  static void fields(AttrFields<SplitAttrs>& f) {
    f.field("indices", &SplitAttrs::indices, "where each part starts")
        .field("axis", &SplitAttrs::axis, "the axis to split")
        .field("squeeze_axis", &SplitAttrs::squeeze_axis, "remove the axis from the parts, whose extent must be 1")
        .field("sections", &SplitAttrs::sections, "number of equal parts; 0 to use indices");
  }
  int parts() const { return std::max(1, sections > 0 ? sections : indices.ndim()); }
};
static std::vector<int64_t> starts_of(const SplitAttrs& a, int64_t extent) {
  if (a.sections > 0) return equal_starts(extent, a.sections);
  if (a.indices.empty()) throw AttrError("attributes 'indices' and 'sections' are both missing");
  std::vector<int64_t> starts;
  for (int64_t i : a.indices) starts.push_back(std::min(i < 0 ? i + extent : i, extent));
  starts.push_back(extent);
  return starts;
}
GLUINO_OP(_split_v2, SplitAttrs) {
  op.doc("Splits data along an axis, into equal parts or at given places.")
      .input("data")
      .dtypes(DTypeSet::any)
      .num_outputs([](const SplitAttrs& a) { return a.parts(); })
      .shape([](const SplitAttrs& a, std::span<const Shape> in) {
        const int axis = normalize_axis(a.axis, in[0]);
        return part_shapes(in[0], axis, starts_of(a, in[0][axis]), a.squeeze_axis);
      })
      .kernel([](const SplitAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.axis, k.in(0).shape());
        run_split(k, axis, starts_of(a, k.in(0).extent(axis)));
      })
      .gradient({},
                [](const SplitAttrs& a, const Gradient& g) -> Tensors {
                  if (a.sections > 0 || a.indices[0] == 0) return {join_heads(g, a.parts(), a.axis, a.squeeze_axis)};
                  // What lies before the first part got no gradient.
                  OptionalInts begin(static_cast<size_t>(a.axis < 0 ? a.axis + g.like(0).ndim() : a.axis) + 1);
                  begin.back() = a.indices[0];
                  return {call("_slice_backward", {join_heads(g, a.parts(), a.axis, a.squeeze_axis), g.like(0)}, {{"begin", begin}})};
                })
      .sample({{2, 6}}, {.indices = {0, 1, 4}})
      .sample({{4, 3}}, {.axis = 0, .sections = 2})
      .sample({{2, 6}}, {.indices = {2, 3}});
}

}  // namespace
}  // namespace gluino::ops
