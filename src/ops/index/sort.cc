// Sorting along an axis: sort, argsort, topk.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "ops/common.h"

namespace gluino::ops {
namespace {

static Shape flat_if(bool flatten, const Shape& s) { return flatten ? Shape{s.elements()} : s; }
static AttrValue axis_value(const std::optional<int>& axis) { return axis ? AttrValue(int64_t{*axis}) : AttrValue(); }

// NaN is larger than every number; equal elements stay in order.
template <class T>
static bool before(T a, T b, bool ascending) {
  if constexpr (!std::is_integral_v<T>) {
    if (std::isnan(static_cast<float>(a)) || std::isnan(static_cast<float>(b)))
      return ascending ? std::isnan(static_cast<float>(b)) && !std::isnan(static_cast<float>(a))
                       : std::isnan(static_cast<float>(a)) && !std::isnan(static_cast<float>(b));
  }
  return ascending ? a < b : b < a;
}

// Calls f(first element's position, distance between elements, row number, sorted positions within the row) for each row; only the
// first `count` are in order.
template <class T, class F>
static void for_sorted_rows(const T* data, const AxisSplit& s, int64_t count, bool ascending, F&& f) {
  parallel_for(s.outer * s.inner, std::max<int64_t>(1, kParallelGrain / 8 / std::max<int64_t>(1, s.extent)),
               [&](int64_t begin, int64_t end) {
                 std::vector<int64_t> order(s.extent);
                 std::vector<T> row(s.extent);
                 for (int64_t r = begin; r < end; ++r) {
                   const int64_t base = r / s.inner * s.extent * s.inner + r % s.inner;
                   for (int64_t i = 0; i < s.extent; ++i) row[i] = data[base + i * s.inner];
                   std::iota(order.begin(), order.end(), int64_t{0});
                   auto less = [&](int64_t a, int64_t b) {
                     const T x = row[a], y = row[b];
                     return before(x, y, ascending) || (!before(y, x, ascending) && a < b);
                   };
                   if (count < s.extent)
                     std::partial_sort(order.begin(), order.begin() + count, order.end(), less);
                   else
                     std::sort(order.begin(), order.end(), less);
                   f(base, r, order);
                 }
               });
}
// Where the i-th result of row r stands when each row keeps n elements.
static int64_t place(const AxisSplit& s, int64_t r, int64_t n, int64_t i) { return (r / s.inner * n + i) * s.inner + r % s.inner; }

template <class T>
static void write_index(Tensor& out, int64_t at, int64_t value) {
  out.mutable_data<T>()[at] = element<T>(static_cast<double>(value));
}
// Values and positions of the first `count` elements of each row; either output may be null.
static void run_sort(const Tensor& data, std::optional<int> axis, int64_t count, bool ascending, Tensor* values, Tensor* indices) {
  const Shape shape = flat_if(!axis, data.shape());
  const AxisSplit s(shape, normalize_axis(axis.value_or(0), shape));
  visit_dtype(data.dtype(), [&]<class T>(T*) {
    const T* in = data.data<T>();
    for_sorted_rows(in, s, count, ascending, [&](int64_t base, int64_t r, const std::vector<int64_t>& order) {
      for (int64_t i = 0; values && i < count; ++i) values->mutable_data<T>()[place(s, r, count, i)] = in[base + order[i] * s.inner];
      if (indices)
        visit_dtype(indices->dtype(), [&]<class I>(I*) {
          for (int64_t i = 0; i < count; ++i) write_index<I>(*indices, place(s, r, count, i), order[i]);
        });
    });
  });
}
static int64_t row_length(std::optional<int> axis, const Shape& data) { return axis ? data[normalize_axis(*axis, data)] : data.elements(); }

struct SortAttrs {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  static void fields(AttrFields<SortAttrs>& f) {
    f.field("axis", &SortAttrs::axis, "the axis to sort along; None flattens data first")
        .field("is_ascend", &SortAttrs::is_ascend, "smallest first");
  }
};
GLUINO_OP(sort, SortAttrs) {
  op.doc("Sorts along an axis; equal elements stay in order, NaN counts as the largest.")
      .input("data")
      .dtypes(DTypeSet::any)
      .outputs({"output", "indices"})
      .hidden_outputs(1)
      .shape([](const SortAttrs& a, std::span<const Shape> in) { return row_length(a.axis, in[0]), flat_if(!a.axis, in[0]); })
      .dtype([](const SortAttrs&, std::span<const DType>, DType promoted) {
        return std::vector<DType>{promoted, DType::int64};
      })
      .kernel([](const SortAttrs& a, KernelContext& k) {
        run_sort(k.in(0), a.axis, row_length(a.axis, k.in(0).shape()), a.is_ascend, &k.out(0), &k.out(1));
      })
      .gradient({{}, {1}},
                [](const SortAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_put_along_axis", {g.head(), g.out(1), g.like(0)}, {{"axis", axis_value(a.axis)}})};
                })
      .sample({{3, 4}})
      .sample({{3, 4}}, {.axis = 0, .is_ascend = false})
      .sample({{2, 3}}, {.axis = std::nullopt});
}

struct ArgsortAttrs {
  std::optional<int> axis = -1;
  bool is_ascend = true;
  DType dtype = DType::float32;
  static void fields(AttrFields<ArgsortAttrs>& f) {
    f.field("axis", &ArgsortAttrs::axis, "the axis to sort along; None flattens data first")
        .field("is_ascend", &ArgsortAttrs::is_ascend, "smallest first")
        .field("dtype", &ArgsortAttrs::dtype, "dtype of the indices");
  }
};
GLUINO_OP(argsort, ArgsortAttrs) {
  op.doc("The indices that sort along an axis.")
      .alias("_npi_argsort")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const ArgsortAttrs& a, std::span<const Shape> in) { return row_length(a.axis, in[0]), flat_if(!a.axis, in[0]); })
      .dtype([](const ArgsortAttrs& a, std::span<const DType>, DType) { return a.dtype; })
      .kernel([](const ArgsortAttrs& a, KernelContext& k) {
        run_sort(k.in(0), a.axis, row_length(a.axis, k.in(0).shape()), a.is_ascend, nullptr, &k.out());
      })
      .not_differentiable("an index is not a function of real numbers")
      .sample({{3, 4}})
      .sample({{3, 4}}, {.axis = 0, .is_ascend = false, .dtype = DType::int32});
}

enum class TopkResult { value, indices, mask, both };
struct TopkAttrs {
  std::optional<int> axis = -1;
  int64_t k = 1;
  TopkResult ret_typ = TopkResult::indices;
  bool is_ascend = false;
  DType dtype = DType::float32;
  static void fields(AttrFields<TopkAttrs>& f) {
    f.field("axis", &TopkAttrs::axis, "the axis to choose along; None flattens data first")
        .field("k", &TopkAttrs::k, "how many elements; less than 1 for all")
        .choice("ret_typ", &TopkAttrs::ret_typ, {"value", "indices", "mask", "both"}, "what to return")
        .field("is_ascend", &TopkAttrs::is_ascend, "choose the smallest instead of the largest")
        .field("dtype", &TopkAttrs::dtype, "dtype of the indices");
  }
  bool has_values() const { return ret_typ == TopkResult::value || ret_typ == TopkResult::both; }
  int64_t count(const Shape& data) const {
    const int64_t n = row_length(axis, data);
    return k < 1 ? n : std::min(k, n);
  }
};
static void run_mask(const TopkAttrs& a, KernelContext& k) {
  const Shape shape = flat_if(!a.axis, k.in(0).shape());
  const AxisSplit s(shape, normalize_axis(a.axis.value_or(0), shape));
  const int64_t count = a.count(k.in(0).shape());
  visit_dtype(k.out().dtype(), [&]<class T>(T*) {
    T* out = k.out_data<T>();
    std::fill_n(out, k.out().size(), T(0));
    for_sorted_rows(k.data<T>(0), s, count, a.is_ascend, [&](int64_t base, int64_t, const std::vector<int64_t>& order) {
      for (int64_t i = 0; i < count; ++i) out[base + order[i] * s.inner] = T(1);
    });
  });
}
GLUINO_OP(topk, TopkAttrs) {
  op.doc("The k largest (or smallest) elements along an axis: their values, indices, or a mask.")
      .alias("_npx_topk")
      .input("data")
      .dtypes(DTypeSet::any)
      .num_outputs([](const TopkAttrs& a) { return a.has_values() ? 2 : 1; })
      .visible_outputs([](const TopkAttrs& a) { return a.ret_typ == TopkResult::both ? 2 : 1; })
      .shape([](const TopkAttrs& a, std::span<const Shape> in) {
        const int64_t count = a.count(in[0]);
        if (a.ret_typ == TopkResult::mask) return in[0];
        Shape out = flat_if(!a.axis, in[0]);
        out[normalize_axis(a.axis.value_or(0), out)] = count;
        return out;
      })
      .dtype([](const TopkAttrs& a, std::span<const DType>, DType promoted) {
        if (a.has_values()) return std::vector<DType>{promoted, a.dtype};
        return std::vector<DType>{a.ret_typ == TopkResult::mask ? promoted : a.dtype};
      })
      .kernel([](const TopkAttrs& a, KernelContext& k) {
        if (a.ret_typ == TopkResult::mask) return run_mask(a, k);
        run_sort(k.in(0), a.axis, a.count(k.in(0).shape()), a.is_ascend, a.has_values() ? &k.out(0) : nullptr,
                 a.has_values() ? &k.out(1) : &k.out(0));
      })
      .gradient({{}, {1}},
                [](const TopkAttrs& a, const Gradient& g) -> Tensors {
                  if (!a.has_values()) return {Tensor()};
                  return {call("_put_along_axis", {g.head(), g.out(1), g.like(0)}, {{"axis", axis_value(a.axis)}})};
                })
      .sample({{3, 6}}, {.k = 2, .ret_typ = TopkResult::value})
      .sample({{3, 6}}, {.k = 2})
      .sample({{4, 3}}, {.axis = 0, .k = 2, .ret_typ = TopkResult::both, .is_ascend = true})
      .sample({{3, 6}}, {.k = 3, .ret_typ = TopkResult::mask});
}

}  // namespace
}  // namespace gluino::ops
