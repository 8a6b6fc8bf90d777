// Optimizer steps that look at whole tensors: LAMB, LARS.
#include <cmath>
#include <limits>

#include "ops/optimizer_steps.h"

namespace gluino::ops {
namespace {

template <class T>
static T clipped(T x, double bound) {
  const T b = bound < 0 ? std::numeric_limits<T>::infinity() : static_cast<T>(bound);
  return x > b ? b : x < -b ? -b : x;
}

// ---- LAMB
struct LambPhase1Attrs {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, wd = 0, rescale_grad = 1, clip_gradient = -1;
  int64_t t = 1;
  bool bias_correction = true;
  static void fields(AttrFields<LambPhase1Attrs>& f) {
    f.field("beta1", &LambPhase1Attrs::beta1, "how much of the mean is kept")
        .field("beta2", &LambPhase1Attrs::beta2, "how much of the variance is kept")
        .field("epsilon", &LambPhase1Attrs::epsilon, "added to the standard deviation")
        .required("t", &LambPhase1Attrs::t, "number of this step, from 1 on")
        .field("bias_correction", &LambPhase1Attrs::bias_correction, "correct mean and variance for their start at 0")
        .required("wd", &LambPhase1Attrs::wd, "weight decay")
        .field("rescale_grad", &LambPhase1Attrs::rescale_grad, "factor of the gradient")
        .field("clip_gradient", &LambPhase1Attrs::clip_gradient, "bound of the gradient; negative for none");
  }
};
static void lamb_phase1_kernel(const LambPhase1Attrs& a, KernelContext& k) {
  Tensor mean_state = k.state(2), var_state = k.state(3);
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const T *weight = k.data<T>(k.num_inputs() == 5 ? 4 : 0), *grad = k.data<T>(1);
    T *mean = mean_state.mutable_data<T>(), *var = var_state.mutable_data<T>(), *out = k.out_data<T>();
    const double step = static_cast<double>(a.t);
    const T b1 = static_cast<T>(a.beta1), b2 = static_cast<T>(a.beta2), scale = static_cast<T>(a.rescale_grad),
            eps = static_cast<T>(a.epsilon), wd = static_cast<T>(a.wd);
    const T c1 = a.bias_correction ? static_cast<T>(1 - std::pow(a.beta1, step)) : T(1),
            c2 = a.bias_correction ? static_cast<T>(1 - std::pow(a.beta2, step)) : T(1);
    parallel_for(k.out().size(), kParallelGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T g = clipped(scale * grad[i], a.clip_gradient);
        mean[i] = b1 * mean[i] + (1 - b1) * g;
        var[i] = b2 * var[i] + (1 - b2) * g * g;
        out[i] = mean[i] / c1 / (std::sqrt(var[i] / c2) + eps) + wd * weight[i];
      }
    });
  });
}
static OpBuilder<LambPhase1Attrs>& define_phase1(OpBuilder<LambPhase1Attrs>& op) {
  return op.input("weight")
      .input("grad")
      .state("mean")
      .state("var")
      .kernel(lamb_phase1_kernel)
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .same_shape();
}
GLUINO_OP(lamb_update_phase1, LambPhase1Attrs) {
  define_phase1(op.doc("The direction of a LAMB step."))
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.wd = 0.1, .t = 2});
}
GLUINO_OP(mp_lamb_update_phase1, LambPhase1Attrs) {
  define_phase1(op.doc("The direction of a LAMB step, from a float32 copy of the weight."))
      .state("weight32")
      .dtype([](const LambPhase1Attrs&, std::span<const DType> in, DType) { return in[2]; })
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1), {3, 4}}, {.wd = 0.1, .t = 2});
}

struct LambPhase2Attrs {
  double lr = 0, lower_bound = -1, upper_bound = -1;
  static void fields(AttrFields<LambPhase2Attrs>& f) {
    f.required("lr", &LambPhase2Attrs::lr, "learning rate")
        .field("lower_bound", &LambPhase2Attrs::lower_bound, "least norm of the weight; negative for none")
        .field("upper_bound", &LambPhase2Attrs::upper_bound, "largest norm of the weight; negative for none");
  }
};
static void lamb_phase2_kernel(const LambPhase2Attrs& a, KernelContext& k) {
  double r1 = k.in(2).item<double>();
  const double r2 = k.in(3).item<double>();
  if (a.lower_bound >= 0) r1 = std::max(r1, a.lower_bound);
  if (a.upper_bound >= 0) r1 = std::min(r1, a.upper_bound);
  const double lr = r1 == 0 || r2 == 0 ? a.lr : a.lr * r1 / r2;
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const T* direction = k.data<T>(1);
    const bool has_master = k.num_inputs() == 5;
    Tensor master = has_master ? k.state(4) : Tensor();
    const T* weight = has_master ? master.data<T>() : k.data<T>(0);
    T *out = k.out_data<T>(), *copy = has_master ? master.mutable_data<T>() : out;
    for (int64_t i = 0; i < k.out().size(); ++i) out[i] = copy[i] = weight[i] - static_cast<T>(lr) * direction[i];
  });
}
static OpBuilder<LambPhase2Attrs>& define_phase2(OpBuilder<LambPhase2Attrs>& op) {
  return op.input("weight")
      .input("g")
      .input("r1")
      .own_dtype()
      .input("r2")
      .own_dtype()
      .kernel(lamb_phase2_kernel)
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .shape([](const LambPhase2Attrs&, std::span<const Shape> in) { return in[0]; });
}
GLUINO_OP(lamb_update_phase2, LambPhase2Attrs) {
  define_phase2(op.doc("A LAMB step along g, scaled by the ratio of the norms r1 and r2."))
      .sample({{3, 4}, {3, 4}, uniform_sample({1}, 1, 2), uniform_sample({1}, 1, 2)}, {.lr = 0.1});
}
GLUINO_OP(mp_lamb_update_phase2, LambPhase2Attrs) {
  define_phase2(op.doc("A LAMB step on a float32 copy of the weight."))
      .state("weight32")
      .dtype([](const LambPhase2Attrs&, std::span<const DType> in, DType) { return in[0]; })
      .sample({{3, 4}, {3, 4}, uniform_sample({1}, 1, 2), uniform_sample({1}, 1, 2), {3, 4}}, {.lr = 0.1});
}

// ---- LARS
struct MultiLarsAttrs {
  double eta = 0, eps = 0, rescale_grad = 1;
  static void fields(AttrFields<MultiLarsAttrs>& f) {
    f.required("eta", &MultiLarsAttrs::eta, "trust in the ratio of the norms")
        .required("eps", &MultiLarsAttrs::eps, "added to the norm of the gradient")
        .field("rescale_grad", &MultiLarsAttrs::rescale_grad, "factor of the gradients");
  }
};
GLUINO_OP(multi_lars, MultiLarsAttrs) {
  op.doc("Learning rates of many weights by the ratio of the norms of weights and gradients.")
      .input("lrs")
      .input("weights_sum_sq")
      .input("grads_sum_sq")
      .input("wds")
      .same_shape()
      .kernel([](const MultiLarsAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t i = 0; i < k.out().size(); ++i) {
            const T weight = std::sqrt(k.data<T>(1)[i]), gradient = std::sqrt(k.data<T>(2)[i]) * static_cast<T>(a.rescale_grad);
            const bool both = weight > 0 && gradient > 0;
            k.out_data<T>()[i] =
                k.data<T>(0)[i] *
                (both ? static_cast<T>(a.eta) * weight / (gradient + k.data<T>(3)[i] * weight + static_cast<T>(a.eps)) : T(1));
          }
        });
      })
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .sample({uniform_sample({3}, 0.1, 1), uniform_sample({3}, 0.1, 1), uniform_sample({3}, 0.1, 1), uniform_sample({3}, 0, 0.1)},
              {.eta = 0.1, .eps = 1e-6});
}

// ---- many arrays
struct ResetArraysAttrs {
  int64_t num_arrays = 1;
  static void fields(AttrFields<ResetArraysAttrs>& f) { f.required("num_arrays", &ResetArraysAttrs::num_arrays, "number of inputs"); }
};
GLUINO_OP(reset_arrays, ResetArraysAttrs) {
  op.doc("Sets all inputs to zero; the output tells how many there were.")
      .variadic("data")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .shape([](const ResetArraysAttrs&, std::span<const Shape>) { return Shape{1}; })
      .dtype([](const ResetArraysAttrs&, std::span<const DType>, DType) { return DType::int64; })
      .kernel([](const ResetArraysAttrs&, KernelContext& k) {
        for (int i = 0; i < k.num_inputs(); ++i) std::fill_n(bytes_of(k.state(i)), k.in(i).nbytes(), '\0');
        *k.out_data<int64_t>() = k.num_inputs();
      })
      .not_differentiable("it overwrites its inputs")
      .sample({{3, 4}, {2}}, {.num_arrays = 2});
}

}  // namespace
}  // namespace gluino::ops
