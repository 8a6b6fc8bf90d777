// Batch normalization with moving statistics as states.
#include <cmath>

#include "kernels/rows/normalization.h"
#include "dispatch/composition.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

struct BatchNormAttrs {
  double eps = 1e-3, momentum = 0.9;
  bool fix_gamma = true, use_global_stats = false, output_mean_var = false;
  int64_t axis = 1;
  static void fields(AttrFields<BatchNormAttrs>& f) {
    f.field("eps", &BatchNormAttrs::eps, "added to the variance")
        .field("momentum", &BatchNormAttrs::momentum, "how much of the moving statistics is kept in a training step")
        .field("fix_gamma", &BatchNormAttrs::fix_gamma, "treat gamma as ones")
        .field("use_global_stats", &BatchNormAttrs::use_global_stats, "use the moving statistics in training too")
        .field("output_mean_var", &BatchNormAttrs::output_mean_var, "also give the mean and variance that were used")
        .field("axis", &BatchNormAttrs::axis, "the axis of the channels");
  }
};

static kernels::ChannelLayout layout_of(const BatchNormAttrs& a, const Shape& s) {
  const AxisSplit split(s, normalize_axis(a.axis, s));
  return {split.outer, split.extent, split.inner};
}

static void batch_norm_kernel(const BatchNormAttrs& a, KernelContext& k) {
  const kernels::ChannelLayout l = layout_of(a, k.in(0).shape());
  const bool from_batch = k.training() && !a.use_global_stats;
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    T *mean = k.out_data<T>(1), *var = k.out_data<T>(2);
    Tensor moving[] = {k.state(3), k.state(4)};
    if (from_batch && l.outer * l.inner > 0) {
      kernels::channel_moments(l, k.data<T>(0), mean, var);
      const T keep = static_cast<T>(a.momentum);
      T* states[] = {moving[0].mutable_data<T>(), moving[1].mutable_data<T>()};
      for (int64_t c = 0; c < l.channels; ++c) {
        states[0][c] = states[0][c] * keep + mean[c] * (1 - keep);
        states[1][c] = states[1][c] * keep + var[c] * (1 - keep);
      }
    } else {
      std::copy_n(moving[0].data<T>(), l.channels, mean);
      std::copy_n(moving[1].data<T>(), l.channels, var);
    }
    *k.out_data<T>(3) = from_batch;
    const Tensor gamma = with_dtype(k.in(1), k.out().dtype()), beta = with_dtype(k.in(2), k.out().dtype());
    std::vector<T> scale(l.channels);
    for (int64_t c = 0; c < l.channels; ++c)
      scale[c] = (a.fix_gamma ? T(1) : gamma.data<T>()[c]) / std::sqrt(var[c] + static_cast<T>(a.eps));
    kernels::channel_affine<T>(l, k.data<T>(0), mean, scale.data(), beta.data<T>(), k.out_data<T>());
  });
}

static void batch_norm_grad_kernel(const BatchNormAttrs& a, KernelContext& k) {
  const kernels::ChannelLayout l = layout_of(a, k.in(0).shape());
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const T *head = k.data<T>(0), *x = k.data<T>(1), *gamma = k.data<T>(2), *mean = k.data<T>(3), *var = k.data<T>(4);
    const bool from_batch = *k.data<T>(5) != 0;
    const auto channels = static_cast<size_t>(l.channels);
    const T count = static_cast<T>(std::max<int64_t>(l.outer * l.inner, 1));
    std::vector<T> rstd(channels), scale(channels), shift(channels), slope(channels);
    for (size_t c = 0; c < channels; ++c) {
      rstd[c] = 1 / std::sqrt(var[c] + static_cast<T>(a.eps));
      scale[c] = (a.fix_gamma ? T(1) : gamma[c]) * rstd[c];
    }
    T *dgamma = k.out_data<T>(1), *dbeta = k.out_data<T>(2);
    kernels::channel_head_sums<T>(l, head, x, mean, rstd.data(), dbeta, dgamma);
    if (from_batch)
      for (size_t c = 0; c < channels; ++c) {
        shift[c] = dbeta[c] / count;
        slope[c] = dgamma[c] / count;
      }
    kernels::channel_grad<T>(l, head, x, mean, rstd.data(), scale.data(), shift.data(), slope.data(), k.out_data<T>());
    if (a.fix_gamma) std::fill_n(dgamma, l.channels, T(0));
  });
}

static void define_batch_norm(OpBuilder<BatchNormAttrs>& op) {
  // The last output tells the gradient whether the statistics came from the batch.
  op.input("data")
      .input("gamma")
      .wide_dtype()
      .input("beta")
      .wide_dtype()
      .state("moving_mean")
      .state("moving_var")
      .ignores({"cudnn_off", "min_calib_range", "max_calib_range", "ndev", "key"})
      .outputs({"output", "mean", "var", "from_batch"})
      .hidden_outputs(3)
      .visible_outputs([](const BatchNormAttrs& a) { return a.output_mean_var ? 3 : 1; })
      .shape([](const BatchNormAttrs& a, std::span<const Shape> in) {
        const Shape channels{in[0][normalize_axis(a.axis, in[0])]};
        for (size_t i = 1; i < 5; ++i)
          if (!(in[i] == channels))
            raise<ShapeError>("gamma, beta and the moving statistics need shape {}, but one has {}", channels, in[i]);
        return std::vector<Shape>{in[0], channels, channels, {1}};
      })
      .dtype([](const BatchNormAttrs&, std::span<const DType>, DType promoted) {
        const DType moments = promoted == DType::float64 ? DType::float64 : DType::float32;
        return std::vector<DType>{promoted, moments, moments, moments};
      })
      .complete([](const BatchNormAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        if (!in[0] || in[0]->empty()) return;
        const int64_t channels = (*in[0])[normalize_axis(a.axis, *in[0])];
        for (size_t i = 1; i < 5 && channels >= 0; ++i)
          if (is_open(in[i])) in[i] = Shape{channels};
      })
      .kernel(batch_norm_kernel)
      .kernel_dtypes(real_dtypes())
      .mode_dependent()
      .inplace(0)
      .gradient({{0, 1}, {1, 2, 3}},
                [](const BatchNormAttrs& a, const Gradient& g) -> Tensors {
                  Tensors d = call_all_with("_batch_norm_grad", {g.head(), g.in(0), g.in(1), g.out(1), g.out(2), g.out(3)}, a);
                  return {d[0], d[1], d[2], Tensor(), Tensor()};
                })
      .sample({{3, 2, 4}, uniform_sample({2}, 0.5, 1.5), {2}, {2}, uniform_sample({2}, 0.5, 2)}, {.fix_gamma = false})
      .sample({{5, 3}, uniform_sample({3}, 0.5, 1.5), {3}, {3}, uniform_sample({3}, 0.5, 2)})
      .sample({{3, 4, 2}, uniform_sample({2}, 0.5, 1.5), {2}, {2}, uniform_sample({2}, 0.5, 2)},
              {.fix_gamma = false, .use_global_stats = true, .axis = -1});
  for_compiler(op).channel_affine([](const BatchNormAttrs& a, const Tensors& in) -> ChannelAffine {
    const Tensor rstd = call("rsqrt", {in[4] + a.eps}), scale = a.fix_gamma ? rstd : in[1] * rstd;
    return {normalize_axis(a.axis, in[0].shape()), scale, in[2] - in[3] * scale};
  });
}
GLUINO_OP(BatchNorm, BatchNormAttrs) {
  define_batch_norm(op.doc("Normalizes every channel by the mean and variance of the batch, or by the moving ones when predicting.")
                        .alias("BatchNorm_v1", "CuDNNBatchNorm"));
}
GLUINO_OP(_contrib_SyncBatchNorm, BatchNormAttrs) {
  define_batch_norm(op.doc("Batch normalization over all devices; the CPU is one device."));
}
GLUINO_OP(_contrib_BatchNormWithReLU, BatchNormAttrs) {
  op.doc("Batch normalization and relu.").input("data").input("gamma").wide_dtype().input("beta").wide_dtype();
  op.state("moving_mean").state("moving_var").ignores({"cudnn_off", "min_calib_range", "max_calib_range"}).mode_dependent();
  composed(op.outputs({"output", "mean", "var"})
               .visible_outputs([](const BatchNormAttrs& a) { return a.output_mean_var ? 3 : 1; })
               .dtype([](const BatchNormAttrs&, std::span<const DType>, DType promoted) {
                 const DType moments = promoted == DType::float64 ? DType::float64 : DType::float32;
                 return std::vector<DType>{promoted, moments, moments};
               })
               .complete([](const BatchNormAttrs& a, OptionalShapes& in, const OptionalShapes& out) {
                 OpRegistry::global().get("BatchNorm").complete_inputs(&a, in, out);
               }),
           [](const BatchNormAttrs& a, std::span<const Tensor> in) -> Tensors {
             const Tensors found = call_all_with("BatchNorm", {in[0], in[1], in[2], in[3], in[4]}, a);
             return {call("relu", {found[0]}), found[1], found[2]};
           })
      .sample({{3, 2, 4}, uniform_sample({2}, 0.5, 1.5), {2}, {2}, uniform_sample({2}, 0.5, 2)}, {.fix_gamma = false});
}

GLUINO_OP(_batch_norm_grad, BatchNormAttrs) {
  op.doc("The gradients of BatchNorm with respect to data, gamma and beta.")
      .input("head")
      .input("data")
      .input("gamma")
      .input("mean")
      .input("var")
      .input("from_batch")
      .outputs({"data_grad", "gamma_grad", "beta_grad"})
      .shape([](const BatchNormAttrs& a, std::span<const Shape> in) {
        const Shape channels{in[1][normalize_axis(a.axis, in[1])]};
        check_head(in[0], in[1]);
        check_same_shape("gamma", in[2], channels);
        check_same_shape("mean", in[3], channels);
        check_same_shape("var", in[4], channels);
        check_one_element("from_batch", in[5]);
        return std::vector<Shape>{in[1], in[2], in[2]};
      })
      .kernel(batch_norm_grad_kernel)
      .kernel_dtypes(real_dtypes())
      .inplace(0)
      .inplace(1)
      .not_differentiable("the second derivative of batch normalization is not implemented")
      .sample({{3, 2, 4}, {3, 2, 4}, uniform_sample({2}, 0.5, 1.5), {2}, uniform_sample({2}, 0.5, 2), {1}}, {.fix_gamma = false});
}

}  // namespace
}  // namespace gluino::ops
