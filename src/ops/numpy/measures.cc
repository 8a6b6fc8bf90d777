// Names of mx.np that measure: deviations, averages, norms, percentiles, differences, rounding.
#include <cmath>
#include <limits>

#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

// ---- truth

struct TruthAttrs {
  std::optional<Shape> axis;
  bool keepdims = false;
  static void fields(AttrFields<TruthAttrs>& f) {
    f.field("axis", &TruthAttrs::axis, "the axes to reduce; None for all")
        .field("keepdims", &TruthAttrs::keepdims, "keep the axes with extent 1");
  }
};
void define_truth(OpBuilder<TruthAttrs>& op, const char* reduction) {
  composed(op.input("data").dtypes(DTypeSet::any).dtype([](const TruthAttrs&, std::span<const DType>, DType) { return DType::boolean; }),
           [reduction](const TruthAttrs& a, std::span<const Tensor> in) {
             const Tensor holds = as_dtype(call("_npi_logical_not", {call("_npi_logical_not", {in[0]})}), DType::int32);
             return as_dtype(reduced(reduction, holds, a.axis, a.keepdims), DType::boolean);
           })
      .not_differentiable("it is a test")
      .sample({index_sample({2, 3}, 2)})
      .sample({index_sample({2, 3}, 2)}, {.axis = Shape{1}, .keepdims = true});
}
GLUINO_OP(_np_all, TruthAttrs) { define_truth(op.doc("Whether all elements along axes are true."), "min"); }
GLUINO_OP(_np_any, TruthAttrs) { define_truth(op.doc("Whether any element along axes is true.").alias("_np_sometrue"), "max"); }

struct ClosenessAttrs {
  double rtol = 1e-5, atol = 1e-8;
  bool equal_nan = true;
  static void fields(AttrFields<ClosenessAttrs>& f) {
    f.field("rtol", &ClosenessAttrs::rtol, "how far apart, as a part of b")
        .field("atol", &ClosenessAttrs::atol, "how far apart besides")
        .field("equal_nan", &ClosenessAttrs::equal_nan, "whether NaN is close to NaN");
  }
};
GLUINO_OP(_contrib_allclose, ClosenessAttrs) {
  composed(op.doc("1 where all elements of a and b are close to each other, else 0.").input("a").input("b"),
           [](const ClosenessAttrs& a, std::span<const Tensor> in) {
             const auto either = [](const Tensor& x, const Tensor& y) { return call("broadcast_logical_or", {x, y}); };
             const Tensor &x = in[0], &y = in[1];
             Tensor close = either(x == y, call("abs", {x - y}) <= call("abs", {y}) * a.rtol + a.atol);
             if (a.equal_nan) close = either(close, call("broadcast_logical_and", {x != x, y != y}));
             return as_dtype(reshaped(reduced("min", as_dtype(close, DType::float32), {}, false), {1}), promote(x.dtype(), y.dtype()));
           })
      .not_differentiable("it is a test")
      .sample({{2, 3}, {2, 3}});
}

// ---- averages and deviations

struct VarianceAttrs {
  std::optional<Shape> axis;
  std::optional<DType> dtype;
  int64_t ddof = 0;
  bool keepdims = false;
  static void fields(AttrFields<VarianceAttrs>& f) {
    f.field("axis", &VarianceAttrs::axis, "the axes to reduce; None for all")
        .field("dtype", &VarianceAttrs::dtype, "dtype of the result; None for that of data, float32 for whole numbers")
        .field("ddof", &VarianceAttrs::ddof, "how many degrees of freedom less than elements there are")
        .field("keepdims", &VarianceAttrs::keepdims, "keep the axes with extent 1");
  }
};
int64_t count_along(const Tensor& x, const std::optional<Shape>& axis) {
  int64_t count = 1;
  for (int64_t i : axes_of(axis, x.shape())) count *= x.extent(i);
  return count;
}
Tensor variance(const VarianceAttrs& a, const Tensor& data) {
  const DType dtype = real_dtype(a.dtype.value_or(data.dtype()));
  const Tensor x = as_dtype(data, dtype);
  const Tensor centered = x - reduced("mean", x, a.axis, true);
  const Tensor squares = reduced("mean", call("square", {centered}), a.axis, a.keepdims);
  if (a.ddof == 0) return squares;
  const auto count = static_cast<double>(count_along(x, a.axis));
  return squares * (count / (count - static_cast<double>(a.ddof)));
}
template <class F>
void define_variance(OpBuilder<VarianceAttrs>& op, F f) {
  composed(op.input("a").dtypes(DTypeSet::any).dtype([](const VarianceAttrs& a, std::span<const DType>, DType promoted) {
    return real_dtype(a.dtype.value_or(promoted));
  }),
           [f](const VarianceAttrs& a, std::span<const Tensor> in) { return f(variance(a, in[0])); })
      .sample({{2, 3}})
      .sample({{2, 3, 4}}, {.axis = Shape{0, 2}, .ddof = 1, .keepdims = true});
}
GLUINO_OP(_npi_var, VarianceAttrs) {
  define_variance(op.doc("The variance along axes."), [](const Tensor& v) { return v; });
}
GLUINO_OP(_npi_std, VarianceAttrs) {
  define_variance(op.doc("The standard deviation along axes."), [](const Tensor& v) { return call("sqrt", {v}); });
}

struct AverageAttrs {
  std::optional<Shape> axis;
  bool keepdims = false, returned = false, weighted = true;
  static void fields(AttrFields<AverageAttrs>& f) {
    f.field("axis", &AverageAttrs::axis, "the axes to reduce; None for all")
        .field("keepdims", &AverageAttrs::keepdims, "keep the axes with extent 1")
        .field("returned", &AverageAttrs::returned, "also return the sum of the weights")
        .field("weighted", &AverageAttrs::weighted, "whether weights are given");
  }
};
GLUINO_OP(_npi_average, AverageAttrs) {
  composed(op.doc("The average along axes, with weights where they are given, and the sum of the weights.")
               .input("a")
               .input("weights")
               .present_if([](const AverageAttrs& a) { return a.weighted; })
               .outputs({"average", "sum_of_weights"})
               .visible_outputs([](const AverageAttrs& a) { return a.returned ? 2 : 1; }),
           [](const AverageAttrs& a, std::span<const Tensor> in) -> Tensors {
             const Tensor& x = in[0];
             if (in.size() == 1) {
               const Tensor mean = reduced("mean", x, a.axis, a.keepdims);
               return {mean, mean * 0 + static_cast<double>(count_along(x, a.axis))};
             }
             Tensor weights = in[1];
             if (weights.shape() != x.shape()) {
               const Shape axes = axes_of(a.axis, x.shape());
               if (!a.axis || axes.ndim() != 1 || weights.ndim() != 1 || weights.extent(0) != x.extent(axes[0]))
                 raise<ShapeError>("weights of shape {} do not fit data of shape {}: the same shape, or a vector along one axis",
                                   weights.shape(), x.shape());
               Shape column = Shape::filled(x.ndim(), 1);
               column[static_cast<int>(axes[0])] = -1;
               weights = call("broadcast_like", {reshaped(weights, column), x});
             }
             const Tensor total = reduced("sum", weights, a.axis, a.keepdims);
             return {reduced("sum", x * weights, a.axis, a.keepdims) / total, total};
           })
      .sample({{2, 3}, uniform_sample({2, 3}, 0.5, 2)}, {.returned = true})
      .sample({{2, 3}, uniform_sample({3}, 0.5, 2)}, {.axis = Shape{1}})
      .sample({{2, 3}}, {.axis = Shape{0}, .keepdims = true, .weighted = false});
}

// ---- norms

struct NormAttrs {
  double ord = 2;
  std::optional<Shape> axis;
  bool keepdims = false;
  int64_t flag = -1;
  static void fields(AttrFields<NormAttrs>& f) {
    f.field("ord", &NormAttrs::ord, "order of the norm")
        .field("axis", &NormAttrs::axis, "the axes of vectors or matrices; None for all")
        .field("keepdims", &NormAttrs::keepdims, "keep the axes with extent 1")
        .field("flag", &NormAttrs::flag,
               "-2: of all elements, -1: of vectors, 0: greatest or least singular value, 1: Frobenius, 2: nuclear");
  }
};
Tensor vector_norm(const Tensor& sizes, double ord, const std::optional<Shape>& axis, bool keepdims) {
  if (std::isinf(ord)) return reduced(ord > 0 ? "max" : "min", sizes, axis, keepdims);
  if (ord == 0) return reduced("sum", as_dtype(sizes != 0.0, sizes.dtype()), axis, keepdims);
  if (ord == 1) return reduced("sum", sizes, axis, keepdims);
  if (ord == 2) return call("sqrt", {reduced("sum", call("square", {sizes}), axis, keepdims)});
  const auto power = [](const Tensor& x, double by) { return call("_power_scalar", {x}, {{"scalar", by}}); };
  return power(reduced("sum", power(sizes, ord), axis, keepdims), 1 / ord);
}
Tensor singular_values(const Tensor& x, const Shape& axes) { return call_all("_npi_svd", Tensors{moved_axes(x, axes, {-2, -1})})[1]; }
GLUINO_OP(_npi_norm, NormAttrs) {
  composed(op.doc("Norms of vectors or matrices.").input("data"),
           [](const NormAttrs& a, std::span<const Tensor> in) {
             const Tensor& x = in[0];
             if (a.flag == 1 || a.flag == -2)
               return call("sqrt", {reduced("sum", call("square", {x}), a.flag == 1 ? a.axis : std::nullopt, a.keepdims)});
             if (a.flag == -1) return vector_norm(call("abs", {x}), a.ord, a.axis, a.keepdims);
             const Shape axes = axes_of(a.axis, x.shape());
             if (axes.ndim() != 2)
               raise<ShapeError>("the norm of matrices needs two axes, but {} of shape {} are {}", axes, x.shape(), axes.ndim());
             const Tensor found = reduced(a.flag == 2 ? "sum" : a.ord > 0 ? "max" : "min", singular_values(x, axes), Shape{-1}, false);
             if (!a.keepdims) return found;
             Shape kept = x.shape();
             for (int64_t i : axes) kept[static_cast<int>(i)] = 1;
             return reshaped(found, kept);
           })
      .sample({{2, 3}}, {.flag = -2})
      .sample({{2, 3}}, {.ord = 3, .axis = Shape{1}, .keepdims = true})
      .sample({{2, 3, 4}}, {.axis = Shape{1, 2}, .flag = 1})
      .sample({{2, 3, 4}}, {.axis = Shape{1, 2}, .flag = 2})
      .sample({{2, 3, 4}}, {.axis = Shape{0, 2}, .keepdims = true, .flag = 0});
}

// ---- percentiles

enum class Interpolation : uint8_t { linear, lower, higher, midpoint, nearest };
struct PercentileAttrs {
  std::optional<Shape> axis;
  Interpolation interpolation = Interpolation::linear;
  bool keepdims = false;
  std::optional<double> q_scalar;
  static void fields(AttrFields<PercentileAttrs>& f) {
    f.field("axis", &PercentileAttrs::axis, "the axes to reduce; None for all")
        .choice("interpolation", &PercentileAttrs::interpolation, {"linear", "lower", "higher", "midpoint", "nearest"},
                "what lies between two elements")
        .field("keepdims", &PercentileAttrs::keepdims, "keep the axes with extent 1")
        .field("q_scalar", &PercentileAttrs::q_scalar, "the one percentile; None where they are an input");
  }
};
// The axes to reduce as the last one.
Tensor as_last_axis(const Tensor& x, const std::optional<Shape>& axis) {
  if (!axis) return reshaped(x, {-1});
  Shape last, shape;
  const Shape axes = axes_of(axis, x.shape());
  for (int i = 0; i < axes.ndim(); ++i) last.push_back(x.ndim() - axes.ndim() + i);
  for (int i = 0; i < x.ndim(); ++i)
    if (!contains(axes, i)) shape.push_back(x.extent(i));
  shape.push_back(-1);
  return reshaped(moved_axes(x, *axis, last), shape);
}
Tensor rounded_place(const Tensor& place, Interpolation how) {
  switch (how) {
    case Interpolation::lower: return call("floor", {place});
    case Interpolation::higher: return call("ceil", {place});
    case Interpolation::midpoint: return (call("floor", {place}) + call("ceil", {place})) / 2;
    case Interpolation::nearest: {
      // Of two equally near ones the even one.
      const Tensor below = call("floor", {place});
      const Tensor goes_up = as_dtype((place - below) + (below % 2) * 1e-9 > 0.5, place.dtype());
      return below + goes_up;
    }
    default: return place;
  }
}
GLUINO_OP(_npi_percentile, PercentileAttrs) {
  composed(op.doc("Values below which q percent of the elements lie.")
               .input("a")
               .input("q")
               .own_dtype()
               .present_if([](const PercentileAttrs& a) { return !a.q_scalar; })
               .dtypes(DTypeSet::numeric)
               .dtype([](const PercentileAttrs&, std::span<const DType>, DType promoted) { return real_dtype(promoted); }),
           [](const PercentileAttrs& a, std::span<const Tensor> in) {
             if (a.q_scalar && !(*a.q_scalar >= 0 && *a.q_scalar <= 100))
               raise<AttrError>("q is {}, but percentiles are 0 to 100", *a.q_scalar);
             const Tensor x = as_real(in[0]);
             if (x.size() == 0) throw ShapeError("there are no elements");
             const Tensor ordered = call("sort", {as_last_axis(x, a.axis)}, {{"axis", int64_t{-1}}});
             const Tensor q = a.q_scalar ? call("_full", {}, {{"shape", Shape{1}}, {"value", *a.q_scalar}, {"dtype", DType::float64}})
                                         : reshaped(as_dtype(in[1], DType::float64), {-1});
             const auto last = static_cast<double>(ordered.extent(-1) - 1);
             const Tensor place = rounded_place(q * (last / 100), a.interpolation);
             const Tensor below = call("floor", {place});
             const Tensor share = as_dtype(place - below, x.dtype());
             const auto at = [&](const Tensor& where) { return taken(ordered, as_dtype(where, DType::int64), -1); };
             const Tensor found = at(below) * (1 - share) + at(call("ceil", {place})) * share;
             Shape shape = a.q_scalar ? Shape{} : in[1].shape();
             const Shape axes = axes_of(a.axis, x.shape());
             for (int i = 0; i < x.ndim(); ++i)
               if (!contains(axes, i))
                 shape.push_back(x.extent(i));
               else if (a.keepdims)
                 shape.push_back(1);
             return reshaped(moved_axes(found, {-1}, {0}), shape);
           })
      .sample({{2, 5}}, {.q_scalar = 30.0})
      .sample({{2, 5, 2}, uniform_sample({3}, 0, 100)}, {.axis = Shape{1}, .keepdims = true})
      .sample({{2, 5, 2}, uniform_sample({2}, 0, 100)}, {.axis = Shape{0, 1}, .interpolation = Interpolation::nearest});
}

// ---- differences

struct DiffAttrs {
  int64_t n = 1, axis = -1;
  static void fields(AttrFields<DiffAttrs>& f) {
    f.field("n", &DiffAttrs::n, "how often").field("axis", &DiffAttrs::axis, "along which axis");
  }
};
Tensor neighbours_difference(const Tensor& x, int64_t axis) {
  const int64_t extent = x.extent(axis);
  return slice_of(x, axis, std::min<int64_t>(1, extent), {}) - slice_of(x, axis, 0, std::max<int64_t>(extent - 1, 0));
}
GLUINO_OP(_npi_diff, DiffAttrs) {
  composed(op.doc("The differences of neighbours along an axis, n times.").input("a").dtypes(DTypeSet::numeric),
           [](const DiffAttrs& a, std::span<const Tensor> in) {
             Tensor x = in[0];
             const int axis = normalize_axis(a.axis, x.shape());
             if (a.n < 0) raise<AttrError>("n is {}, but it cannot be negative", a.n);
             for (int64_t i = 0; i < a.n && x.extent(axis) > 0; ++i) x = neighbours_difference(x, axis);
             return x;
           })
      .sample({{2, 5}}, {.n = 2})
      .sample({{3, 2}}, {.axis = 0});
}

struct Ediff1dAttrs {
  bool to_begin_arr_given = false, to_end_arr_given = false;
  std::optional<double> to_begin_scalar, to_end_scalar;
  static void fields(AttrFields<Ediff1dAttrs>& f) {
    f.field("to_begin_arr_given", &Ediff1dAttrs::to_begin_arr_given, "whether a tensor stands before the differences")
        .field("to_end_arr_given", &Ediff1dAttrs::to_end_arr_given, "whether a tensor stands behind them")
        .field("to_begin_scalar", &Ediff1dAttrs::to_begin_scalar, "the number before the differences; None for none")
        .field("to_end_scalar", &Ediff1dAttrs::to_end_scalar, "the number behind them; None for none");
  }
};
GLUINO_OP(_npi_ediff1d, Ediff1dAttrs) {
  composed(op.doc("The differences of neighbours among all elements, with something before and behind them.")
               .input("input1")
               .input("input2")
               .present_if([](const Ediff1dAttrs& a) { return a.to_begin_arr_given || a.to_end_arr_given; })
               .input("input3")
               .present_if([](const Ediff1dAttrs& a) { return a.to_begin_arr_given && a.to_end_arr_given; })
               .dtypes(DTypeSet::numeric),
           [](const Ediff1dAttrs& a, std::span<const Tensor> in) {
             const Tensor differences = neighbours_difference(reshaped(in[0], {-1}), 0);
             const auto number = [&](double value) {
               return call("_full", {}, {{"shape", Shape{1}}, {"value", value}, {"dtype", differences.dtype()}});
             };
             Tensors parts;
             if (a.to_begin_arr_given) parts.push_back(reshaped(in[1], {-1}));
             if (a.to_begin_scalar) parts.push_back(number(*a.to_begin_scalar));
             parts.push_back(differences);
             if (a.to_end_arr_given) parts.push_back(reshaped(in.back(), {-1}));
             if (a.to_end_scalar) parts.push_back(number(*a.to_end_scalar));
             return joined(parts, 0);
           })
      .sample({{2, 3}}, {.to_begin_scalar = 1.0, .to_end_scalar = 2.0})
      .sample({{4}, {2}, {3}}, {.to_begin_arr_given = true, .to_end_arr_given = true});
}

// ---- one element at a time

// Whole numbers are divided as real ones.
template <class A>
DType quotient_dtype(const A&, std::span<const DType>, DType promoted) {
  return real_dtype(promoted);
}
GLUINO_OP(_npi_true_divide, NoAttrs) {
  composed(op.doc("x1 / x2 as real numbers.").input("x1").input("x2").dtypes(DTypeSet::any).dtype(quotient_dtype<NoAttrs>),
           [](const NoAttrs&, std::span<const Tensor> in) {
             const DType dtype = real_dtype(promote(in[0].dtype(), in[1].dtype()));
             return call("broadcast_div", {as_dtype(in[0], dtype), as_dtype(in[1], dtype)});
           })
      .sample({uniform_sample({2, 3, 4}, 0.3, 2), uniform_sample({3, 1}, 0.3, 2)});
}
struct DivisionAttrs {
  double scalar = 1;
  bool is_int = true;
  static void fields(AttrFields<DivisionAttrs>& f) {
    f.field("scalar", &DivisionAttrs::scalar, "the number")
        .field("is_int", &DivisionAttrs::is_int, "whether it was written as a whole number");
  }
};
void define_division(OpBuilder<DivisionAttrs>& op, const char* division) {
  composed(op.input("data").dtypes(DTypeSet::any).dtype(quotient_dtype<DivisionAttrs>), [division](const DivisionAttrs& a,
                                                                                                   std::span<const Tensor> in) {
    return call(division, {as_real(in[0])}, {{"scalar", a.scalar}});
  }).sample({uniform_sample({3, 4}, 0.3, 2)}, {.scalar = 1.5, .is_int = false});
}
GLUINO_OP(_npi_true_divide_scalar, DivisionAttrs) {
  define_division(op.doc("A tensor divided by a number, as real numbers."), "_div_scalar");
}
GLUINO_OP(_npi_rtrue_divide_scalar, DivisionAttrs) {
  define_division(op.doc("A number divided by a tensor, as real numbers."), "_rdiv_scalar");
}

struct DecimalsAttrs {
  int64_t decimals = 0;
  static void fields(AttrFields<DecimalsAttrs>& f) {
    f.field("decimals", &DecimalsAttrs::decimals, "places behind the point; negative before it");
  }
};
GLUINO_OP(_npi_around, DecimalsAttrs) {
  composed(op.doc("Rounds to a number of decimals; halves go to the even neighbour.").input("x"),
           [](const DecimalsAttrs& a, std::span<const Tensor> in) {
             const double unit = std::pow(10.0, static_cast<double>(std::abs(a.decimals)));
             const Tensor scaled = a.decimals > 0 ? in[0] * unit : a.decimals < 0 ? in[0] / unit : in[0];
             const Tensor below = call("floor", {scaled}), rest = scaled - below;
             const Tensor goes_up = as_dtype(
                 call("broadcast_logical_or", {rest > 0.5, call("broadcast_logical_and", {rest == 0.5, below % 2 == 1.0})}), in[0].dtype());
             const Tensor rounded = below + goes_up;
             return a.decimals > 0 ? rounded / unit : a.decimals < 0 ? rounded * unit : rounded;
           })
      .not_differentiable("it is flat but for steps")
      .sample({{2, 3}}, {.decimals = 1})
      .sample({{2, 3}});
}

struct NanToNumAttrs {
  bool copy = true;
  double nan = 0;
  std::optional<double> posinf, neginf;
  static void fields(AttrFields<NanToNumAttrs>& f) {
    f.field("copy", &NanToNumAttrs::copy, "has no effect: the result is a new tensor")
        .field("nan", &NanToNumAttrs::nan, "what stands for NaN")
        .field("posinf", &NanToNumAttrs::posinf, "what stands for infinity; None for the largest number")
        .field("neginf", &NanToNumAttrs::neginf, "what stands for minus infinity; None for the least number");
  }
};
double largest(DType dtype) {
  switch (dtype) {
    case DType::float16: return 65504;
    case DType::bfloat16: return 0x1.fep127;
    case DType::float32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}
GLUINO_OP(_npi_nan_to_num, NanToNumAttrs) {
  composed(op.doc("Replaces NaN and the infinities by numbers.").input("data").dtypes(DTypeSet::numeric), [](const NanToNumAttrs& a,
                                                                                                             std::span<const Tensor> in) {
    const Tensor& x = in[0];
    if (!is_floating(x.dtype())) return x;
    const double most = largest(x.dtype());
    const auto number = [&](double value) { return call("_full", {}, {{"shape", Shape{1}}, {"value", value}, {"dtype", x.dtype()}}); };
    const Tensor known = chosen(x == x, x, number(a.nan));
    const Tensor below = chosen(known == INFINITY, number(a.posinf.value_or(most)), known);
    const Tensor all = chosen(below == -INFINITY, number(a.neginf.value_or(-most)), below);
    return reshaped(all, x.shape());
  }).sample({{2, 3}}, {.nan = 1});
}

GLUINO_OP(_npi_polyval, NoAttrs) {
  composed(
      op.doc("The polynomial with coefficients p, highest first, at every element of x.").input("p").input("x").dtypes(DTypeSet::numeric),
      [](const NoAttrs&, std::span<const Tensor> in) {
        if (in[0].ndim() != 1) raise<ShapeError>("p has shape {}, but a vector is needed", in[0].shape());
        Tensor sum = call("zeros_like", {in[1]});
        for (int64_t i = 0; i < in[0].extent(0); ++i) sum = sum * in[1] + reshaped(slice_of(in[0], 0, i, i + 1), {});
        return as_dtype(sum, promote(in[0].dtype(), in[1].dtype()));
      })
      .sample({{3}, {2, 3}});
}

}  // namespace
}  // namespace gluino::ops
