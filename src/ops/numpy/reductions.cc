// Reductions of mx.np: dtypes are NumPy's, what has no axes left is a scalar, and there may be a number to begin with.
#include <limits>

#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

struct ReductionAttrs {
  std::optional<Shape> axis;
  std::optional<DType> dtype;
  bool keepdims = false;
  std::optional<double> initial;
  static void fields(AttrFields<ReductionAttrs>& f) {
    f.field("axis", &ReductionAttrs::axis, "the axes to reduce; None for all, () for none")
        .field("dtype", &ReductionAttrs::dtype, "dtype of the result; None for NumPy's choice")
        .field("keepdims", &ReductionAttrs::keepdims, "keep the axes with extent 1")
        .field("initial", &ReductionAttrs::initial, "a number that is reduced with the others; None for none");
  }
};

Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdims) {
  Shape left;
  for (int i = 0; i < shape.ndim(); ++i)
    if (!contains(axes, i))
      left.push_back(shape[i]);
    else if (keepdims)
      left.push_back(1);
  return left;
}

// The value over no elements; without one there must be some.
Tensor of_nothing(const Tensor& x, const ReductionAttrs& a, std::optional<double> identity) {
  const Shape axes = axes_of(a.axis, x.shape());
  const bool is_empty = std::any_of(axes.begin(), axes.end(), [&](int64_t i) { return x.extent(i) == 0; });
  if (is_empty && !identity) raise<ShapeError>("axes {} of shape {} have no elements, and there is no value of nothing", axes, x.shape());
  return call("_full", {}, {{"shape", reduced_shape(x.shape(), axes, a.keepdims)}, {"value", identity.value_or(0)}, {"dtype", x.dtype()}});
}

Tensor reduction(std::string_view op, const Tensor& x, const ReductionAttrs& a, std::optional<double> identity) {
  return x.size() == 0 ? of_nothing(x, a, identity) : reduced(op, x, a.axis, a.keepdims);
}

// Small whole numbers and truth values are added and multiplied in int64.
template <class A>
DType total_dtype(const A& a, std::span<const DType>, DType promoted) {
  return a.dtype.value_or(is_floating(promoted) ? promoted : DType::int64);
}
DType mean_dtype(const ReductionAttrs& a, std::span<const DType>, DType promoted) { return a.dtype.value_or(real_dtype(promoted)); }

template <class F>
void define_total(OpBuilder<ReductionAttrs>& op, const char* reduction_op, double identity, F with_initial) {
  composed(op.input("a").dtypes(DTypeSet::any).dtype(total_dtype<ReductionAttrs>),
           [=](const ReductionAttrs& a, std::span<const Tensor> in) {
             const Tensor found = reduction(reduction_op, as_dtype(in[0], total_dtype(a, {}, in[0].dtype())), a, identity);
             return a.initial ? as_dtype(with_initial(found, *a.initial), found.dtype()) : found;
           })
      .sample({uniform_sample({2, 3}, 0.3, 2)})
      .sample({uniform_sample({3}, 0.3, 2)}, {.axis = Shape{0}})
      .sample({uniform_sample({2, 3, 4}, 0.3, 2)}, {.axis = Shape{0, 2}, .keepdims = true, .initial = 1.5});
}
GLUINO_OP(_np_sum, ReductionAttrs) {
  define_total(op.doc("The sum along axes."), "sum", 0, [](const Tensor& x, double initial) { return x + initial; });
}
GLUINO_OP(_np_prod, ReductionAttrs) {
  define_total(op.doc("The product along axes.").alias("_np_product"), "prod", 1,
               [](const Tensor& x, double initial) { return x * initial; });
}
GLUINO_OP(_npi_mean, ReductionAttrs) {
  composed(op.doc("The mean along axes; NaN where there are no elements.").input("a").dtypes(DTypeSet::any).dtype(mean_dtype),
           [](const ReductionAttrs& a, std::span<const Tensor> in) {
             const Tensor x = as_dtype(in[0], mean_dtype(a, {}, in[0].dtype()));
             return reduction("mean", x, a, std::numeric_limits<double>::quiet_NaN());
           })
      .sample({{2, 3}})
      .sample({{3}}, {.axis = Shape{0}})
      .sample({{2, 3, 4}}, {.axis = Shape{0, 2}, .keepdims = true});
}

struct ExtremumAttrs {
  std::optional<Shape> axis;
  bool keepdims = false;
  std::optional<double> initial;
  static void fields(AttrFields<ExtremumAttrs>& f) {
    f.field("axis", &ExtremumAttrs::axis, "the axes to reduce; None for all, () for none")
        .field("keepdims", &ExtremumAttrs::keepdims, "keep the axes with extent 1")
        .field("initial", &ExtremumAttrs::initial, "a number that is compared with the others; None for none");
  }
};
void define_extremum(OpBuilder<ExtremumAttrs>& op, const char* reduction_op, const char* with_scalar) {
  composed(op.input("a").dtypes(DTypeSet::any),
           [=](const ExtremumAttrs& a, std::span<const Tensor> in) {
             const ReductionAttrs how{.axis = a.axis, .keepdims = a.keepdims};
             const DType dtype = in[0].dtype();
             const Tensor x = dtype == DType::boolean ? as_dtype(in[0], DType::int32) : in[0];
             const Tensor found = reduction(reduction_op, x, how, a.initial);
             return as_dtype(a.initial ? call(with_scalar, {found}, {{"scalar", *a.initial}}) : found, dtype);
           })
      .sample({{2, 3}})
      .sample({{3}}, {.axis = Shape{0}})
      .sample({{2, 3, 4}}, {.axis = Shape{0, 2}, .keepdims = true, .initial = 0.0});
}
GLUINO_OP(_np_max, ExtremumAttrs) { define_extremum(op.doc("The greatest along axes.").alias("_np_amax"), "max", "_maximum_scalar"); }
GLUINO_OP(_np_min, ExtremumAttrs) { define_extremum(op.doc("The least along axes.").alias("_np_amin"), "min", "_minimum_scalar"); }

// ---- the elements in the order of one axis

struct RunningAttrs {
  std::optional<int64_t> axis;
  std::optional<DType> dtype;
  static void fields(AttrFields<RunningAttrs>& f) {
    f.field("axis", &RunningAttrs::axis, "the axis to go along; None for all elements")
        .field("dtype", &RunningAttrs::dtype, "dtype of the result; None for NumPy's choice");
  }
};
GLUINO_OP(_npi_cumprod, RunningAttrs) {
  composed(op.doc("Products of all elements up to each, along an axis.").input("a").dtypes(DTypeSet::any).dtype(total_dtype<RunningAttrs>),
           [](const RunningAttrs& a, std::span<const Tensor> in) {
             const Tensor whole = a.axis && in[0].ndim() > 0 ? in[0] : reshaped(in[0], {-1});
             const Tensor x = as_dtype(whole, total_dtype(a, {}, whole.dtype()));
             const int axis = normalize_axis(a.axis.value_or(0), x.shape());
             // After each round an element is the product of twice as many, so that few calls serve any length.
             Tensor products = x;
             const int64_t n = x.size() == 0 ? 0 : x.extent(axis);
             for (int64_t known = 1; known < n; known *= 2)
               products = joined(
                   {slice_of(products, axis, 0, known), slice_of(products, axis, known, n) * slice_of(products, axis, 0, n - known)}, axis);
             return products;
           })
      .sample({uniform_sample({2, 3}, 0.3, 2)})
      .sample({uniform_sample({2, 3}, 0.3, 2)}, {.axis = 0});
}

}  // namespace
}  // namespace gluino::ops
