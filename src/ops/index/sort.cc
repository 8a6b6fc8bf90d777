// Sorting along an axis: sort, argsort, topk.
#include <memory>

#include "base/parallel.h"
#include "ops/common.h"
#include "ops/index/row_order.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

static Shape flat_if(bool flatten, const Shape& s) { return flatten ? Shape{s.elements()} : s; }
static AttrValue axis_value(const std::optional<int>& axis) { return axis ? AttrValue(int64_t{*axis}) : AttrValue(); }

// Calls f(first element's position, row number, the first `count` elements as the sorted order has them) for each row. NaN is larger than
// every number; equal elements stay in order.
template <class T, class F>
static void for_sorted_rows(const T* data, const AxisSplit& s, int64_t count, bool ascending, F&& f) {
  // Rows that lie across the memory are fetched several at a time, as many as a line of the cache has elements.
  const int64_t together = std::clamp<int64_t>(s.inner, 1, 64 / sizeof(T)), groups = (s.inner + together - 1) / together;
  if (s.extent > RowOrder<T>::kLongest) raise<ShapeError>("a row of {} elements is too long to be sorted", s.extent);
  parallel_for(s.outer * groups, std::max<int64_t>(1, kParallelGrain / 8 / std::max<int64_t>(1, s.extent * together)),
               [&](int64_t begin, int64_t end) {
                 RowOrder<T> order;
                 const auto fetched = std::make_unique<T[]>(together > 1 ? s.extent * together : 0);
                 for (int64_t g = begin; g < end; ++g) {
                   const int64_t outer = g / groups, first = g % groups * together, rows = std::min(together, s.inner - first);
                   const T* from = data + outer * s.extent * s.inner + first;
                   if (together > 1)
                     for (int64_t i = 0; i < s.extent; ++i)
                       for (int64_t r = 0; r < rows; ++r) fetched[r * s.extent + i] = from[i * s.inner + r];
                   for (int64_t r = 0; r < rows; ++r)
                     f(from + r - data, outer * s.inner + first + r,
                       order.sort(together > 1 ? fetched.get() + r * s.extent : from, s.extent, count, ascending));
                 }
               });
}
// Where the i-th result of row r stands when each row keeps n elements.
static int64_t place(const AxisSplit& s, int64_t r, int64_t n, int64_t i) { return (r / s.inner * n + i) * s.inner + r % s.inner; }

// Values and positions of the first `count` elements of each row; `values` may be null.
static void run_sort(const Tensor& data, std::optional<int> axis, int64_t count, bool ascending, Tensor* values, Tensor* indices) {
  const Shape shape = flat_if(!axis, data.shape());
  const AxisSplit s(shape, normalize_axis(axis.value_or(0), shape));
  char* at = bytes_of(*indices);
  visit_dtype(data.dtype(), [&]<class T>(T*) {
    const T* in = data.data<T>();
    T* sorted = values ? values->mutable_data<T>() : nullptr;
    for_sorted_rows(in, s, count, ascending, [&](int64_t base, int64_t r, const auto& order) {
      const int64_t first = place(s, r, count, 0);
      if (sorted)
        for (int64_t i = 0; i < count; ++i) sorted[first + i * s.inner] = in[base + place_of(order[i]) * s.inner];
      visit_dtype(indices->dtype(), [&]<class I>(I*) {
        for (int64_t i = 0; i < count; ++i)
          reinterpret_cast<I*>(at)[first + i * s.inner] = element<I>(static_cast<double>(place_of(order[i])));
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
    if (k > n) raise<AttrError>("attribute 'k' is {}, but shape {} has {} elements to choose from", k, data, n);
    return k < 1 ? n : k;
  }
};
static void run_mask(const TopkAttrs& a, KernelContext& k) {
  const Shape shape = flat_if(!a.axis, k.in(0).shape());
  const AxisSplit s(shape, normalize_axis(a.axis.value_or(0), shape));
  const int64_t count = a.count(k.in(0).shape());
  visit_dtype(k.out().dtype(), [&]<class T>(T*) {
    T* out = k.out_data<T>();
    std::fill_n(out, k.out().size(), T(0));
    for_sorted_rows(k.data<T>(0), s, count, a.is_ascend, [&](int64_t base, int64_t, const auto& order) {
      for (int64_t i = 0; i < count; ++i) out[base + place_of(order[i]) * s.inner] = T(1);
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
