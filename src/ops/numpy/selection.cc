// Names of mx.np that choose, add or leave out elements: where, masks, insertion, deletion, what is nonzero or unique.
#include <algorithm>
#include <cstring>

#include "ops/index/row_order.h"
#include "ops/numpy/composed.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

constexpr const char* kChooses = "it gives places, not values";

// ---- masks

struct TwoNumbersAttrs {
  double x = 0, y = 0;
  static void fields(AttrFields<TwoNumbersAttrs>& f) {
    f.field("x", &TwoNumbersAttrs::x, "what stands where the condition holds").field("y", &TwoNumbersAttrs::y, "what stands elsewhere");
  }
};
GLUINO_OP(_npi_where_scalar2, TwoNumbersAttrs) {
  composed(op.doc("One number where the condition holds, another elsewhere.")
               .input("condition")
               .own_dtype()
               .dtypes(DTypeSet::any)
               .dtype([](const TwoNumbersAttrs&, std::span<const DType>, DType) { return DType::float32; }),
           [](const TwoNumbersAttrs& a, std::span<const Tensor> in) {
             const Tensor yes = as_dtype(call("_npi_logical_not", {call("_npi_logical_not", {in[0]})}), DType::float32);
             return chosen(yes, yes * 0 + a.x, yes * 0 + a.y);
           })
      .not_differentiable(kChooses)
      .sample({{2, 3}}, {.x = 1, .y = 2});
}

struct MaskScalarAttrs {
  double value = 0;
  int64_t start_axis = 0;
  static void fields(AttrFields<MaskScalarAttrs>& f) {
    f.field("value", &MaskScalarAttrs::value, "what is written")
        .field("start_axis", &MaskScalarAttrs::start_axis, "the first axis that the mask covers");
  }
};
struct MaskTensorAttrs {
  int64_t start_axis = 0;
  static void fields(AttrFields<MaskTensorAttrs>& f) {
    f.field("start_axis", &MaskTensorAttrs::start_axis, "the first axis that the mask covers");
  }
};
// The mask with an axis for every one of data, and its place in it.
struct PlacedMask {
  Tensor mask;
  int begin, end;
};
PlacedMask placed_mask(const Tensor& data, const Tensor& mask, int64_t start) {
  const Shape &whole = data.shape(), &part = mask.shape();
  bool fits = start >= 0 && start + part.ndim() <= whole.ndim();
  for (int i = 0; fits && i < part.ndim(); ++i) fits = whole[static_cast<int>(start) + i] == part[i];
  if (!fits) raise<ShapeError>("a mask of shape {} at axis {} does not cover data of shape {}", part, start, whole);
  Shape column = Shape::filled(whole.ndim(), 1);
  for (int i = 0; i < part.ndim(); ++i) column[static_cast<int>(start) + i] = part[i];
  return {call("_npi_logical_not", {reshaped(mask, column)}), static_cast<int>(start), static_cast<int>(start) + part.ndim()};
}
GLUINO_OP(_npi_boolean_mask_assign_scalar, MaskScalarAttrs) {
  composed(op.doc("Data with a number written where the mask holds.").input("data").input("mask").own_dtype().dtypes(DTypeSet::numeric),
           [](const MaskScalarAttrs& a, std::span<const Tensor> in) {
             return chosen(placed_mask(in[0], in[1], a.start_axis).mask, in[0], as_dtype(zeros_like(in[0]) + a.value, in[0].dtype()));
           })
      .sample({{2, 3}, index_sample({2, 3}, 2)}, {.value = 5})
      .sample({{2, 3, 4}, index_sample({3}, 2)}, {.value = -1, .start_axis = 1});
}
GLUINO_OP(_npi_boolean_mask_assign_tensor, MaskTensorAttrs) {
  composed(op.doc("Data with values written where the mask holds: one value per place, or values that broadcast.")
               .input("data")
               .input("mask")
               .own_dtype()
               .input("value")
               .dtypes(DTypeSet::numeric),
           [](const MaskTensorAttrs& a, std::span<const Tensor> in) {
             const auto [kept, begin, end] = placed_mask(in[0], in[1], a.start_axis);
             const Tensor& value = in[2];
             if (value.ndim() <= begin || value.extent(begin) == 1 || value.ndim() != in[0].ndim() - (end - begin) + 1)
               return chosen(kept, in[0], as_dtype(value, in[0].dtype()));
             // The number of masked places before each is the place of its value.
             const Tensor holds = as_dtype(call("_npi_logical_not", {call("_npi_logical_not", {reshaped(in[1], {-1})})}), DType::int64);
             const Tensor number = call("cumsum", {holds}) - 1;
             const Tensor spread = taken(as_dtype(value, in[0].dtype()), number, begin);
             return chosen(kept, in[0], reshaped(spread, in[0].shape()));
           })
      .sample({{2, 3}, index_sample({2, 3}, 2), {1}})
      .sample({{2, 3}, uniform_sample({2, 3}, 1, 2), {6}})
      .sample({{2, 3, 2}, uniform_sample({3}, 1, 2), {2, 3, 2}}, {.start_axis = 1});
}

// ---- insertion and deletion

struct RangeAttrs {
  std::optional<double> val;
  std::optional<int64_t> start, stop, step, int_ind, axis;
  static void fields(AttrFields<RangeAttrs>& f) {
    f.field("val", &RangeAttrs::val, "the number to insert; None where values are given")
        .field("start", &RangeAttrs::start, "first place of a slice")
        .field("stop", &RangeAttrs::stop, "end of a slice, not included")
        .field("step", &RangeAttrs::step, "step of a slice")
        .field("int_ind", &RangeAttrs::int_ind, "one place; None where a slice or a tensor says which")
        .field("axis", &RangeAttrs::axis, "the axis; None flattens first");
  }
  bool has_range() const { return start || stop || step || int_ind; }
};
// The places that the attributes name, counted from 0. One may be inserted before the end, too.
std::vector<int64_t> named_places(const RangeAttrs& a, int64_t extent, bool with_end) {
  if (a.int_ind) {
    const int64_t place = *a.int_ind < 0 ? *a.int_ind + extent : *a.int_ind;
    if (place < 0 || place >= extent + (with_end ? 1 : 0))
      raise<IndexError>("place {} is out of range for an extent of {}", *a.int_ind, extent);
    return {place};
  }
  const int64_t step = a.step.value_or(1);
  if (step == 0) throw AttrError("the step of a slice cannot be 0");
  const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? extent : extent - 1;
  const auto bound = [&](std::optional<int64_t> given, int64_t otherwise) {
    return given ? std::clamp(*given < 0 ? *given + extent : *given, least, most) : otherwise;
  };
  const int64_t begin = bound(a.start, step > 0 ? 0 : extent - 1), end = bound(a.stop, step > 0 ? extent : -1);
  std::vector<int64_t> places;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    places.push_back(i);
    if (step > 0 ? step >= end - i : step <= end - i) break;
    i += step;
  }
  return places;
}
Tensor flat_for(const RangeAttrs& a, const Tensor& x) { return a.axis ? x : reshaped(x, {-1}); }

GLUINO_OP(_npi_delete, RangeAttrs) {
  composed(op.doc("Data without the elements at some places of an axis.")
               .input("arr")
               .input("obj")
               .own_dtype()
               .present_if([](const RangeAttrs& a) { return !a.has_range(); })
               .dtypes(DTypeSet::any)
               .dynamic_shape(),
           [](const RangeAttrs& a, std::span<const Tensor> in) {
             const Tensor x = flat_for(a, in[0]);
             const int axis = normalize_axis(a.axis.value_or(0), x.shape());
             const int64_t extent = x.extent(axis);
             if (in.size() == 1) {
               std::vector<int64_t> left(extent), places = named_places(a, extent, false);
               std::iota(left.begin(), left.end(), 0);
               std::erase_if(left, [&](int64_t i) { return std::find(places.begin(), places.end(), i) != places.end(); });
               return taken(x, from_vector(left), axis);
             }
             const Tensor places = reshaped(as_dtype(in[1], DType::int64), {-1, 1});
             const Tensor numbers = call("_arange", {}, {{"stop", static_cast<double>(extent)}, {"dtype", DType::int64}});
             const Tensor hits = call("broadcast_equal", {places, numbers}) + call("broadcast_equal", {places + extent, numbers});
             const Tensor kept =
                 as_dtype(call("_npi_logical_not", {call("sum", {as_dtype(hits, DType::int64)}, {{"axis", Shape{0}}})}), DType::int64);
             return call("_contrib_boolean_mask", {x, kept}, {{"axis", int64_t{axis}}});
           })
      .sample({{2, 5}}, {.int_ind = -1, .axis = 1})
      .sample({{2, 5}}, {.start = 1, .stop = 9, .step = 2})
      .sample({{2, 5}, index_sample({2}, 5)}, {.axis = 1});
}

// Values go before the places, which count elements of x; order among equal places is kept.
Tensor inserted(const Tensor& x, const Tensor& values, const Tensor& places, int axis, bool one_place) {
  const int64_t extent = x.extent(axis),
                count = one_place && places.size() == 1 && values.ndim() == x.ndim() ? values.extent(axis) : places.size();
  Shape wanted = x.shape();
  wanted[axis] = count;
  Tensor filling = as_dtype(values, x.dtype());
  // A vector of values for several places of one axis stands along it.
  filling = call("broadcast_to",
                 {reshaped(filling,
                           [&] {
                             Shape s = filling.shape();
                             while (s.ndim() < wanted.ndim()) s.insert(0, 1);
                             return s;
                           }())},
                 {{"shape", wanted}});
  const Tensor numbers = call("_arange", {}, {{"stop", static_cast<double>(extent)}, {"dtype", DType::int64}});
  const Tensor spread = places.size() == count ? places : call("broadcast_to", {places}, {{"shape", Shape{count}}});
  // Sorted by place: values at 2p, elements at 2i + 1; then by their own order.
  const auto total = static_cast<double>(extent + count);
  const Tensor keys = joined({spread * 2, numbers * 2 + 1}, 0) * total + call("_arange", {}, {{"stop", total}, {"dtype", DType::int64}});
  const Tensor order = call("argsort", {keys}, {{"dtype", DType::int64}});
  return taken(joined({filling, x}, axis), order, axis);
}
Tensor insert_at(const RangeAttrs& a, const Tensor& arr, const Tensor& values, const Tensor& obj) {
  const Tensor x = flat_for(a, arr);
  const int axis = normalize_axis(a.axis.value_or(0), x.shape());
  const Tensor filling = a.val ? call("_full", {}, {{"shape", Shape{1}}, {"value", *a.val}, {"dtype", x.dtype()}}) : values;
  if (!obj.defined()) {
    const std::vector<int64_t> places = named_places(a, x.extent(axis), true);
    return inserted(x, filling, from_vector(places), axis, a.int_ind.has_value());
  }
  const Tensor places = reshaped(as_dtype(obj, DType::int64), {-1});
  const Tensor is_negative = as_dtype(places < 0.0, DType::int64);
  return inserted(x, filling, places + is_negative * static_cast<double>(x.extent(axis)), axis, false);
}
bool takes_values(const RangeAttrs& a) { return !a.val; }
void define_insert(OpBuilder<RangeAttrs>& op) {
  composed(op.input("arr").input("values").own_dtype().present_if(takes_values).dtypes(DTypeSet::numeric),
           [](const RangeAttrs& a, std::span<const Tensor> in) { return insert_at(a, in[0], a.val ? Tensor() : in[1], {}); });
}
GLUINO_OP(_npi_insert_scalar, RangeAttrs) {
  define_insert(op.doc("Data with values inserted before one place of an axis."));
  op.sample({{2, 3}, {2, 2}}, {.int_ind = 1, .axis = 1}).sample({{2, 3}}, {.val = 4.0, .int_ind = -1});
}
GLUINO_OP(_npi_insert_slice, RangeAttrs) {
  define_insert(op.doc("Data with values inserted before the places of a slice of an axis."));
  op.sample({{2, 4}, {2, 2}}, {.start = 0, .stop = 4, .step = 2, .axis = 1}).sample({{2, 3}}, {.val = 4.0, .start = 1});
}
GLUINO_OP(_npi_insert_tensor, RangeAttrs) {
  composed(op.doc("Data with values inserted before the places that a tensor names.")
               .input("arr")
               .input("values")
               .own_dtype()
               .present_if(takes_values)
               .input("obj")
               .own_dtype()
               .dtypes(DTypeSet::numeric),
           [](const RangeAttrs& a, std::span<const Tensor> in) { return insert_at(a, in[0], a.val ? Tensor() : in[1], in.back()); })
      .sample({{2, 4}, {2, 3}, index_sample({3}, 4)}, {.axis = 1})
      .sample({{2, 3}, index_sample({2}, 3)}, {.val = 1.5});
}

// ---- what depends on values

GLUINO_OP(_npx_nonzero, NoAttrs) {
  composed(op.doc("The indices of the elements that are not zero: a row for each, a column per axis.")
               .alias("_npi_nonzero")
               .input("x")
               .dtypes(DTypeSet::any)
               .dynamic_shape()
               .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::int64; }),
           [](const NoAttrs&, std::span<const Tensor> in) {
             const Tensor& x = in[0];
             if (x.ndim() == 0) throw ShapeError("data is a scalar, but at least one axis is needed");
             const Tensor flags = as_dtype(call("_npi_logical_not", {call("_npi_logical_not", {reshaped(x, {-1})})}), DType::int32);
             const Tensor places = reshaped(call("_contrib_index_array", {x}), {x.size(), x.ndim()});
             return call("_contrib_boolean_mask", {places, flags});
           })
      .not_differentiable(kChooses)
      .sample({index_sample({2, 3}, 2)});
}

struct UniqueAttrs {
  bool return_index = false, return_inverse = false, return_counts = false;
  std::optional<int64_t> axis;
  static void fields(AttrFields<UniqueAttrs>& f) {
    f.field("return_index", &UniqueAttrs::return_index, "also where each was met first")
        .field("return_inverse", &UniqueAttrs::return_inverse, "also which one each element is")
        .field("return_counts", &UniqueAttrs::return_counts, "also how often each was met")
        .field("axis", &UniqueAttrs::axis, "compare slices along this axis; None for single elements");
  }
};
// Slices along an axis as rows of numbers.
template <class T>
std::vector<std::vector<T>> rows_along(const Tensor& x, int axis) {
  const AxisSplit split(x.shape(), axis);
  std::vector<std::vector<T>> rows(split.extent);
  for (int64_t r = 0; r < split.extent; ++r)
    for (int64_t o = 0; o < split.outer; ++o) {
      const T* from = x.data<T>() + (o * split.extent + r) * split.inner;
      rows[r].insert(rows[r].end(), from, from + split.inner);
    }
  return rows;
}
// The slices in order, as places: single elements by their keys, rows by comparing them. As NumPy: NaN comes last. is_new(p, q) tells
// whether the slice at p is another one than that before it, at q.
template <class T, class F>
void visit_in_order(const Tensor& x, int axis, F&& f) {
  const AxisSplit split(x.shape(), axis);
  if (split.outer * split.inner == 1 && split.extent <= RowOrder<T>::kLongest) {
    const T* value = x.data<T>();
    RowOrder<T> order;
    const auto sorted = order.sort(value, split.extent, split.extent, true);
    f(
        split.extent, [&](int64_t i) { return place_of(sorted[i]); },
        [&](int64_t p, int64_t q) { return order_key(value[p]) != order_key(value[q]); });
    return;
  }
  const std::vector<std::vector<T>> rows = rows_along<T>(x, axis);
  std::vector<int64_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  const auto before = [](T p, T q) { return p < q || (q != q && p == p); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t p, int64_t q) {
    return std::lexicographical_compare(rows[p].begin(), rows[p].end(), rows[q].begin(), rows[q].end(), before);
  });
  f(
      split.extent, [&](int64_t i) { return order[i]; }, [&](int64_t p, int64_t q) { return rows[p] != rows[q]; });
}
// Of each different slice, in order: where it stands first, and how often it is there. Of each slice: which of them it is.
struct Different {
  std::vector<int64_t> first, counts, inverse;
};
// Whole numbers that lie close together are counted, each in a place of its own. False: they do not.
template <class T>
bool count_different(const UniqueAttrs& a, std::span<const T> values, Different& d) {
  if (values.empty()) return false;
  const auto [least, most] = std::ranges::minmax(values);
  const auto n = static_cast<int64_t>(values.size());
  const uint64_t range = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  if (range >= static_cast<uint64_t>(std::max<int64_t>(4 * n, 256))) return false;
  const auto place = [zero = static_cast<uint64_t>(least)](T x) { return static_cast<size_t>(static_cast<uint64_t>(x) - zero); };
  std::vector<int64_t> first(range + 1, -1), counts(a.return_counts ? range + 1 : 0), number(a.return_inverse ? range + 1 : 0);
  for (int64_t i = n; i-- > 0;) first[place(values[i])] = i;
  if (a.return_counts)
    for (const T x : values) ++counts[place(x)];
  for (size_t v = 0; v < first.size(); ++v) {
    if (first[v] < 0) continue;
    if (a.return_inverse) number[v] = static_cast<int64_t>(d.first.size());
    if (a.return_counts) d.counts.push_back(counts[v]);
    d.first.push_back(first[v]);
  }
  d.inverse.resize(a.return_inverse ? values.size() : 0);
  for (size_t i = 0; i < d.inverse.size(); ++i) d.inverse[i] = number[place(values[i])];
  return true;
}
template <class T>
Different find_different(const UniqueAttrs& a, const Tensor& x, int axis) {
  Different d;
  if constexpr (std::is_integral_v<T>) {
    const bool are_numbers = AxisSplit(x.shape(), axis).extent == x.size();
    if (are_numbers && count_different<T>(a, {x.data<T>(), static_cast<size_t>(x.size())}, d)) return d;
  }
  visit_in_order<T>(x, axis, [&](int64_t count, const auto& place, const auto& is_new) {
    d.inverse.resize(a.return_inverse ? count : 0);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = place(i);
      if (i == 0 || is_new(at, place(i - 1))) {
        d.first.push_back(at);
        d.counts.push_back(0);
      }
      ++d.counts.back();
      if (a.return_inverse) d.inverse[at] = static_cast<int64_t>(d.first.size()) - 1;
    }
  });
  return d;
}
template <class T>
void find_unique(const UniqueAttrs& a, const Tensor& x, int axis, KernelContext& k) {
  const Different d = find_different<T>(a, x, axis);
  int output = 0;
  k.set_out(output++, taken(x, from_vector(d.first), axis));
  if (a.return_index) k.set_out(output++, from_vector(d.first));
  if (a.return_inverse) k.set_out(output++, from_vector(d.inverse));
  if (a.return_counts) k.set_out(output++, from_vector(d.counts));
}
GLUINO_OP(_npi_unique, UniqueAttrs) {
  op.doc("The different elements in order, or different slices along an axis.")
      .input("data")
      .dtypes(DTypeSet::any)
      .dynamic_shape()
      .num_outputs([](const UniqueAttrs& a) { return 1 + a.return_index + a.return_inverse + a.return_counts; })
      .dtype([](const UniqueAttrs& a, std::span<const DType>, DType promoted) {
        std::vector<DType> out(1 + a.return_index + a.return_inverse + a.return_counts, DType::int64);
        out[0] = promoted;
        return out;
      })
      .kernel([](const UniqueAttrs& a, KernelContext& k) {
        const Tensor x = flat_for({.axis = a.axis}, k.in(0));
        const int axis = normalize_axis(a.axis.value_or(0), x.shape());
        visit_dtype(x.dtype(), [&]<class T>(T*) { find_unique<T>(a, x, axis, k); });
      })
      .not_differentiable(kChooses)
      .sample({index_sample({2, 4}, 3)}, {.return_index = true, .return_inverse = true, .return_counts = true})
      .sample({index_sample({4, 2}, 2)}, {.axis = 0});
}

struct BincountAttrs {
  int64_t minlength = 0;
  bool has_weights = false;
  static void fields(AttrFields<BincountAttrs>& f) {
    f.field("minlength", &BincountAttrs::minlength, "least length of the result")
        .field("has_weights", &BincountAttrs::has_weights, "add weights instead of ones");
  }
};
// Not by the operator, whose name would stand in the error when there is no memory for them.
static Tensor zeros_of(int64_t length, DType dtype, const KernelContext& k) {
  const Tensor out = make_tensor({length}, dtype, k.in(0).device());
  std::memset(bytes_of(out), 0, static_cast<size_t>(out.nbytes()));
  return out;
}
GLUINO_OP(_npi_bincount, BincountAttrs) {
  op.doc("How often each whole number occurs, or the sum of the weights at its places.")
      .input("data")
      .own_dtype()
      .input("weights")
      .present_if([](const BincountAttrs& a) { return a.has_weights; })
      .dtypes(DTypeSet::numeric)
      .dynamic_shape()
      .dtype([](const BincountAttrs& a, std::span<const DType>, DType promoted) { return a.has_weights ? promoted : DType::int64; })
      .kernel([](const BincountAttrs& a, KernelContext& k) {
        if (k.in(0).ndim() != 1) raise<ShapeError>("data has shape {}, but a vector is needed", k.in(0).shape());
        if (a.has_weights) check_same_shape("weights", k.in(1).shape(), k.in(0).shape());
        if (a.minlength < 0) raise<AttrError>("minlength is {}, but it cannot be negative", a.minlength);
        const std::vector<int64_t> numbers = k.in(0).to_vector<int64_t>();
        constexpr int64_t most = int64_t{1} << 31;
        int64_t length = a.minlength;
        for (int64_t n : numbers) {
          if (n < 0 || n >= most) raise<UserError>("data holds {}, but 0 to {} are counted", n, most - 1);
          length = std::max(length, n + 1);
        }
        if (length > most) raise<AttrError>("minlength {} is absurd", length);
        if (!a.has_weights) {
          Tensor out = zeros_of(length, DType::int64, k);
          for (int64_t n : numbers) ++out.mutable_data<int64_t>()[n];
          return k.set_out(0, out);
        }
        Tensor out = zeros_of(length, DType::float64, k);
        const std::vector<double> weights = k.in(1).to_vector<double>();
        for (size_t i = 0; i < numbers.size(); ++i) out.mutable_data<double>()[numbers[i]] += weights[i];
        k.set_out(0, with_dtype(out, k.in(1).dtype()));
      })
      .not_differentiable("the result's length depends on values")
      .sample({index_sample({6}, 4)}, {.minlength = 5})
      .sample({index_sample({6}, 4), {6}}, {.has_weights = true});
}

// ---- questions about tensors

struct ConstraintAttrs {
  std::string msg = "Constraint violated.";
  static void fields(AttrFields<ConstraintAttrs>& f) { f.field("msg", &ConstraintAttrs::msg, "the message of the error"); }
};
GLUINO_OP(_npx_constraint_check, ConstraintAttrs) {
  op.doc("True where all elements hold; an error with a message of the caller's otherwise.")
      .input("input")
      .dtypes(DTypeSet::any)
      .shape([](const ConstraintAttrs&, std::span<const Shape>) { return Shape{}; })
      .dtype([](const ConstraintAttrs&, std::span<const DType>, DType) { return DType::boolean; })
      .refuses_values()
      .kernel([](const ConstraintAttrs& a, KernelContext& k) {
        for (double v : k.in(0).to_vector<double>())
          if (v == 0) throw AttrError(a.msg);  // a ValueError in Python
        k.out_data<bool>()[0] = true;
      })
      .not_differentiable("it is a test")
      .sample({uniform_sample({2, 3}, 1, 2)});
}
GLUINO_OP(_npi_share_memory, NoAttrs) {
  op.doc("Whether two tensors share memory.")
      .input("a")
      .own_dtype()
      .input("b")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape>) { return Shape{1}; })
      .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::boolean; })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const char *a = bytes_of(k.in(0)), *b = bytes_of(k.in(1));
        k.out_data<bool>()[0] = a < b + k.in(1).nbytes() && b < a + k.in(0).nbytes();
      })
      .not_differentiable("it is a question about memory")
      .sample({{2, 3}, {4}});
}

}  // namespace
}  // namespace gluino::ops
