// Operators that repeat elements: broadcasting to a shape, tiling, repeating, padding.
#include <cstring>

#include "base/copy_bytes.h"
#include "base/extents.h"
#include "base/parallel.h"
#include "kernels/elementwise/strided.h"
#include "kernels/reduce/reduce.h"
#include "ops/common.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

static Tensors sum_like_gradient(const Gradient& g) {
  Tensors result(g.num_inputs());
  result[0] = reduce_like(g.head(), g.like(0));
  return result;
}
static void run_broadcast(KernelContext& k) {
  const Shape& to = k.out().shape();
  kernels::copy_strided(dtype_bytes(k.out().dtype()), to, bytes_of(k.in(0)), kernels::broadcast_strides(k.in(0).shape(), to),
                        bytes_of(k.out()), kernels::row_major_strides(to));
}
static Shape check_broadcast(const Shape& from, const Shape& to) {
  bool fits = from.ndim() <= to.ndim();
  for (int i = 0; fits && i < from.ndim(); ++i) {
    const int64_t extent = from[from.ndim() - 1 - i];
    fits = extent == 1 || extent == to[to.ndim() - 1 - i];
  }
  if (!fits) raise<ShapeError>("data of shape {} cannot be broadcast to {}", from, to);
  return to;
}

// What the ways to say which axes are repeated have in common.
template <class A>
static OpBuilder<A>& repeats_axes(OpBuilder<A>& op) {
  return op.dtypes(DTypeSet::any)
      .identity_if([](const auto&, bool) { return true; })
      .kernel([](const A&, KernelContext& k) { run_broadcast(k); })
      .gradient({}, sum_like_gradient);
}

struct BroadcastToAttrs {
  Shape shape;
  static void fields(AttrFields<BroadcastToAttrs>& f) {
    f.field("shape", &BroadcastToAttrs::shape, "the shape to broadcast to; 0 keeps an extent");
  }
};
GLUINO_OP(broadcast_to, BroadcastToAttrs) {
  repeats_axes(op.doc("Repeats axes of extent 1 to reach a shape."))
      .alias("_np_broadcast_to")
      .input("data")
      .shape([](const BroadcastToAttrs& a, std::span<const Shape> in) {
        Shape to = a.shape;
        const int shift = to.ndim() - in[0].ndim();
        for (int i = std::max(0, shift); i < to.ndim(); ++i)
          if (to[i] == 0) to[i] = in[0][i - shift];
        return check_broadcast(in[0], to);
      })
      .scalar([](Expr x) { return x; })
      .sample({{2, 1, 3}}, {.shape = {2, 4, 3}})
      .sample({{1, 3}}, {.shape = {2, 0}});
}

struct BroadcastAxisAttrs {
  Shape axis, size;
  static void fields(AttrFields<BroadcastAxisAttrs>& f) {
    f.field("axis", &BroadcastAxisAttrs::axis, "axes of extent 1").field("size", &BroadcastAxisAttrs::size, "their new extents");
  }
};
GLUINO_OP(broadcast_axis, BroadcastAxisAttrs) {
  repeats_axes(op.doc("Repeats axes of extent 1."))
      .alias("broadcast_axes")
      .input("data")
      .shape([](const BroadcastAxisAttrs& a, std::span<const Shape> in) {
        if (a.axis.ndim() != a.size.ndim()) raise<AttrError>("attributes 'axis' {} and 'size' {} differ in length", a.axis, a.size);
        Shape to = in[0];
        for (int i = 0; i < a.axis.ndim(); ++i) to[normalize_axis(a.axis[i], in[0])] = a.size[i];
        return check_broadcast(in[0], to);
      })
      .scalar([](Expr x) { return x; })
      .sample({{1, 3, 1}}, {.axis = {0, 2}, .size = {2, 4}});
}

struct BroadcastLikeAttrs {
  std::optional<Shape> lhs_axes, rhs_axes;
  static void fields(AttrFields<BroadcastLikeAttrs>& f) {
    f.field("lhs_axes", &BroadcastLikeAttrs::lhs_axes, "axes of lhs to repeat; None for all")
        .field("rhs_axes", &BroadcastLikeAttrs::rhs_axes, "the axes of rhs whose extents they get");
  }
};
GLUINO_OP(broadcast_like, BroadcastLikeAttrs) {
  repeats_axes(op.doc("Repeats axes of extent 1 of lhs to reach the shape of rhs."))
      .input("lhs")
      .input("rhs")
      .shape_only()
      .shape([](const BroadcastLikeAttrs& a, std::span<const Shape> in) {
        if (!a.lhs_axes && !a.rhs_axes) return check_broadcast(in[0], in[1]);
        if (!a.lhs_axes || !a.rhs_axes || a.lhs_axes->ndim() != a.rhs_axes->ndim())
          throw AttrError("attributes 'lhs_axes' and 'rhs_axes' must have one length");
        Shape to = in[0];
        for (int i = 0; i < a.lhs_axes->ndim(); ++i)
          to[normalize_axis((*a.lhs_axes)[i], in[0])] = in[1][normalize_axis((*a.rhs_axes)[i], in[1])];
        return check_broadcast(in[0], to);
      })
      .scalar([](Expr x, Expr) { return x; })
      .sample({{3, 1}, {2, 3, 4}})
      .sample({{2, 1}, {5, 3}}, {.lhs_axes = Shape{1}, .rhs_axes = Shape{0}});
}

// ---- tile and repeat: the repeated tensor is the original with extra axes of stride 0
struct TileAttrs {
  Shape reps;
  static void fields(AttrFields<TileAttrs>& f) { f.required("reps", &TileAttrs::reps, "how often to repeat along each axis"); }
};
// The result seen as (reps0, extent0, reps1, extent1, ...).
struct Tiling {
  Shape interleaved, strides, result;
  Tiling(const Shape& data, const Shape& reps) {
    const int n = std::max(data.ndim(), reps.ndim());
    const Shape own = kernels::row_major_strides(data);
    for (int i = 0; i < n; ++i) {
      const int d = i - (n - data.ndim()), r = i - (n - reps.ndim());
      const int64_t extent = d < 0 ? 1 : data[d], times = r < 0 ? 1 : reps[r];
      if (times < 0) raise<AttrError>("attribute 'reps' {} has a negative element", reps);
      interleaved.push_back(times);
      interleaved.push_back(extent);
      strides.push_back(0);
      strides.push_back(d < 0 ? 0 : own[d]);
      result.push_back(saturated_product(times, extent));
    }
  }
};
GLUINO_OP(tile, TileAttrs) {
  op.doc("Repeats the whole tensor along axes.")
      .alias("_np_tile")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const TileAttrs& a, std::span<const Shape> in) { return Tiling(in[0], a.reps).result; })
      .kernel([](const TileAttrs& a, KernelContext& k) {
        const Tiling t(k.in(0).shape(), a.reps);
        kernels::copy_strided(dtype_bytes(k.out().dtype()), t.interleaved, bytes_of(k.in(0)), t.strides, bytes_of(k.out()),
                              kernels::row_major_strides(t.interleaved));
      })
      .gradient({},
                [](const TileAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_tile_backward", {g.head(), g.like(0)}, {{"reps", a.reps}})};
                })
      .sample({{2, 3}}, {.reps = {2, 1, 2}})
      .sample({{2, 3}}, {.reps = {2}});
}
GLUINO_OP(_tile_backward, TileAttrs) {
  op.doc("Sums the copies that tile made, which gives the shape of like.")
      .input("data")
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const TileAttrs& a, std::span<const Shape> in) {
        if (!(Tiling(in[1], a.reps).result == in[0]))
          raise<ShapeError>("data of shape {} is not a tiling of shape {} by {}", in[0], in[1], a.reps);
        return in[1];
      })
      .kernel([](const TileAttrs& a, KernelContext& k) {
        const Tiling t(k.out().shape(), a.reps);
        bool copies[Shape::kMaxAxes];
        for (int i = 0; i < t.interleaved.ndim(); ++i) copies[i] = i % 2 == 0;
        kernels::reduce(kernels::ReduceOp::sum, kernels::ReduceFinish::none, bytes_of(k.in(0)), k.in(0).dtype(), t.interleaved, copies,
                        bytes_of(k.out()), k.out().dtype());
      })
      .gradient({},
                [](const TileAttrs& a, const Gradient& g) -> Tensors {
                  return {call("tile", {g.head()}, {{"reps", a.reps}}), Tensor()};
                })
      .sample({{4, 3}, {2, 3}}, {.reps = {2, 1}});
}

struct RepeatAttrs {
  int repeats = 1;
  std::optional<int> axis;
  static void fields(AttrFields<RepeatAttrs>& f) {
    f.required("repeats", &RepeatAttrs::repeats, "how often to repeat each element")
        .field("axis", &RepeatAttrs::axis, "along which axis; None flattens data first");
  }
};
static Shape repeat_shape(const RepeatAttrs& a, const Shape& data) {
  if (a.repeats < 0) raise<AttrError>("attribute 'repeats' is {}", a.repeats);
  if (!a.axis) return {saturated_product(data.elements(), a.repeats)};
  Shape out = data;
  int64_t& extent = out[normalize_axis(*a.axis, data)];
  extent = saturated_product(extent, a.repeats);
  return out;
}
// The result seen as (outer, extent, repeats, inner).
static Shape repeat_view(const RepeatAttrs& a, const Shape& data) {
  if (!a.axis) return {1, data.elements(), a.repeats, 1};
  const AxisSplit s(data, normalize_axis(*a.axis, data));
  return {s.outer, s.extent, a.repeats, s.inner};
}
static AttrValue axis_value(const RepeatAttrs& a) { return a.axis ? AttrValue(int64_t{*a.axis}) : AttrValue(); }
GLUINO_OP(repeat, RepeatAttrs) {
  op.doc("Repeats each element along an axis.")
      .alias("_np_repeat")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const RepeatAttrs& a, std::span<const Shape> in) { return repeat_shape(a, in[0]); })
      .kernel([](const RepeatAttrs& a, KernelContext& k) {
        const Shape view = repeat_view(a, k.in(0).shape());
        const Shape from{view[1] * view[3], view[3], 0, 1};
        kernels::copy_strided(dtype_bytes(k.out().dtype()), view, bytes_of(k.in(0)), from, bytes_of(k.out()),
                              kernels::row_major_strides(view));
      })
      .gradient({},
                [](const RepeatAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_repeat_backward", {g.head(), g.like(0)}, {{"repeats", int64_t{a.repeats}}, {"axis", axis_value(a)}})};
                })
      .sample({{2, 3}}, {.repeats = 2, .axis = 1})
      .sample({{2, 3}}, {.repeats = 2});
}
GLUINO_OP(_repeat_backward, RepeatAttrs) {
  op.doc("Sums the copies that repeat made, which gives the shape of like.")
      .input("data")
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const RepeatAttrs& a, std::span<const Shape> in) {
        if (!(repeat_shape(a, in[1]) == in[0])) raise<ShapeError>("data of shape {} is not a repetition of shape {}", in[0], in[1]);
        return in[1];
      })
      .kernel([](const RepeatAttrs& a, KernelContext& k) {
        const bool copies[] = {false, false, true, false};
        kernels::reduce(kernels::ReduceOp::sum, kernels::ReduceFinish::none, bytes_of(k.in(0)), k.in(0).dtype(),
                        repeat_view(a, k.out().shape()), copies, bytes_of(k.out()), k.out().dtype());
      })
      .gradient({},
                [](const RepeatAttrs& a, const Gradient& g) -> Tensors {
                  return {call("repeat", {g.head()}, {{"repeats", int64_t{a.repeats}}, {"axis", axis_value(a)}}), Tensor()};
                })
      .sample({{2, 6}, {2, 3}}, {.repeats = 2, .axis = 1});
}

// ---- Pad
enum class PadMode { constant, edge, reflect };
struct PadAttrs {
  PadMode mode = PadMode::constant;
  Shape pad_width;
  double constant_value = 0;
  static void fields(AttrFields<PadAttrs>& f) {
    f.choice("mode", &PadAttrs::mode, {"constant", "edge", "reflect"},
             "what to pad with: one value, the nearest element, or a mirror image")
        .required("pad_width", &PadAttrs::pad_width, "elements before and after, for each axis in turn")
        .field("constant_value", &PadAttrs::constant_value, "the value for mode constant");
  }
};
static Shape pad_shape(const PadAttrs& a, const Shape& data) {
  if (a.pad_width.ndim() != 2 * data.ndim())
    raise<ShapeError>("attribute 'pad_width' {} has {} elements, but data of shape {} needs {}", a.pad_width, a.pad_width.ndim(), data,
                      2 * data.ndim());
  Shape out = data;
  for (int i = 0; i < data.ndim(); ++i) {
    const int64_t before = a.pad_width[2 * i], after = a.pad_width[2 * i + 1];
    if (before < 0 || after < 0) raise<AttrError>("attribute 'pad_width' {} has a negative element", a.pad_width);
    const int64_t both = saturated_sum(before, after);
    if (a.mode == PadMode::reflect && std::max(before, after) >= std::max<int64_t>(1, data[i]) && both > 0)
      raise<ShapeError>("axis {} of data of shape {} is too short to mirror {} elements", i, data, std::max(before, after));
    if (a.mode == PadMode::edge && data[i] == 0 && both > 0) raise<ShapeError>("data of shape {} has no edge on axis {}", data, i);
    out[i] = saturated_sum(data[i], both);
  }
  return out;
}
// For each axis, which element of the data stands at each place of the result, where it is no constant.
static std::vector<std::vector<int64_t>> pad_maps(const PadAttrs& a, const Shape& data) {
  std::vector<std::vector<int64_t>> maps;
  for (int i = 0; i < data.ndim(); ++i) {
    const int64_t n = data[i], before = a.pad_width[2 * i];
    std::vector<int64_t> map(n + before + a.pad_width[2 * i + 1]);
    for (size_t j = 0; j < map.size(); ++j) {
      int64_t at = static_cast<int64_t>(j) - before;
      if (at < 0 || at >= n) {
        if (a.mode == PadMode::edge)
          at = at < 0 ? 0 : n - 1;
        else
          at = at < 0 ? -at : 2 * (n - 1) - at;
      }
      map[j] = at;
    }
    maps.push_back(std::move(map));
  }
  return maps;
}
// Calls f(row, from) for every row of the padded tensor: where its data row starts.
template <class F>
static void visit_padded_rows(const PadAttrs& a, const Shape& data, const Shape& padded, bool in_parallel, F&& f) {
  const auto maps = pad_maps(a, data);
  const Shape strides = kernels::row_major_strides(data);
  const int last = data.ndim() - 1;
  const int64_t rows = padded.elements(0, last);
  // Where the rows of a plane lie follows from that of the plane.
  const int64_t plane = last > 0 ? padded[last - 1] : 1;
  auto run = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin, base = 0, y = begin % plane; row < end; ++row, y = y + 1 < plane ? y + 1 : 0) {
      if (row == begin || y == 0) {
        base = 0;
        int64_t rest = row / plane;
        for (int i = last - 2; i >= 0; --i) {
          base += maps[i][rest % padded[i]] * strides[i];
          rest /= padded[i];
        }
      }
      f(row, base + (last > 0 ? maps[last - 1][y] * strides[last - 1] : 0), maps.back());
    }
  };
  if (in_parallel)
    parallel_for(rows, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, padded[last])), run);
  else
    run(0, rows);
}

// As many of the last axes at once as stay in the cache: filled, and then the data put into it, because edges of a few elements cost more
// one by one.
static void pad_with_constant(const PadAttrs& a, const Shape& data, const Shape& padded, int bytes, const void* in, const void* constant,
                              void* out) {
  constexpr int64_t kAtOnce = 4096;
  const int axes = data.ndim();
  int outer = axes - 1;
  int64_t size = padded[outer];
  while (outer > 0 && size * padded[outer - 1] <= kAtOnce) size *= padded[--outer];
  const Shape strides = kernels::row_major_strides(data), padded_strides = kernels::row_major_strides(padded);
  Shape inner, from_strides, to_strides;
  int64_t first = 0;
  for (int i = outer; i < axes; ++i) {
    inner.push_back(data[i]);
    from_strides.push_back(strides[i]);
    to_strides.push_back(padded_strides[i]);
    first += a.pad_width[2 * i] * padded_strides[i];
  }
  // Of a long row alone the edges.
  const bool is_row = outer == axes - 1;
  const int64_t last = is_row ? size - first - data[outer] : inner.elements() == size ? 0 : size;
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      int64_t base = 0, rest = part;
      for (int i = outer - 1; i >= 0 && base >= 0; rest /= padded[i--]) {
        const int64_t at = rest % padded[i] - a.pad_width[2 * i];
        base = at < 0 || at >= data[i] ? -1 : base + at * strides[i];
      }
      char* to = static_cast<char*>(out) + part * size * bytes;
      if (base < 0) {
        kernels::fill_elements(bytes, constant, to, size);
        continue;
      }
      if (is_row) kernels::fill_elements(bytes, constant, to, first);
      kernels::fill_elements(bytes, constant, to + (size - last) * bytes, last);
      kernels::copy_strided(bytes, inner, static_cast<const char*>(in) + base * bytes, from_strides, to + first * bytes, to_strides);
    }
  };
  parallel_for(padded.elements(0, outer), std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, size)), run);
}

GLUINO_OP(Pad, PadAttrs) {
  op.doc("Adds elements around the data.")
      .alias("pad", "_npi_pad")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const PadAttrs& a, std::span<const Shape> in) {
        if (in[0].empty()) throw ShapeError("data is a scalar, but at least one axis is needed");
        return pad_shape(a, in[0]);
      })
      .kernel([](const PadAttrs& a, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* in = k.data<T>(0);
          T* out = k.out_data<T>();
          const T constant = element<T>(a.constant_value);
          const Shape &data = k.in(0).shape(), &padded = k.out().shape();
          if (a.mode == PadMode::constant) return pad_with_constant(a, data, padded, sizeof(T), in, &constant, out);
          const int64_t before = a.pad_width[a.pad_width.ndim() - 2], width = padded.back(), middle = data.back();
          visit_padded_rows(a, data, padded, true, [&](int64_t row, int64_t from, const std::vector<int64_t>& map) {
            T* to = out + row * width;
            for (int64_t j = 0; j < before; ++j) to[j] = in[from + map[j]];
            if (middle) copy_bytes(to + before, in + from, middle * static_cast<int64_t>(sizeof(T)));
            for (int64_t j = before + middle; j < width; ++j) to[j] = in[from + map[j]];
          });
        });
      })
      .gradient({},
                [](const PadAttrs& a, const Gradient& g) -> Tensors {
                  static constexpr const char* kModes[] = {"constant", "edge", "reflect"};
                  return {call("_pad_backward", {g.head(), g.like(0)},
                               {{"mode", std::string(kModes[static_cast<int>(a.mode)])}, {"pad_width", a.pad_width}})};
                })
      .sample({{1, 2, 3, 4}}, {.pad_width = {0, 0, 0, 0, 1, 2, 2, 1}, .constant_value = 1.5})
      .sample({{2, 3}}, {.mode = PadMode::edge, .pad_width = {1, 0, 2, 1}})
      .sample({{1, 2, 3, 4}}, {.mode = PadMode::reflect, .pad_width = {0, 0, 0, 0, 1, 2, 2, 1}});
}
GLUINO_OP(_pad_backward, PadAttrs) {
  op.doc("Adds the gradients of padded elements to those they were copied from.")
      .input("data")
      .input("like")
      .shape_only()
      .kernel_dtypes({DType::float32, DType::float64})
      .shape([](const PadAttrs& a, std::span<const Shape> in) {
        if (!(pad_shape(a, in[1]) == in[0])) raise<ShapeError>("data of shape {} is not a padding of shape {}", in[0], in[1]);
        return in[1];
      })
      .kernel([](const PadAttrs& a, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* in = k.data<T>(0);
          T* out = k.out_data<T>();
          if (a.mode == PadMode::constant) {  // the middle of the padded tensor
            const Shape strides = kernels::row_major_strides(k.in(0).shape());
            int64_t first = 0;
            for (int i = 0; i < strides.ndim(); ++i) first += a.pad_width[2 * i] * strides[i];
            return kernels::copy_strided(sizeof(T), k.out().shape(), in + first, strides, out, kernels::row_major_strides(k.out().shape()));
          }
          std::memset(static_cast<void*>(out), 0, k.out().nbytes());
          const int64_t width = k.in(0).shape().back();
          // Mirrored rows add to the same elements, so one thread does them all, in order.
          visit_padded_rows(a, k.out().shape(), k.in(0).shape(), false, [&](int64_t row, int64_t from, const std::vector<int64_t>& map) {
            for (int64_t j = 0; j < width; ++j) out[from + map[j]] = static_cast<T>(out[from + map[j]] + in[row * width + j]);
          });
        });
      })
      .gradient({},
                [](const PadAttrs& a, const Gradient& g) -> Tensors {
                  static constexpr const char* kModes[] = {"constant", "edge", "reflect"};
                  return {call("Pad", {g.head()}, {{"mode", std::string(kModes[static_cast<int>(a.mode)])}, {"pad_width", a.pad_width}}),
                          Tensor()};
                })
      .sample({{3, 5}, {3, 3}}, {.mode = PadMode::reflect, .pad_width = {0, 0, 1, 1}});
}

}  // namespace
}  // namespace gluino::ops
