// Picking elements along one axis: take, Embedding, pick, one_hot and their gradients.
#include <cstring>

#include "base/copy_bytes.h"
#include "base/parallel.h"
#include "dispatch/compiler_rules.h"
#include "dispatch/row_gradient.h"
#include "ops/index/indices.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

using kernels::RowFunction;

// ---- take: whole rows of an axis
struct TakeAttrs {
  int axis = 0;
  IndexMode mode = IndexMode::clip;
  static void fields(AttrFields<TakeAttrs>& f) {
    f.field("axis", &TakeAttrs::axis, "the axis to take from")
        .choice("mode", &TakeAttrs::mode, {"clip", "wrap", "raise"},
                "what an index out of range means: the nearest, the remainder, or an error");
  }
};
static void check_has_elements(const Shape& data, int axis, const Shape& indices) {
  if (data[axis] == 0 && indices.is_known() && indices.elements() > 0)
    raise<IndexError>("nothing can be taken from axis {} of shape {}, which has no elements", axis, data);
}
static Shape take_shape(const Shape& data, int axis, const Shape& indices) {
  check_has_elements(data, axis, indices);
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(data[i]);
  for (int64_t e : indices) out.push_back(e);
  for (int i = axis + 1; i < data.ndim(); ++i) out.push_back(data[i]);
  return out;
}
static void run_take(const Tensor& data, int axis, const Indices& at, Tensor& out) {
  const AxisSplit s(data.shape(), axis);
  const int64_t bytes = s.inner * dtype_bytes(data.dtype()), n = at.size();
  const char* from = bytes_of(data);
  char* to = bytes_of(out);
  const auto copy_rows = [&](auto size) {
    parallel_for(s.outer * n, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, s.inner)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end;) {
        const int64_t first = r % n, last = std::min(n, first + end - r);
        const char* row = from + r / n * s.extent * size;
        char* taken = to + (r - first) * size;
        for (int64_t i = first; i < last; ++i) copy_bytes(taken + i * size, row + at[i] * size, size);
        r += last - first;
      }
    });
  };
  visit_piece_size(bytes, copy_rows);
}
// Rows with the same index add up in the order of the indices; threads share the columns, so the sum does not depend on them.
template <class T>
static void add_rows(const T* head, const Indices& at, const AxisSplit& s, T* out) {
  const int64_t n = at.size();
  parallel_for(s.outer * s.inner, std::max<int64_t>(16, kParallelGrain / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end;) {
      const int64_t o = c / s.inner, first = c % s.inner, count = std::min(s.inner - first, end - c);
      for (int64_t i = 0; i < n; ++i) {
        const T* from = head + (o * n + i) * s.inner + first;
        T* to = out + (o * s.extent + at[i]) * s.inner + first;
        for (int64_t j = 0; j < count; ++j) to[j] += from[j];
      }
      c += count;
    }
  });
}
static Tensor take_backward(const Tensor& head, const Tensor& indices, const Tensor& like, int axis, IndexMode mode) {
  return call("_take_backward", {head, indices, like}, {{"axis", int64_t{axis}}, {"mode", std::string(mode_name(mode))}});
}

GLUINO_OP(take, TakeAttrs) {
  op.doc("The elements of an axis that the indices name.")
      .alias("_npi_take")
      .input("a")
      .input("indices")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const TakeAttrs& a, std::span<const Shape> in) { return take_shape(in[0], normalize_axis(a.axis, in[0]), in[1]); })
      .refuses_values_if([](const TakeAttrs& a) { return a.mode == IndexMode::raise; })
      .kernel([](const TakeAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.axis, k.in(0).shape());
        run_take(k.in(0), axis, Indices(k.in(1), k.in(0).extent(axis), a.mode, axis), k.out());
      })
      .gradient({{1}, {}},
                [](const TakeAttrs& a, const Gradient& g) -> Tensors {
                  return {take_backward(g.head(), g.in(1), g.like(0), a.axis, a.mode), Tensor()};
                })
      .sample({{5, 3}, index_sample({2, 2}, 5)})
      .sample({{2, 4, 3}, index_sample({3}, 9)}, {.axis = 1, .mode = IndexMode::wrap})
      .sample({{2, 4}, index_sample({3}, 4)}, {.axis = -1, .mode = IndexMode::raise});
  for_compiler(op).works_on_blocks(
      [](const TakeAttrs& a, std::span<const Shape> in) { return in[0].ndim() == 4 && in[1].ndim() == 1 && (a.axis == 2 || a.axis == 3); });
  picks_rows("take", {0, [](const void* attrs, const Gradient& g) -> std::optional<PickedRows> {
                        const auto& a = *static_cast<const TakeAttrs*>(attrs);
                        if (normalize_axis(a.axis, impl_of(g.like(0)).shape) != 0) return std::nullopt;
                        return PickedRows{g.in(1), g.head(), mode_name(a.mode)};
                      }});
}
GLUINO_OP(_take_backward, TakeAttrs) {
  op.doc("Zeros of the shape of like with data added where take found it.")
      .input("data")
      .input("indices")
      .own_dtype()
      .input("like")
      .shape_only()
      .kernel_dtypes({DType::float32, DType::float64})
      .shape([](const TakeAttrs& a, std::span<const Shape> in) {
        if (!(take_shape(in[2], normalize_axis(a.axis, in[2]), in[1]) == in[0]))
          raise<ShapeError>("data of shape {} was not taken from shape {} by indices of shape {}", in[0], in[2], in[1]);
        return in[2];
      })
      .refuses_values_if([](const TakeAttrs& a) { return a.mode == IndexMode::raise; })
      .kernel([](const TakeAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.axis, k.out().shape());
        const Indices at(k.in(1), k.out().extent(axis), a.mode, axis);
        std::memset(bytes_of(k.out()), 0, k.out().nbytes());
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          if constexpr (std::is_floating_point_v<T>) add_rows(k.data<T>(0), at, AxisSplit(k.out().shape(), axis), k.out_data<T>());
        });
      })
      .gradient({{1}, {}},
                [](const TakeAttrs& a, const Gradient& g) -> Tensors {
                  return {call("take", {g.head(), g.in(1)}, {{"axis", int64_t{a.axis}}, {"mode", std::string(mode_name(a.mode))}}),
                          Tensor(), Tensor()};
                })
      .sample({{2, 2, 3}, index_sample({2, 2}, 5), {5, 3}});
}

struct EmbeddingAttrs {
  int64_t input_dim = 0, output_dim = 0;
  DType dtype = DType::float32;
  enum class OutOfRange : uint8_t { clip, raise } out_of_range = OutOfRange::clip;
  IndexMode mode() const { return out_of_range == OutOfRange::clip ? IndexMode::clip : IndexMode::raise; }
  static void fields(AttrFields<EmbeddingAttrs>& f) {
    f.required("input_dim", &EmbeddingAttrs::input_dim, "number of rows of the table")
        .required("output_dim", &EmbeddingAttrs::output_dim, "length of a row")
        .field("dtype", &EmbeddingAttrs::dtype, "dtype of the table when it is created")
        // Spelled so that MXNet, which always clips, passes over it in a file.
        .choice("__out_of_range__", &EmbeddingAttrs::out_of_range, {"clip", "raise"},
                "what an index out of range means: the nearest row, or an error");
  }
};
GLUINO_OP(Embedding, EmbeddingAttrs) {
  op.doc("Looks rows up in a table.")
      .input("data")
      .own_dtype()
      .input("weight")
      .dtypes(DTypeSet::any)
      .alias("_contrib_SparseEmbedding")
      .ignores({"sparse_grad", "deterministic"})
      .shape([](const EmbeddingAttrs& a, std::span<const Shape> in) {
        if (!(in[1] == Shape{a.input_dim, a.output_dim}))
          raise<ShapeError>("input 'weight' has shape {}, but {} is needed", in[1], Shape{a.input_dim, a.output_dim});
        check_has_elements(in[1], 0, in[0]);
        Shape out = in[0];
        out.push_back(a.output_dim);
        return out;
      })
      .complete([](const EmbeddingAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        in[1] = Shape{a.input_dim, a.output_dim};
      })
      .refuses_values_if([](const EmbeddingAttrs& a) { return a.mode() == IndexMode::raise; })
      .kernel([](const EmbeddingAttrs& a, KernelContext& k) { run_take(k.in(1), 0, Indices(k.in(0), a.input_dim, a.mode()), k.out()); })
      .gradient({{0}, {}},
                [](const EmbeddingAttrs& a, const Gradient& g) -> Tensors {
                  return {Tensor(), take_backward(g.head(), g.in(0), g.like(1), 0, a.mode())};
                })
      .sample({index_sample({2, 3}, 5), {5, 4}}, {.input_dim = 5, .output_dim = 4});
  picks_rows("Embedding", {1, [](const void* attrs, const Gradient& g) -> std::optional<PickedRows> {
                             return PickedRows{g.in(0), g.head(), mode_name(static_cast<const EmbeddingAttrs*>(attrs)->mode())};
                           }});
}

// ---- pick: one element of each row
struct PickAttrs {
  std::optional<int> axis = -1;
  bool keepdims = false;
  IndexMode mode = IndexMode::clip;
  static void fields(AttrFields<PickAttrs>& f) {
    f.field("axis", &PickAttrs::axis, "the axis to pick from; None flattens data first")
        .field("keepdims", &PickAttrs::keepdims, "keep the axis with extent 1")
        .choice("mode", &PickAttrs::mode, {"clip", "wrap", "raise"},
                "what an index out of range means: the nearest, the remainder, or an error");
  }
};
static Shape flat_if(bool flatten, const Shape& s) { return flatten ? Shape{s.elements()} : s; }
static Shape pick_shape(const PickAttrs& a, const Shape& full, const Shape& index) {
  const Shape data = flat_if(!a.axis, full);
  const int axis = normalize_axis(a.axis.value_or(0), data);
  Shape kept = data, dropped = data;
  kept[axis] = 1;
  dropped.erase(axis);
  if (dropped.empty()) dropped.push_back(1);
  if (!(index == kept) && !(index == dropped))
    raise<ShapeError>("index has shape {}, but data of shape {} needs {} or {}", index, full, dropped, kept);
  if (data[axis] == 0 && index.elements() > 0)
    raise<IndexError>("there is nothing to pick from axis {} of data of shape {}, which has no elements", axis, full);
  return a.keepdims ? kept : dropped;
}
// Calls f(position in the full tensor, position in the picked one).
template <class F>
static void visit_picked(const PickAttrs& a, const Shape& full, const Tensor& index, F&& f) {
  const Shape data = flat_if(!a.axis, full);
  const int axis = normalize_axis(a.axis.value_or(0), data);
  const AxisSplit s(data, axis);
  const Indices at(index, s.extent, a.mode, axis);
  for (int64_t i = 0; i < at.size(); ++i) f((i / s.inner * s.extent + at[i]) * s.inner + i % s.inner, i);
}
static AttrValue axis_value(const std::optional<int>& axis) { return axis ? AttrValue(int64_t{*axis}) : AttrValue(); }
static Tensor pick_backward(const Tensor& head, const Tensor& index, const Tensor& like, const PickAttrs& a) {
  return call("_pick_backward", {head, index, like},
              {{"axis", axis_value(a.axis)}, {"keepdims", a.keepdims}, {"mode", std::string(mode_name(a.mode))}});
}
// As a function of single rows of the last axis. Where indices wrap or must be in range they stay with the operator.
static std::optional<RowCall> pick_of_rows(const PickAttrs& a, const Shape& full, RowFunction function) {
  const bool is_last = a.axis && normalize_axis(*a.axis, full) == full.ndim() - 1;
  return is_last && a.mode == IndexMode::clip ? std::optional(RowCall{function, 0}) : std::nullopt;
}
static void run_pick(const PickAttrs& a, KernelContext& k) {
  visit_dtype(k.out().dtype(), [&]<class T>(T*) {
    const T* data = k.data<T>(0);
    T* out = k.out_data<T>();
    visit_picked(a, k.in(0).shape(), k.in(1), [&](int64_t from, int64_t to) { out[to] = data[from]; });
  });
}
GLUINO_OP(pick, PickAttrs) {
  op.doc("One element of each row, named by an index.")
      .alias("choose_element_0index", "_npx_pick")
      .input("data")
      .input("index")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const PickAttrs& a, std::span<const Shape> in) { return pick_shape(a, in[0], in[1]); })
      .refuses_values_if([](const PickAttrs& a) { return a.mode == IndexMode::raise; })
      .kernel(run_pick)
      .gradient({{1}, {}},
                [](const PickAttrs& a, const Gradient& g) -> Tensors {
                  return {pick_backward(g.head(), g.in(1), g.like(0), a), Tensor()};
                })
      .sample({{3, 4}, index_sample({3}, 4)})
      .sample({{3, 4}, index_sample({1, 4}, 3)}, {.axis = 0, .keepdims = true})
      .sample({{3, 4}, index_sample({3, 1}, 9)}, {.mode = IndexMode::wrap});
  for_compiler(op).row_call([](const PickAttrs& a, std::span<const Shape> in) { return pick_of_rows(a, in[0], RowFunction::pick); });
}
GLUINO_OP(_pick_backward, PickAttrs) {
  op.doc("Zeros of the shape of like with data where pick found it.")
      .input("data")
      .input("index")
      .own_dtype()
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const PickAttrs& a, std::span<const Shape> in) {
        if (pick_shape(a, in[2], in[1]).elements() != in[0].elements())
          raise<ShapeError>("data of shape {} was not picked from shape {}", in[0], in[2]);
        return in[2];
      })
      .refuses_values_if([](const PickAttrs& a) { return a.mode == IndexMode::raise; })
      .kernel([](const PickAttrs& a, KernelContext& k) {
        std::memset(bytes_of(k.out()), 0, k.out().nbytes());
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* data = k.data<T>(0);
          T* out = k.out_data<T>();
          visit_picked(a, k.out().shape(), k.in(1), [&](int64_t to, int64_t from) { out[to] = data[from]; });
        });
      })
      .gradient({{1}, {}},
                [](const PickAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor picked =
                      call("pick", {g.head(), g.in(1)},
                           {{"axis", axis_value(a.axis)}, {"keepdims", a.keepdims}, {"mode", std::string(mode_name(a.mode))}});
                  return {call("reshape_like", {picked, g.like(0)}), Tensor(), Tensor()};
                })
      .sample({{3}, index_sample({3}, 4), {3, 4}});
  for_compiler(op).row_call([](const PickAttrs& a, std::span<const Shape> in) { return pick_of_rows(a, in[2], RowFunction::pick_grad); });
}
struct CheckIndexAttrs {
  int axis = -1;
  static void fields(AttrFields<CheckIndexAttrs>& f) { f.field("axis", &CheckIndexAttrs::axis, "the axis that the indices count along"); }
};
// Beside pick, which clips in one sweep with what surrounds it, where an index out of range is a mistake.
GLUINO_OP(_contrib_check_index, CheckIndexAttrs) {
  op.doc("The indices themselves; one that the axis of data does not have, or a negative one, is an error.")
      .alias("_check_index")
      .input("index")
      .own_dtype()
      .input("data")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const CheckIndexAttrs& a, std::span<const Shape> in) { return normalize_axis(a.axis, in[1]), in[0]; })
      .dtype([](const CheckIndexAttrs&, std::span<const DType> in, DType) { return in[0]; })
      .refuses_values()
      .kernel([](const CheckIndexAttrs& a, KernelContext& k) {
        const int axis = normalize_axis(a.axis, k.in(1).shape());
        const int64_t extent = k.in(1).shape()[axis];
        for (int64_t v : integers(k.in(0)))
          if (v < 0 || v >= extent) raise<IndexError>("index {} is out of range for axis {}, which has {} elements", v, axis, extent);
        std::memcpy(bytes_of(k.out()), bytes_of(k.in(0)), k.out().nbytes());
      })
      .gradient({}, [](const Gradient& g) -> Tensors { return Tensors(static_cast<size_t>(g.num_inputs())); })
      .sample({index_sample({3}, 4), {3, 4}});
}
GLUINO_OP(batch_take, NoAttrs) {
  op.doc("One element of each row of a matrix, named by an index.")
      .input("a")
      .input("indices")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        if (in[0].ndim() != 2) raise<ShapeError>("input 'a' has shape {}, but a matrix is needed", in[0]);
        return pick_shape({}, in[0], in[1]), in[1];
      })
      .kernel([](const NoAttrs&, KernelContext& k) { run_pick({}, k); })
      .gradient({{1}, {}},
                [](const Gradient& g) -> Tensors {
                  return {pick_backward(g.head(), g.in(1), g.like(0), {}), Tensor()};
                })
      .sample({{3, 4}, index_sample({3}, 4)});
}

// ---- along one axis, indices of the same rank: what sort and topk need
struct AlongAxisAttrs {
  std::optional<int> axis = -1;
  static void fields(AttrFields<AlongAxisAttrs>& f) {
    f.field("axis", &AlongAxisAttrs::axis, "the axis that the indices count along; None flattens first");
  }
};
static void check_along(const AlongAxisAttrs& a, const Shape& full, const Shape& index) {
  Shape fits = flat_if(!a.axis, full);
  const int axis = normalize_axis(a.axis.value_or(0), fits);
  if (index.ndim() == fits.ndim()) fits[axis] = index[axis];
  if (!(fits == index)) raise<ShapeError>("indices of shape {} do not fit data of shape {}", index, full);
}
template <class F>
static void visit_along(const AlongAxisAttrs& a, const Shape& full, const Tensor& index, F&& f) {
  const Shape data = flat_if(!a.axis, full);
  const int axis = normalize_axis(a.axis.value_or(0), data);
  const AxisSplit s(data, axis), t(index.shape(), axis);
  const Indices at(index, s.extent, IndexMode::raise, axis);
  for (int64_t i = 0; i < at.size(); ++i) f((i / (t.extent * t.inner) * s.extent + at[i]) * s.inner + i % s.inner, i);
}
GLUINO_OP(_take_along_axis, AlongAxisAttrs) {
  op.doc("The elements along an axis that indices of the same rank name.")
      .input("data")
      .input("indices")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const AlongAxisAttrs& a, std::span<const Shape> in) { return check_along(a, in[0], in[1]), in[1]; })
      .refuses_values()
      .kernel([](const AlongAxisAttrs& a, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* data = k.data<T>(0);
          T* out = k.out_data<T>();
          visit_along(a, k.in(0).shape(), k.in(1), [&](int64_t from, int64_t to) { out[to] = data[from]; });
        });
      })
      .gradient({{1}, {}},
                [](const AlongAxisAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_put_along_axis", {g.head(), g.in(1), g.like(0)}, {{"axis", axis_value(a.axis)}}), Tensor()};
                })
      .sample({{3, 4}, index_sample({3, 2}, 4)})
      .sample({{3, 4}, index_sample({2, 4}, 3)}, {.axis = 0})
      .sample({{3, 2}, index_sample({4}, 6)}, {.axis = std::nullopt});
}
GLUINO_OP(_put_along_axis, AlongAxisAttrs) {
  op.doc("Zeros of the shape of like with data added where the indices say.")
      .input("data")
      .input("indices")
      .own_dtype()
      .input("like")
      .shape_only()
      .kernel_dtypes({DType::float32, DType::float64})
      .shape([](const AlongAxisAttrs& a, std::span<const Shape> in) {
        check_along(a, in[2], in[1]);
        if (!(in[0] == in[1])) raise<ShapeError>("data has shape {}, indices {}: they must be the same", in[0], in[1]);
        return in[2];
      })
      .refuses_values()
      .kernel([](const AlongAxisAttrs& a, KernelContext& k) {
        std::memset(bytes_of(k.out()), 0, k.out().nbytes());
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* data = k.data<T>(0);
          T* out = k.out_data<T>();
          visit_along(a, k.out().shape(), k.in(1), [&](int64_t to, int64_t from) { out[to] = static_cast<T>(out[to] + data[from]); });
        });
      })
      .gradient({{1}, {}},
                [](const AlongAxisAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_take_along_axis", {g.head(), g.in(1)}, {{"axis", axis_value(a.axis)}}), Tensor(), Tensor()};
                })
      .sample({{3, 2}, index_sample({3, 2}, 4), {3, 4}});
}

struct OneHotAttrs {
  int64_t depth = 0;
  double on_value = 1, off_value = 0;
  DType dtype = DType::float32;
  static void fields(AttrFields<OneHotAttrs>& f) {
    f.required("depth", &OneHotAttrs::depth, "extent of the new last axis")
        .field("on_value", &OneHotAttrs::on_value, "what stands at the index")
        .field("off_value", &OneHotAttrs::off_value, "what stands elsewhere")
        .field("dtype", &OneHotAttrs::dtype, "dtype of the result");
  }
};
GLUINO_OP(one_hot, OneHotAttrs) {
  op.doc("A vector for each index, with on_value at that place; an index out of range gives none.")
      .input("indices")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const OneHotAttrs& a, std::span<const Shape> in) {
        if (a.depth < 0) raise<AttrError>("attribute 'depth' is {}", a.depth);
        Shape out = in[0];
        out.push_back(a.depth);
        return out;
      })
      .dtype([](const OneHotAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([](const OneHotAttrs& a, KernelContext& k) {
        const std::vector<int64_t> at = integers(k.in(0));
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          std::fill_n(out, k.out().size(), element<T>(a.off_value));
          for (size_t i = 0; i < at.size(); ++i)
            if (at[i] >= 0 && at[i] < a.depth) out[static_cast<int64_t>(i) * a.depth + at[i]] = element<T>(a.on_value);
        });
      })
      .not_differentiable("piecewise constant")
      .sample({index_sample({2, 3}, 5)}, {.depth = 5, .on_value = 2, .off_value = -1});
}

}  // namespace
}  // namespace gluino::ops
