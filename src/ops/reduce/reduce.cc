// Reductions of axes to one number: sums, products, extrema, norms; and their broadcasting counterparts.
#include "kernels/reduce/reduce.h"

#include <cmath>

#include "dispatch/compiler_rules.h"
#include "ops/reduce/axes.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

using kernels::ReduceFinish;
using kernels::ReduceOp;

static Reduction reduction_over(ReduceOp how, ReduceFinish finish, const ReducedAxes& axes) { return {how, finish, axes.list()}; }

static void run_reduce(ReduceOp op, ReduceFinish finish, const Tensor& in, const ReducedAxes& axes, Tensor& out) {
  kernels::reduce(op, finish, bytes_of(in), in.dtype(), in.shape(), axes.flags(), bytes_of(out), out.dtype());
}

// ---- back to the shape of a broadcast input

static Shape check_sum_like(const Shape& data, const Shape& like) {
  const Shape both[] = {like, data};
  if (like.ndim() > data.ndim() || !(broadcast_shapes(both) == data))
    raise<ShapeError>("shape {} is not a broadcast of shape {}", data, like);
  return like;
}
static ReducedAxes summed_axes(const Shape& from, const Shape& to) {
  const int shift = from.ndim() - to.ndim();
  ReducedAxes axes(from.ndim());
  for (int i = 0; i < from.ndim(); ++i) axes.set(i, i < shift || to[i - shift] != from[i]);
  return axes;
}
GLUINO_OP(_sum_like, NoAttrs) {
  op.doc("Sums the axes along which a tensor of the shape of like would be broadcast to data.")
      .input("data")
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .identity_if([](const auto&, bool) { return true; })
      .shape([](const NoAttrs&, std::span<const Shape> in) { return check_sum_like(in[0], in[1]); })
      .kernel([](const NoAttrs&, KernelContext& k) {
        if (k.in(0).shape() == k.out().shape()) return k.out().assign(k.in(0));
        run_reduce(ReduceOp::sum, ReduceFinish::none, k.in(0), summed_axes(k.in(0).shape(), k.out().shape()), k.out());
      })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {call("broadcast_like", {g.head(), g.like(0)}), Tensor()};
                })
      .sample({{2, 3, 4}, {3, 1}})
      .sample({{3, 4}, {3, 4}});
  for_compiler(op).reduction([](const NoAttrs&, std::span<const Shape> in) {
    return reduction_over(ReduceOp::sum, ReduceFinish::none, summed_axes(in[0], in[1]));
  });
}

struct RestoreAttrs {
  std::optional<Shape> axis;
  bool exclude = false;
  static void fields(AttrFields<RestoreAttrs>& f) {
    f.field("axis", &RestoreAttrs::axis, "the axes that were reduced; None for all")
        .field("exclude", &RestoreAttrs::exclude, "whether axis lists the axes that were not reduced");
  }
};
GLUINO_OP(_restore_reduced, RestoreAttrs) {
  op.doc("The result of a reduction of the shape of like, with the axes that were reduced again there with extent 1.")
      .input("data")
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .view()
      .identity_if([](const auto&, bool) { return true; })
      .shape([](const RestoreAttrs& a, std::span<const Shape> in) {
        const ReducedAxes axes(in[1], a.axis, a.exclude);
        if (!(in[0] == axes.result(in[1], false))) raise<ShapeError>("data of shape {} is not a reduction of shape {}", in[0], in[1]);
        return axes.result(in[1], true);
      })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {call("reshape_like", {g.head(), g.like(0)}), Tensor()};
                })
      .sample({{3}, {2, 3, 4}}, {.axis = Shape{0, 2}})
      .sample({{2}, {2, 3}}, {.axis = Shape{0}, .exclude = true});
}

GLUINO_OP(_divide_by_reduced, NoAttrs) {
  op.doc("Data divided by the number of elements of like that were reduced to one of its own: part of the gradient of mean.")
      .input("data")
      .input("like")
      .shape_only()
      .shape([](const NoAttrs&, std::span<const Shape> in) { return in[0]; })
      .kernel([](const NoAttrs&, KernelContext& k) {
        if (k.in(0).size() == 0) return;
        const OpDef& divide = OpRegistry::global().get("_div_scalar");
        const std::pair<std::string_view, AttrValue> by[] = {{"scalar", static_cast<double>(k.in(1).size() / k.in(0).size())}};
        apply_into(divide, {&k.in(0), 1}, divide.make_attrs(by), {&k.out(), 1});
      })
      .inplace(0)
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {call("_divide_by_reduced", {g.head(), g.like(1)}), Tensor()};
                })
      .sample({{2, 1}, {2, 3}})
      .sample({{1, 1}, {2, 3}});
}

// ---- the reductions
struct ReduceAttrs {
  std::optional<Shape> axis;
  bool keepdims = false, exclude = false;
  static void fields(AttrFields<ReduceAttrs>& f) {
    f.field("axis", &ReduceAttrs::axis, "the axes to reduce; None or () for all")
        .field("keepdims", &ReduceAttrs::keepdims, "keep the reduced axes with extent 1")
        .field("exclude", &ReduceAttrs::exclude, "reduce the axes that axis does not list");
  }
};
// Spreads t, which has the shape of the reduction's result, over the shape of the input.
static Tensor expand(const ReduceAttrs& a, const Gradient& g, const Tensor& t, bool mean = false) {
  const AttrValue axis = a.axis ? AttrValue(*a.axis) : AttrValue();
  const Tensor kept = a.keepdims ? t : call("_restore_reduced", {t, g.like(0)}, {{"axis", axis}, {"exclude", a.exclude}});
  return call("broadcast_like", {mean ? call("_divide_by_reduced", {kept, g.like(0)}) : kept, g.like(0)});
}
static Tensor if_number(const Tensor& x, const Tensor& value) { return call("where", {indicator(x, "==", x), value, zeros_like(value)}); }

static DType integer_sum_dtype(const ReduceAttrs&, std::span<const DType>, DType promoted) {
  return promoted == DType::boolean ? DType::int64 : promoted;
}

template <class F>
static void define_reduction(OpBuilder<ReduceAttrs>& op, ReduceOp how, ReduceFinish finish, Uses uses, F gradient) {
  op.input("data")
      .dtypes(DTypeSet::any)
      .ignores({"dtype", "initial"})
      .shape(
          [](const ReduceAttrs& a, std::span<const Shape> in) { return ReducedAxes(in[0], a.axis, a.exclude).result(in[0], a.keepdims); })
      .kernel([how, finish](const ReduceAttrs& a, KernelContext& k) {
        run_reduce(how, finish, k.in(0), ReducedAxes(k.in(0).shape(), a.axis, a.exclude), k.out());
      })
      .gradient(std::move(uses), gradient)
      .sample({uniform_sample({2, 3, 4}, 0.3, 2)}, {.axis = Shape{1}})
      .sample({uniform_sample({2, 3, 4}, 0.3, 2)}, {.axis = Shape{0, -1}, .keepdims = true})
      .sample({uniform_sample({2, 3, 4}, 0.3, 2)}, {.axis = Shape{1}, .exclude = true})
      .sample({uniform_sample({3, 2}, 0.3, 2)});
  for_compiler(op).reduction([how, finish](const ReduceAttrs& a, std::span<const Shape> in) {
    return reduction_over(how, finish, ReducedAxes(in[0], a.axis, a.exclude));
  });
}

GLUINO_OP(sum, ReduceAttrs) {
  define_reduction(op.doc("Sum over axes.").alias("sum_axis").dtype(integer_sum_dtype), ReduceOp::sum, ReduceFinish::none, {},
                   [](const ReduceAttrs& a, const Gradient& g) -> Tensors { return {expand(a, g, g.head())}; });
}
GLUINO_OP(mean, ReduceAttrs) {
  op.dtype([](const ReduceAttrs&, std::span<const DType>, DType promoted) { return is_floating(promoted) ? promoted : DType::float32; });
  define_reduction(op.doc("Mean over axes; integers give float32."), ReduceOp::sum, ReduceFinish::divide, {},
                   [](const ReduceAttrs& a, const Gradient& g) -> Tensors { return {expand(a, g, g.head(), true)}; });
}
GLUINO_OP(prod, ReduceAttrs) {
  define_reduction(op.doc("Product over axes.").dtype(integer_sum_dtype), ReduceOp::prod, ReduceFinish::none, {{0}, {0}},
                   [](const ReduceAttrs& a, const Gradient& g) -> Tensors { return {expand(a, g, g.head() * g.out(0)) / g.in(0)}; });
}
GLUINO_OP(nansum, ReduceAttrs) {
  define_reduction(op.doc("Sum over axes, NaN counting as 0.").dtype(integer_sum_dtype), ReduceOp::nansum, ReduceFinish::none, {{0}, {}},
                   [](const ReduceAttrs& a, const Gradient& g) -> Tensors { return {if_number(g.in(0), expand(a, g, g.head()))}; });
}
GLUINO_OP(nanprod, ReduceAttrs) {
  define_reduction(
      op.doc("Product over axes, NaN counting as 1.").dtype(integer_sum_dtype), ReduceOp::nanprod, ReduceFinish::none, {{0}, {0}},
      [](const ReduceAttrs& a, const Gradient& g) -> Tensors { return {if_number(g.in(0), expand(a, g, g.head() * g.out(0)) / g.in(0))}; });
}
// Every element that equals the extremum gets the whole gradient, as in MXNet.
static Tensors extremum_gradient(const ReduceAttrs& a, const Gradient& g) {
  return {expand(a, g, g.head()) * call("_equal", {g.in(0), expand(a, g, g.out(0))})};
}
GLUINO_OP(max, ReduceAttrs) {
  define_reduction(op.doc("Maximum over axes; NaN wins.").alias("max_axis"), ReduceOp::max, ReduceFinish::none, {{0}, {0}},
                   extremum_gradient);
}
GLUINO_OP(min, ReduceAttrs) {
  define_reduction(op.doc("Minimum over axes; NaN wins.").alias("min_axis"), ReduceOp::min, ReduceFinish::none, {{0}, {0}},
                   extremum_gradient);
}
GLUINO_OP(_square_sum, ReduceAttrs) {
  define_reduction(op.doc("Sum of squares over axes."), ReduceOp::sum_square, ReduceFinish::none, {{0}, {}},
                   [](const ReduceAttrs& a, const Gradient& g) -> Tensors { return {g.in(0) * expand(a, g, g.head() * 2)}; });
}
GLUINO_OP(logsumexp, ReduceAttrs) {
  op.doc("log(sum(exp(data))) over axes, without overflow.")
      .input("data")
      .kernel_dtypes({DType::float32, DType::float64})
      .shape(
          [](const ReduceAttrs& a, std::span<const Shape> in) { return ReducedAxes(in[0], a.axis, a.exclude).result(in[0], a.keepdims); })
      .kernel([](const ReduceAttrs& a, KernelContext& k) {
        const ReducedAxes axes(k.in(0).shape(), a.axis, a.exclude);
        const Shape kept = axes.result(k.in(0).shape(), true);
        Tensor peak = make_tensor(kept, k.out().dtype(), k.out().device()), sum = make_tensor(kept, k.out().dtype(), k.out().device());
        Tensor shifted = make_tensor(k.in(0).shape(), k.out().dtype(), k.out().device());
        run_reduce(ReduceOp::max, ReduceFinish::none, k.in(0), axes, peak);
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          T* p = peak.mutable_data<T>();
          for (int64_t i = 0; i < peak.size(); ++i)
            if (!std::isfinite(static_cast<float>(p[i]))) p[i] = T(0);  // exp(x - inf) would be NaN
        });
        const OpDef &subtract = OpRegistry::global().get("broadcast_sub"), &exp = OpRegistry::global().get("exp");
        const Tensor in[] = {k.in(0), peak};
        apply_into(subtract, in, nullptr, {&shifted, 1});
        apply_into(exp, {&shifted, 1}, nullptr, {&shifted, 1});
        run_reduce(ReduceOp::sum, ReduceFinish::none, shifted, axes, sum);
        apply_into(OpRegistry::global().get("log"), {&sum, 1}, nullptr, {&sum, 1});
        Tensor out = make_view(k.out(), kept, 0);
        const Tensor parts[] = {sum, peak};
        apply_into(OpRegistry::global().get("elemwise_add"), parts, nullptr, {&out, 1});
      })
      .gradient({{0}, {0}},
                [](const ReduceAttrs& a, const Gradient& g) -> Tensors {
                  return {expand(a, g, g.head()) * call("exp", {g.in(0) - expand(a, g, g.out(0))})};
                })
      .sample({{2, 3, 4}}, {.axis = Shape{1}})
      .sample({{3, 4}}, {.axis = Shape{-1}, .keepdims = true})
      .sample({{3}});
}

struct NormAttrs {
  int ord = 2;
  std::optional<Shape> axis;
  std::optional<DType> out_dtype;
  bool keepdims = false;
  static void fields(AttrFields<NormAttrs>& f) {
    f.field("ord", &NormAttrs::ord, "1: sum of absolute values, 2: square root of the sum of squares")
        .field("axis", &NormAttrs::axis, "the axes to reduce; None for all")
        .field("out_dtype", &NormAttrs::out_dtype, "dtype of the result; None for that of data")
        .field("keepdims", &NormAttrs::keepdims, "keep the reduced axes with extent 1");
  }
};
GLUINO_OP(norm, NormAttrs) {
  op.doc("Norm of the elements over axes.")
      .input("data")
      .shape([](const NormAttrs& a, std::span<const Shape> in) {
        if (a.ord != 1 && a.ord != 2) raise<AttrError>("attribute 'ord' is {}, but only 1 and 2 are supported", a.ord);
        return ReducedAxes(in[0], a.axis, false).result(in[0], a.keepdims);
      })
      .dtype([](const NormAttrs& a, std::span<const DType>, DType promoted) { return a.out_dtype.value_or(promoted); })
      .kernel([](const NormAttrs& a, KernelContext& k) {
        run_reduce(a.ord == 1 ? ReduceOp::sum_abs : ReduceOp::sum_square, a.ord == 1 ? ReduceFinish::none : ReduceFinish::sqrt, k.in(0),
                   ReducedAxes(k.in(0).shape(), a.axis, false), k.out());
      })
      .gradient({{0}, {0}},
                [](const NormAttrs& a, const Gradient& g) -> Tensors {
                  const ReduceAttrs r{a.axis, a.keepdims, false};
                  if (a.ord == 1) return {expand(r, g, g.head()) * call("sign", {g.in(0)})};
                  return {expand(r, g, g.head() / g.out(0)) * g.in(0)};
                })
      .sample({{2, 3, 4}}, {.axis = Shape{1}})
      .sample({uniform_sample({3, 4}, 0.3, 2)}, {.ord = 1, .axis = Shape{0}, .keepdims = true})
      .sample({{3, 4}});
}

struct MomentsAttrs {
  std::optional<Shape> axes;
  bool keepdims = false;
  static void fields(AttrFields<MomentsAttrs>& f) {
    f.field("axes", &MomentsAttrs::axes, "the axes to reduce; None for all")
        .field("keepdims", &MomentsAttrs::keepdims, "keep the reduced axes with extent 1");
  }
};
GLUINO_OP(moments, MomentsAttrs) {
  op.doc("Mean and (biased) variance over axes.")
      .input("data")
      .outputs({"mean", "var"})
      .kernel_dtypes({DType::float32, DType::float64})
      .shape([](const MomentsAttrs& a, std::span<const Shape> in) { return ReducedAxes(in[0], a.axes, false).result(in[0], a.keepdims); })
      .kernel([](const MomentsAttrs& a, KernelContext& k) {
        const Shape& shape = k.in(0).shape();
        const ReducedAxes axes(shape, a.axes, false);
        run_reduce(ReduceOp::sum, ReduceFinish::divide, k.in(0), axes, k.out(0));
        Tensor centred = make_tensor(shape, k.in(0).dtype(), k.in(0).device());
        const Tensor in[] = {k.in(0), make_view(k.out(0), axes.result(shape, true), 0)};
        apply_into(OpRegistry::global().get("broadcast_sub"), in, nullptr, {&centred, 1});
        const OpDef& square = OpRegistry::global().get("square");
        apply_into(square, {&centred, 1}, nullptr, {&centred, 1});
        run_reduce(ReduceOp::sum, ReduceFinish::divide, centred, axes, k.out(1));
      })
      .gradient({{0}, {0}},
                [](const MomentsAttrs& a, const Gradient& g) -> Tensors {
                  const ReduceAttrs r{a.axes, a.keepdims, false};
                  return {expand(r, g, g.head(0), true) + expand(r, g, g.head(1) * 2, true) * (g.in(0) - expand(r, g, g.out(0)))};
                })
      .sample({{2, 3, 4}}, {.axes = Shape{0, 2}})
      .sample({{3, 4}}, {.axes = Shape{1}, .keepdims = true});
}

}  // namespace
}  // namespace gluino::ops
