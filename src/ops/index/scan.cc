// Where extrema are, running sums, checks for infinities and NaN, histograms.
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "kernels/isa/primitives.h"
#include "kernels/reduce/reduce.h"
#include "ops/reduce/axes.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

static constexpr const char* kIndex = "an index is not a function of real numbers";

struct ArgAttrs {
  std::optional<int> axis;
  bool keepdims = false;
  static void fields(AttrFields<ArgAttrs>& f) {
    f.field("axis", &ArgAttrs::axis, "the axis to search; None flattens data first")
        .field("keepdims", &ArgAttrs::keepdims, "keep the axis with extent 1");
  }
};
// NumPy's result has no axes where none is left, MXNet's one of extent 1.
static Shape arg_shape(const ArgAttrs& a, const Shape& data, bool numpy = false) {
  const int64_t searched = a.axis ? data[normalize_axis(*a.axis, data)] : data.elements();
  if (searched == 0) raise<ShapeError>("data of shape {} has no element to find", data);
  if (numpy && !a.keepdims && (!a.axis || data.ndim() == 1)) return {};
  return ReducedAxes(data, a.axis ? std::optional(Shape{*a.axis}) : std::nullopt, false).result(data, a.keepdims);
}
// Whether v comes before the best element so far: the first NaN before all numbers, as in NumPy.
template <class T>
static bool is_better(T v, T best, bool largest) {
  if constexpr (!std::is_integral_v<T>)
    if (v != v || best != best) return best == best;
  return largest ? v > best : v < best;
}
// Elements that are compared at once, without a branch for each.
constexpr int64_t kCompared = 32;

// 16-bit floats are compared and added as float32, many converted at once.
template <class T>
constexpr bool kIsNarrow = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
using Computed = std::conditional_t<kIsNarrow<T>, float, T>;
// n elements as they are computed: themselves, or written to `block`.
template <class T>
static const Computed<T>* computed(const T* x, int64_t n, float* block) {
  if constexpr (kIsNarrow<T>) {
    kernels::convert(x, dtype_of<T>, block, DType::float32, n);
    return block;
  } else {
    return x;
  }
}
// The first place of the best element of a row. Where none of a block comes before the best so far, nothing else is asked of it.
template <bool largest, class T>
static int64_t best_of_row(const T* row, int64_t n) {
  int64_t best = 0, i = 1;
  T value = row[0];
  const auto look_at = [&](int64_t end) {
    for (; i < end; ++i)
      if (is_better(row[i], value, largest)) {
        value = row[i];
        best = i;
      }
  };
  while (n - i >= kCompared) {
    int any = 0;
    for (int64_t j = 0; j < kCompared; ++j) any |= largest ? !(row[i + j] <= value) : !(row[i + j] >= value);
    if (any)
      look_at(i + kCompared);
    else
      i += kCompared;
  }
  look_at(n);
  return best;
}
// The same for rows that lie across the memory, side by side: places[r] for row r.
template <bool largest, class T>
static void best_of_columns(const T* first, int64_t rows, int64_t n, int64_t step, int64_t* places) {
  Computed<T> values[kCompared];
  float block[kCompared];
  int32_t best[kCompared] = {};
  std::copy_n(computed(first, rows, block), rows, values);
  for (int64_t i = 1; i < n; ++i) {
    const Computed<T>* here = computed(first + i * step, rows, block);
    for (int64_t r = 0; r < rows; ++r) {
      // As is_better, but chosen without branches.
      const bool is_first = (largest ? !(here[r] <= values[r]) : !(here[r] >= values[r])) & (values[r] == values[r]);
      values[r] = is_first ? here[r] : values[r];
      best[r] = is_first ? static_cast<int32_t>(i) : best[r];
    }
  }
  std::copy_n(best, rows, places);
}
template <bool largest, class T, class F>
static void visit_best(const T* in, const AxisSplit& s, F&& put) {
  const bool across = s.inner > 1 && s.extent <= std::numeric_limits<int32_t>::max();
  const int64_t together = across ? std::min(s.inner, kCompared) : 1, groups = (s.inner + together - 1) / together;
  parallel_for(s.outer * groups, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, s.extent * together)),
               [&](int64_t begin, int64_t end) {
                 std::array<int64_t, kCompared> places;
                 std::vector<float> row(kIsNarrow<T> && !across ? s.extent : 0);
                 for (int64_t g = begin; g < end; ++g) {
                   const int64_t outer = g / groups, first = g % groups * together, rows = std::min(together, s.inner - first);
                   const T* from = in + outer * s.extent * s.inner + first;
                   if (across)
                     best_of_columns<largest>(from, rows, s.extent, s.inner, places.data());
                   else
                     places[0] = best_of_row<largest>(computed(from, s.extent, row.data()), s.extent);
                   for (int64_t r = 0; r < rows; ++r) put(outer * s.inner + first + r, places[r]);
                 }
               });
}
// The first place of the largest (or smallest) element: as int64, or as float32, as MXNet has it.
static void run_arg(const ArgAttrs& a, bool largest, const Tensor& data, Tensor& out) {
  const Shape shape = a.axis ? data.shape() : Shape{data.size()};
  const AxisSplit s(shape, normalize_axis(a.axis.value_or(0), shape));
  int64_t* whole = out.dtype() == DType::int64 ? out.mutable_data<int64_t>() : nullptr;
  float* rounded = whole ? nullptr : out.mutable_data<float>();
  const auto put = [&](int64_t row, int64_t place) {
    if (whole)
      whole[row] = place;
    else
      rounded[row] = static_cast<float>(place);
  };
  visit_dtype(data.dtype(), [&]<class T>(T*) {
    if (largest)
      visit_best<true>(data.data<T>(), s, put);
    else
      visit_best<false>(data.data<T>(), s, put);
  });
}
static void define_arg(OpBuilder<ArgAttrs>& op, bool largest, DType index) {
  op.input("data")
      .dtypes(DTypeSet::any)
      .shape([numpy = index == DType::int64](const ArgAttrs& a, std::span<const Shape> in) { return arg_shape(a, in[0], numpy); })
      .dtype([index](const ArgAttrs&, std::span<const DType>, DType) { return index; })
      .kernel([largest](const ArgAttrs& a, KernelContext& k) { run_arg(a, largest, k.in(0), k.out()); })
      .not_differentiable(kIndex)
      .sample({{2, 3, 4}}, {.axis = 1})
      .sample({{3, 4}})
      .sample({{3, 4}}, {.axis = -1, .keepdims = true});
}
GLUINO_OP(argmax, ArgAttrs) { define_arg(op.doc("Index of the largest element along an axis, as float32."), true, DType::float32); }
GLUINO_OP(argmin, ArgAttrs) { define_arg(op.doc("Index of the smallest element along an axis, as float32."), false, DType::float32); }
GLUINO_OP(_npi_argmax, ArgAttrs) { define_arg(op.doc("Index of the largest element along an axis, as int64."), true, DType::int64); }
GLUINO_OP(_npi_argmin, ArgAttrs) { define_arg(op.doc("Index of the smallest element along an axis, as int64."), false, DType::int64); }
GLUINO_OP(argmax_channel, NoAttrs) {
  op.doc("Index of the largest element along axis 1, as float32.")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape> in) { return arg_shape({.axis = 1}, in[0]); })
      .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::float32; })
      .kernel([](const NoAttrs&, KernelContext& k) { run_arg({.axis = 1}, true, k.in(0), k.out()); })
      .not_differentiable(kIndex)
      .sample({{3, 4}});
}

// ---- running sums
struct CumsumAttrs {
  std::optional<int> axis;
  std::optional<DType> dtype;
  static void fields(AttrFields<CumsumAttrs>& f) {
    f.field("axis", &CumsumAttrs::axis, "the axis to sum along; None flattens data first")
        .field("dtype", &CumsumAttrs::dtype, "dtype of the result; None for that of data");
  }
};
// One row along the memory, or several across it, side by side.
template <class T>
static void run_sums(const T* in, T* out, int64_t rows, int64_t extent, int64_t step) {
  using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  Sum sums[kCompared] = {};
  if (rows == 1) {
    Sum sum = 0;
    for (int64_t i = 0; i < extent; ++i) out[i * step] = static_cast<T>(sum += static_cast<Sum>(in[i * step]));
    return;
  }
  for (int64_t i = 0; i < extent; ++i)
    for (int64_t r = 0; r < rows; ++r) out[i * step + r] = static_cast<T>(sums[r] += static_cast<Sum>(in[i * step + r]));
}
template <class T>
requires kIsNarrow<T>
static void run_sums(const T* in, T* out, int64_t rows, int64_t extent, int64_t step) {
  constexpr int64_t kBlock = 512;
  double sums[kCompared] = {}, sum = 0;
  float block[kBlock];
  // What lies side by side, in the order in which it does.
  const auto each_block = [&](int64_t at, int64_t n, auto&& add) {
    kernels::convert(in + at, dtype_of<T>, block, DType::float32, n);
    add();
    kernels::convert(block, DType::float32, out + at, dtype_of<T>, n);
  };
  const bool is_dense = rows == 1 && (step == 1 || step == -1);
  for (int64_t i = 0; is_dense && i < extent; i += kBlock) {
    const int64_t n = std::min(kBlock, extent - i);
    each_block(step > 0 ? i : 1 - i - n, n, [&] {
      float* first = step > 0 ? block : block + n - 1;
      for (int64_t j = 0; j < n; ++j) first[j * step] = static_cast<float>(sum += static_cast<double>(first[j * step]));
    });
  }
  for (int64_t i = 0; !is_dense && i < extent; ++i)
    each_block(i * step, rows, [&] {
      for (int64_t r = 0; r < rows; ++r) block[r] = static_cast<float>(sums[r] += static_cast<double>(block[r]));
    });
}
static void run_cumsum(const CumsumAttrs& a, bool backward, KernelContext& k) {
  const Tensor data = with_dtype(k.in(0), k.out().dtype());
  const Shape shape = a.axis ? data.shape() : Shape{data.size()};
  const AxisSplit s(shape, normalize_axis(a.axis.value_or(0), shape));
  const int64_t together = std::min(s.inner, kCompared), groups = (s.inner + together - 1) / std::max<int64_t>(1, together);
  visit_dtype(k.out().dtype(), [&]<class T>(T*) {
    const T* in = data.data<T>();
    T* out = k.out_data<T>();
    parallel_for(s.outer * groups, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, s.extent * together)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t g = begin; g < end; ++g) {
                     const int64_t column = g % groups * together, rows = std::min(together, s.inner - column);
                     const int64_t first = g / groups * s.extent * s.inner + column, last = first + (s.extent - 1) * s.inner;
                     run_sums(in + (backward ? last : first), out + (backward ? last : first), rows, s.extent,
                              backward ? -s.inner : s.inner);
                   }
                 });
  });
}
static void define_cumsum(OpBuilder<CumsumAttrs>& op, bool backward) {
  op.dtypes(DTypeSet::any)
      .shape([](const CumsumAttrs& a, std::span<const Shape> in) {
        if (!a.axis) return Shape{in[0].elements()};
        return normalize_axis(*a.axis, in[0]), in[0];
      })
      .dtype([](const CumsumAttrs& a, std::span<const DType>, DType promoted) {
        return a.dtype.value_or(promoted == DType::boolean ? DType::int64 : promoted);
      })
      .kernel([backward](const CumsumAttrs& a, KernelContext& k) { run_cumsum(a, backward, k); })
      .gradient({},
                [backward](const CumsumAttrs& a, const Gradient& g) -> Tensors {
                  const AttrValue axis = a.axis ? AttrValue(int64_t{*a.axis}) : AttrValue();
                  return {call("reshape_like", {call(backward ? "cumsum" : "_cumsum_backward", {g.head()}, {{"axis", axis}}), g.like(0)})};
                })
      .sample({{3, 4}}, {.axis = 1})
      .sample({{3, 4}}, {.axis = 0})
      .sample({{2, 3}});
}
GLUINO_OP(cumsum, CumsumAttrs) { define_cumsum(op.doc("Running sum along an axis.").alias("_np_cumsum").input("a"), false); }
GLUINO_OP(_cumsum_backward, CumsumAttrs) { define_cumsum(op.doc("Running sum along an axis, from the end.").input("a"), true); }

// ---- finite, sums of squares of many tensors
static bool is_finite(const Tensor& t) {
  bool finite = true;
  visit_dtype(t.dtype(), [&]<class T>(T*) {
    if constexpr (!std::is_integral_v<T>) {
      const T* x = t.data<T>();
      for (int64_t i = 0; i < t.size(); ++i)
        finite &= std::isfinite(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(x[i]));
    }
  });
  return finite;
}
struct AllFiniteAttrs {
  int num_arrays = 1;
  static void fields(AttrFields<AllFiniteAttrs>& f) {
    f.field("num_arrays", &AllFiniteAttrs::num_arrays, "number of inputs; follows from the call");
  }
};
static void define_all_finite(OpBuilder<AllFiniteAttrs>& op) {
  op.dtypes(DTypeSet::any)
      .ignores({"init_output"})
      .shape([](const AllFiniteAttrs&, std::span<const Shape>) { return Shape{1}; })
      .dtype([](const AllFiniteAttrs&, std::span<const DType>, DType) { return DType::float32; })
      .kernel([](const AllFiniteAttrs&, KernelContext& k) {
        bool finite = true;
        for (int i = 0; i < k.num_inputs(); ++i) finite = finite && is_finite(k.in(i));
        *k.out_data<float>() = finite ? 1 : 0;
      })
      .not_differentiable("piecewise constant");
}
GLUINO_OP(all_finite, AllFiniteAttrs) {
  define_all_finite(op.doc("1 when no element is infinite or NaN, else 0.").input("data").sample({{3, 4}}));
}
GLUINO_OP(multi_all_finite, AllFiniteAttrs) {
  define_all_finite(
      op.doc("1 when no element of any input is infinite or NaN, else 0.").variadic("data").sample({{3, 4}, {2}}, {.num_arrays = 2}));
}
GLUINO_OP(multi_sum_sq, AllFiniteAttrs) {
  op.doc("The sum of squares of each input, as one float32 vector.")
      .variadic("data")
      .shape([](const AllFiniteAttrs&, std::span<const Shape> in) { return Shape{static_cast<int64_t>(in.size())}; })
      .dtype([](const AllFiniteAttrs&, std::span<const DType>, DType) { return DType::float32; })
      .kernel([](const AllFiniteAttrs&, KernelContext& k) {
        for (int i = 0; i < k.num_inputs(); ++i) {
          const bool all[] = {true};
          kernels::reduce(kernels::ReduceOp::sum_square, kernels::ReduceFinish::none, bytes_of(k.in(i)), k.in(i).dtype(),
                          Shape{k.in(i).size()}, all, k.out_data<float>() + i, DType::float32);
        }
      })
      .gradient(
          {{}, {}, true},
          [](const Gradient& g) -> Tensors {
            Tensors result;
            for (int i = 0; i < g.num_inputs(); ++i) {
              const Tensor weight = call("slice_axis", {g.head()}, {{"axis", int64_t{0}}, {"begin", int64_t{i}}, {"end", int64_t{i + 1}}});
              result.push_back(call("_sum_like", {g.in(i) * (weight * 2), g.like(i)}));
            }
            return result;
          })
      .sample_without_gradient({{3, 4}, {2}}, {.num_arrays = 2});  // float32 is too coarse for numeric differences
}

// ---- histogram
struct HistogramAttrs {
  std::optional<int> bin_cnt;
  std::optional<Floats> range;
  static void fields(AttrFields<HistogramAttrs>& f) {
    f.field("bin_cnt", &HistogramAttrs::bin_cnt, "number of equal bins; None when the edges are an input")
        .field("range", &HistogramAttrs::range, "lower and upper edge of all bins; None for those of the data");
  }
};
static std::vector<double> equal_edges(const HistogramAttrs& a, const Tensor& data) {
  double low = 0, high = 1;
  if (a.range) {
    low = a.range->at(0);
    high = a.range->at(1);
  } else if (data.size()) {
    const std::vector<double> values = with_dtype(data, DType::float64).to_vector<double>();
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    low = *least;
    high = *most;
    if (low == high) low -= 0.5, high += 0.5;
  }
  std::vector<double> edges;
  for (int i = 0; i <= *a.bin_cnt; ++i) edges.push_back(low + (high - low) * i / *a.bin_cnt);
  return edges;
}
GLUINO_OP(_histogram, HistogramAttrs) {
  op.doc("Counts the elements that fall into each bin; the last bin includes its upper edge.")
      .alias("histogram")
      .outputs({"counts", "edges"})
      .dtypes(DTypeSet::any)
      .input("data")
      .input("bins")
      .present_if([](const HistogramAttrs& a) { return !a.bin_cnt; })
      .shape([](const HistogramAttrs& a, std::span<const Shape> in) {
        if (a.bin_cnt && *a.bin_cnt < 1) raise<AttrError>("attribute 'bin_cnt' is {}, at least 1 is needed", *a.bin_cnt);
        if (a.range && (a.range->size() != 2 || !(a.range->at(0) < a.range->at(1))))
          throw AttrError("attribute 'range' needs a lower and a higher number");
        if (!a.bin_cnt && (in[1].ndim() != 1 || in[1][0] < 2))
          raise<ShapeError>("input 'bins' has shape {}, but a vector of at least 2 edges is needed", in[1]);
        const int64_t bins = a.bin_cnt ? *a.bin_cnt : in[1][0] - 1;
        return std::vector<Shape>{{bins}, {bins + 1}};
      })
      .dtype([](const HistogramAttrs&, std::span<const DType>, DType promoted) {
        return std::vector<DType>{DType::int64, promoted};
      })
      .refuses_values()
      .kernel([](const HistogramAttrs& a, KernelContext& k) {
        const std::vector<double> edges = a.bin_cnt ? equal_edges(a, k.in(0)) : with_dtype(k.in(1), DType::float64).to_vector<double>();
        if (!std::is_sorted(edges.begin(), edges.end()))
          throw UserError("the edges of the bins must not go down; sort the input 'bins' first");
        int64_t* counts = k.out_data<int64_t>(0);
        std::fill_n(counts, k.out(0).size(), 0);
        for (double v : with_dtype(k.in(0), DType::float64).to_vector<double>()) {
          if (!(v >= edges.front() && v <= edges.back())) continue;
          const auto bin = std::upper_bound(edges.begin(), edges.end(), v) - edges.begin() - 1;
          ++counts[std::clamp<int64_t>(bin, 0, k.out(0).size() - 1)];
        }
        const Tensor typed = with_dtype(from_vector(edges), k.out(1).dtype());
        std::copy_n(bytes_of(typed), typed.nbytes(), bytes_of(k.out(1)));
      })
      .not_differentiable("counts are piecewise constant")
      .sample({{3, 4}}, {.bin_cnt = 4, .range = Floats{-2, 2}})
      .sample({{3, 4}, uniform_sample({2}, 0, 1)});
}

}  // namespace
}  // namespace gluino::ops
