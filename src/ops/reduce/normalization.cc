// Layer, group, instance, L2 and local response normalization.
#include "kernels/rows/normalization.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/parallel.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/primitives.h"
#include "kernels/reduce/reduce.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

using kernels::RowFunction;

static Tensors norm_gradient(std::string_view name, const auto& attrs, const Gradient& g) {
  return call_all_with(name, {g.head(), g.in(0), g.in(1), g.out(1), g.out(2)}, attrs);
}
static void check_scales(std::span<const Shape> in, const Shape& needed) {
  if (!(in[1] == needed) || !(in[2] == needed)) raise<ShapeError>("gamma and beta need shape {}, but have {} and {}", needed, in[1], in[2]);
}

// What the norms have in common, and what their gradients have: mean and standard deviation are kept for the latter.
template <class A>
static OpBuilder<A>& normalizes(OpBuilder<A>& op) {
  return op.input("data").input("gamma").input("beta").outputs({"output", "mean", "std"}).hidden_outputs(2).kernel_dtypes(real_dtypes());
}
template <class A>
static OpBuilder<A>& takes_norm_heads(OpBuilder<A>& op) {
  return op.input("head")
      .input("data")
      .input("gamma")
      .input("mean")
      .input("std")
      .outputs({"data_grad", "gamma_grad", "beta_grad"})
      .kernel_dtypes(real_dtypes());
}

struct LayerNormAttrs {
  int64_t axis = -1;
  double eps = 1e-5;
  bool output_mean_var = false;
  static void fields(AttrFields<LayerNormAttrs>& f) {
    f.field("axis", &LayerNormAttrs::axis, "the axis to normalize over")
        .field("eps", &LayerNormAttrs::eps, "added to the variance")
        .field("output_mean_var", &LayerNormAttrs::output_mean_var, "also give the mean and standard deviation");
  }
};
static kernels::RowLayout row_layout(const LayerNormAttrs& a, const Shape& s) {
  const AxisSplit split(s, normalize_axis(a.axis, s));
  return {split.outer, split.extent, split.inner};
}
static std::optional<RowCall> call_of_rows(const LayerNormAttrs& a, const Shape& data, RowFunction function, double number) {
  return normalize_axis(a.axis, data) == data.ndim() - 1 ? std::optional(RowCall{function, number}) : std::nullopt;
}
GLUINO_OP(LayerNorm, LayerNormAttrs) {
  normalizes(op.doc("Normalizes along an axis to mean 0 and variance 1, then scales by gamma and shifts by beta."))
      .alias("_npx_layer_norm")
      .visible_outputs([](const LayerNormAttrs& a) { return a.output_mean_var ? 3 : 1; })
      .shape([](const LayerNormAttrs& a, std::span<const Shape> in) {
        const int axis = normalize_axis(a.axis, in[0]);
        check_scales(in, {in[0][axis]});
        Shape moments = in[0];
        moments[axis] = 1;
        return std::vector<Shape>{in[0], moments, moments};
      })
      .complete([](const LayerNormAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        if (!in[0] || in[0]->empty()) return;
        const int64_t extent = (*in[0])[normalize_axis(a.axis, *in[0])];
        for (size_t i = 1; i < 3 && extent >= 0; ++i)
          if (is_open(in[i])) in[i] = Shape{extent};
      })
      .kernel([](const LayerNormAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::layer_norm<T>(row_layout(a, k.in(0).shape()), k.data<T>(0), k.data<T>(1), k.data<T>(2), static_cast<T>(a.eps),
                                 k.out_data<T>(), k.out_data<T>(1), k.out_data<T>(2));
        });
      })
      .gradient({{0, 1}, {1, 2}}, [](const LayerNormAttrs& a, const Gradient& g) { return norm_gradient("_layer_norm_grad", a, g); })
      .sample({{3, 4}, {4}, {4}})
      .sample({{2, 3, 2}, {3}, {3}}, {.axis = 1, .eps = 1e-3});
  for_compiler(op).row_call(
      [](const LayerNormAttrs& a, std::span<const Shape> in) { return call_of_rows(a, in[0], RowFunction::layer_norm, a.eps); });
}
GLUINO_OP(_layer_norm_grad, LayerNormAttrs) {
  takes_norm_heads(op.doc("The gradients of LayerNorm with respect to data, gamma and beta."))
      .shape([](const LayerNormAttrs& a, std::span<const Shape> in) {
        const int axis = normalize_axis(a.axis, in[1]);
        Shape moments = in[1];
        moments[axis] = 1;
        check_head(in[0], in[1]);
        check_same_shape("gamma", in[2], {in[1][axis]});
        check_same_shape("mean", in[3], moments);
        check_same_shape("std", in[4], moments);
        return std::vector<Shape>{in[1], in[2], in[2]};
      })
      .kernel([](const LayerNormAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::layer_norm_grad<T>(row_layout(a, k.in(1).shape()), k.data<T>(0), k.data<T>(1), k.data<T>(2), k.data<T>(3), k.data<T>(4),
                                      k.out_data<T>(0), k.out_data<T>(1), k.out_data<T>(2));
        });
      })
      .inplace(0)
      .inplace(1)
      .not_differentiable("the second derivative of layer normalization is not implemented")
      .sample({{3, 4}, {3, 4}, {4}, {3, 1}, uniform_sample({3, 1}, 0.5, 2)});
  for_compiler(op).row_call(
      [](const LayerNormAttrs& a, std::span<const Shape> in) { return call_of_rows(a, in[1], RowFunction::layer_norm_grad, 0); });
}

// ---- GroupNorm and InstanceNorm: rows are groups of channels of one image.
struct GroupNormAttrs {
  int64_t num_groups = 1;
  double eps = 1e-5;
  bool output_mean_var = false;
  static void fields(AttrFields<GroupNormAttrs>& f) {
    f.field("num_groups", &GroupNormAttrs::num_groups, "number of groups the channels are split into")
        .field("eps", &GroupNormAttrs::eps, "added to the variance")
        .field("output_mean_var", &GroupNormAttrs::output_mean_var, "also give the mean and standard deviation");
  }
};
struct InstanceNormAttrs {
  double eps = 1e-3;
  static void fields(AttrFields<InstanceNormAttrs>& f) { f.field("eps", &InstanceNormAttrs::eps, "added to the variance"); }
};

static void check_channels(const Shape& data) {
  if (data.ndim() < 2) raise<ShapeError>("data has shape {}, but a batch axis and a channel axis are needed", data);
}
// gamma holds one number per group or one per channel.
static kernels::GroupLayout group_layout(const Shape& data, int64_t groups, int64_t scales) {
  const int64_t segments = std::max<int64_t>(scales / groups, 1);
  return {data[0], groups, segments, data.elements(1, data.ndim()) / groups / segments};
}
static void run_group_norm(KernelContext& k, int64_t groups, double eps) {
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    kernels::group_norm<T>(group_layout(k.in(0).shape(), groups, k.in(1).size()), k.data<T>(0), k.data<T>(1), k.data<T>(2),
                           static_cast<T>(eps), k.out_data<T>(), k.out_data<T>(1), k.out_data<T>(2));
  });
}

GLUINO_OP(GroupNorm, GroupNormAttrs) {
  normalizes(op.doc("Normalizes groups of channels of every image; gamma and beta hold one number per group or per channel."))
      .visible_outputs([](const GroupNormAttrs& a) { return a.output_mean_var ? 3 : 1; })
      .shape([](const GroupNormAttrs& a, std::span<const Shape> in) {
        check_channels(in[0]);
        if (a.num_groups < 1 || in[0][1] % a.num_groups)
          raise<ShapeError>("{} channels cannot be split into num_groups = {}", in[0][1], a.num_groups);
        check_scales(in, {in[1].elements() == in[0][1] ? in[0][1] : a.num_groups});
        return std::vector<Shape>{in[0], {in[0][0], a.num_groups}, {in[0][0], a.num_groups}};
      })
      .complete([](const GroupNormAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        for (size_t i = 1; i < 3; ++i)
          if (is_open(in[i])) in[i] = Shape{a.num_groups};
      })
      .kernel([](const GroupNormAttrs& a, KernelContext& k) { run_group_norm(k, a.num_groups, a.eps); })
      .gradient({{0, 1}, {1, 2}}, [](const GroupNormAttrs& a, const Gradient& g) { return norm_gradient("_group_norm_grad", a, g); })
      .sample({{2, 4, 3}, {2}, {2}}, {.num_groups = 2})
      .sample({{2, 4, 3}, {4}, {4}}, {.num_groups = 2});
}

GLUINO_OP(InstanceNorm, InstanceNormAttrs) {
  normalizes(op.doc("Normalizes every channel of every image."))
      .shape([](const InstanceNormAttrs&, std::span<const Shape> in) {
        check_channels(in[0]);
        check_scales(in, {in[0][1]});
        return std::vector<Shape>{in[0], {in[0][0], in[0][1]}, {in[0][0], in[0][1]}};
      })
      .complete([](const InstanceNormAttrs&, OptionalShapes& in, const OptionalShapes&) {
        for (size_t i = 1; i < 3; ++i)
          if (is_open(in[i]) && in[0] && in[0]->ndim() > 1 && (*in[0])[1] >= 0) in[i] = Shape{(*in[0])[1]};
      })
      .kernel([](const InstanceNormAttrs& a, KernelContext& k) { run_group_norm(k, std::max<int64_t>(k.in(0).extent(1), 1), a.eps); })
      .gradient({{0, 1}, {1, 2}}, [](const InstanceNormAttrs& a,
                                     const Gradient& g) { return norm_gradient("_group_norm_grad", GroupNormAttrs{.eps = a.eps}, g); })
      .sample({{2, 3, 4}, {3}, {3}})
      .sample({{2, 2, 2, 3}, {2}, {2}}, {.eps = 1e-2});
}

// The number of groups is the second extent of mean, so that InstanceNorm needs no attribute for it.
GLUINO_OP(_group_norm_grad, GroupNormAttrs) {
  takes_norm_heads(op.doc("The gradients of GroupNorm and InstanceNorm with respect to data, gamma and beta."))
      .shape([](const GroupNormAttrs&, std::span<const Shape> in) {
        check_head(in[0], in[1]);
        check_channels(in[1]);
        if (in[3].ndim() != 2 || in[3][0] != in[1][0] || (in[3][1] ? in[1][1] % in[3][1] : in[1][1]))
          raise<ShapeError>("mean has shape {}, but data of shape {} needs {} rows of groups of its channels", in[3], in[1], in[1][0]);
        check_same_shape("std", in[4], in[3]);
        if (!(in[2] == Shape{in[1][1]})) check_same_shape("gamma", in[2], {in[3][1]});
        return std::vector<Shape>{in[1], in[2], in[2]};
      })
      .kernel([](const GroupNormAttrs&, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::group_norm_grad<T>(group_layout(k.in(1).shape(), std::max<int64_t>(k.in(3).extent(1), 1), k.in(2).size()), k.data<T>(0),
                                      k.data<T>(1), k.data<T>(2), k.data<T>(3), k.data<T>(4), k.out_data<T>(0), k.out_data<T>(1),
                                      k.out_data<T>(2));
        });
      })
      .not_differentiable("the second derivative of group normalization is not implemented")
      .sample({{2, 4, 3}, {2, 4, 3}, {2}, {2, 2}, uniform_sample({2, 2}, 0.5, 2)}, {.num_groups = 2});
}

// ---- L2Normalization
struct L2NormalizationAttrs {
  double eps = 1e-10;
  enum class Mode : uint8_t { channel, instance, spatial } mode = Mode::instance;
  static void fields(AttrFields<L2NormalizationAttrs>& f) {
    f.field("eps", &L2NormalizationAttrs::eps, "added to the sum of squares")
        .choice("mode", &L2NormalizationAttrs::mode, {"channel", "instance", "spatial"},
                "over axis 1, over all axes but the first, or over the axes from 2 on");
  }
};
// The axes [first, last) that are summed.
static std::pair<int, int> summed_axes(const L2NormalizationAttrs& a, const Shape& s) {
  check_channels(s);
  if (a.mode == L2NormalizationAttrs::Mode::channel) return {1, 2};
  return {a.mode == L2NormalizationAttrs::Mode::instance ? 1 : 2, s.ndim()};
}
GLUINO_OP(L2Normalization, L2NormalizationAttrs) {
  op.doc("Divides by the Euclidean norm of each instance, channel vector or image.")
      .input("data")
      .outputs({"output", "norm"})
      .hidden_outputs(1)
      .shape([](const L2NormalizationAttrs& a, std::span<const Shape> in) {
        const auto [first, last] = summed_axes(a, in[0]);
        Shape norm = in[0];
        for (int i = first; i < last; ++i) norm[i] = 1;
        return std::vector<Shape>{in[0], norm};
      })
      .kernel([](const L2NormalizationAttrs& a, KernelContext& k) {
        const Shape& s = k.in(0).shape();
        const auto [first, last] = summed_axes(a, s);
        std::array<bool, Shape::kMaxAxes> is_summed{};
        std::fill(is_summed.begin() + first, is_summed.begin() + last, true);
        const DType dtype = k.out().dtype();
        kernels::reduce(kernels::ReduceOp::sum_square, kernels::ReduceFinish::none, bytes_of(k.in(0)), dtype, s, is_summed.data(),
                        bytes_of(k.out(1)), dtype);
        visit_real(dtype, [&]<class T>(T*) {
          T* norm = k.out_data<T>(1);
          for (int64_t i = 0, elements = k.out(1).size(); i < elements; ++i) norm[i] = std::sqrt(norm[i] + static_cast<T>(a.eps));
        });
        Program program(kernels::compute_type(dtype));
        Expr::input(program, 0) / Expr::input(program, 1);
        const kernels::Operand operands[] = {{bytes_of(k.in(0)), dtype, &s}, {bytes_of(k.out(1)), dtype, &k.out(1).shape()}};
        kernels::run_elementwise(program, operands, bytes_of(k.out()), dtype, s);
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{}, {0, 1}},
                [](const Gradient& g) -> Tensors {
                  const Tensor &y = g.out(0), &norm = g.out(1);
                  return {(g.head() - y * reduce_like(g.head() * y, norm)) / norm};
                })
      .sample({{2, 3, 2}})
      .sample({{2, 3, 2}}, {.mode = L2NormalizationAttrs::Mode::channel})
      .sample({{2, 3, 4}}, {.mode = L2NormalizationAttrs::Mode::spatial});
}

// ---- LRN
struct WindowSumAttrs {
  int64_t nsize = 0;
  static void fields(AttrFields<WindowSumAttrs>& f) {
    f.required("nsize", &WindowSumAttrs::nsize, "number of neighbouring channels, an odd number");
  }
};
// out = the sum over neighbouring channels (axis 1) of f(element).
template <class T, class F>
static void channel_window_sum(const Shape& shape, int64_t nsize, const T* x, T* out, F&& f) {
  const AxisSplit s(shape, normalize_axis(1, shape));
  parallel_for(s.outer * s.extent, kParallelGrain / std::max<int64_t>(s.inner * nsize, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t c = r % s.extent, first = std::max<int64_t>(c - nsize / 2, 0), last = std::min(c + nsize / 2 + 1, s.extent);
      std::fill_n(out + r * s.inner, s.inner, T(0));
      for (int64_t d = first; d < last; ++d)
        for (int64_t i = 0; i < s.inner; ++i) out[r * s.inner + i] += f(x[(r - c + d) * s.inner + i]);
    }
  });
}
GLUINO_OP(_channel_window_sum, WindowSumAttrs) {
  op.doc("Sums every element with its neighbours along axis 1.")
      .input("data")
      .same_shape()
      .shape([](const WindowSumAttrs&, std::span<const Shape> in) { return check_channels(in[0]), in[0]; })
      .kernel([](const WindowSumAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          channel_window_sum(k.in(0).shape(), a.nsize, k.data<T>(0), k.out_data<T>(), [](T x) { return x; });
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({}, [](const WindowSumAttrs& a, const Gradient& g) -> Tensors { return {call_with("_channel_window_sum", {g.head()}, a)}; })
      .sample({{2, 5, 2}}, {.nsize = 3});
}

struct LRNAttrs {
  int64_t nsize = 0;
  double alpha = 1e-4, beta = 0.75, knorm = 2;
  static void fields(AttrFields<LRNAttrs>& f) {
    f.required("nsize", &LRNAttrs::nsize, "number of neighbouring channels, an odd number")
        .field("alpha", &LRNAttrs::alpha, "weight of the mean of squares")
        .field("beta", &LRNAttrs::beta, "the power")
        .field("knorm", &LRNAttrs::knorm, "added to the weighted mean");
  }
};
static Tensor power(const Tensor& x, double p) { return call("_power_scalar", {x}, {{"scalar", p}}); }

GLUINO_OP(LRN, LRNAttrs) {
  op.doc("Divides by a power of knorm + alpha times the mean square of the neighbouring channels.")
      .input("data")
      .outputs({"output", "denominator"})
      .hidden_outputs(1)
      .shape([](const LRNAttrs& a, std::span<const Shape> in) {
        check_channels(in[0]);
        if (a.nsize < 1 || a.nsize % 2 == 0) raise<AttrError>("nsize = {}, but an odd positive number is needed", a.nsize);
        return in[0];
      })
      .kernel([](const LRNAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T* x = k.data<T>(0);
          T *out = k.out_data<T>(), *denominator = k.out_data<T>(1);
          channel_window_sum(k.in(0).shape(), a.nsize, x, denominator, [](T v) { return v * v; });
          const T weight = static_cast<T>(a.alpha / static_cast<double>(a.nsize)), knorm = static_cast<T>(a.knorm),
                  beta = static_cast<T>(a.beta);
          parallel_for(k.out().size(), kParallelGrain / 8, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              denominator[i] = knorm + weight * denominator[i];
              out[i] = x[i] * std::pow(denominator[i], -beta);
            }
          });
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{0}, {0, 1}},
                [](const LRNAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor sums = call("_channel_window_sum", {g.head() * g.out(0) / g.out(1)}, {{"nsize", a.nsize}});
                  return {g.head() * power(g.out(1), -a.beta) - g.in(0) * sums * (2 * a.alpha * a.beta / static_cast<double>(a.nsize))};
                })
      .sample({{2, 5, 2}}, {.nsize = 3, .alpha = 0.5});
}

}  // namespace
}  // namespace gluino::ops
