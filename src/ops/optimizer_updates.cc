// Optimizer steps: every element of a weight and of its states is updated in one pass.
#include <array>
#include <cmath>
#include <limits>

#include "ops/optimizer_steps.h"

namespace gluino::ops {
namespace {

using Names1 = std::array<const char*, 1>;
using Names2 = std::array<const char*, 2>;
using Names3 = std::array<const char*, 3>;

// Keeps x within -bound and bound; a negative bound means none.
template <class T>
struct Clip {
  explicit Clip(double b) : bound(b < 0 ? std::numeric_limits<T>::infinity() : static_cast<T>(b)) {}
  T operator()(T x) const { return x > bound ? bound : x < -bound ? -bound : x; }
  T bound;
};
template <class T>
static T sign_of(T x) {
  return static_cast<T>((x > 0) - (x < 0));
}

// Attributes stand in MXNet's order, because they may be given by position: the rate, what is the optimizer's own, the rest.
#define RATE(A) f.required("lr", &A::lr, "learning rate")
#define MOMENTUM(A) field("momentum", &A::momentum, "how much of the last step is kept")
#define DECAY_AND_GRADIENT(A)                                            \
  field("wd", &A::wd, "weight decay")                                    \
      .field("rescale_grad", &A::rescale_grad, "factor of the gradient") \
      .field("clip_gradient", &A::clip_gradient, "bound of the gradient; negative for none")
#define LAZY_UPDATE(A) field("lazy_update", &A::lazy_update, "for gradients of few rows, which are dense here: no effect")

// ---- SGD
struct SGDAttrs {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(SGDAttrs).DECAY_AND_GRADIENT(SGDAttrs).LAZY_UPDATE(SGDAttrs);
  }
};
struct MomentumAttrs {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(MomentumAttrs).MOMENTUM(MomentumAttrs).DECAY_AND_GRADIENT(MomentumAttrs).LAZY_UPDATE(MomentumAttrs);
  }
};
struct NesterovAttrs {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(NesterovAttrs).MOMENTUM(NesterovAttrs).DECAY_AND_GRADIENT(NesterovAttrs);
  }
};
static auto sgd_step = [](const SGDAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), clip = Clip<T>(a.clip_gradient)](
             T w, T g) { return w - lr * (clip(scale * g) + wd * w); };
};
static auto sgd_momentum_step = [](const MomentumAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), keep = static_cast<T>(a.momentum),
          clip = Clip<T>(a.clip_gradient)](T w, T g, T& mom) {
    mom = keep * mom - lr * (clip(scale * g) + wd * w);
    return w + mom;
  };
};
static auto nesterov_step = [](const NesterovAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), keep = static_cast<T>(a.momentum),
          clip = Clip<T>(a.clip_gradient)](T w, T g, T& mom) {
    const T d = clip(scale * g) + wd * w;
    mom = keep * mom - lr * d;
    return w + (keep * mom - lr * d);
  };
};
GLUINO_OP(sgd_update, SGDAttrs) {
  define_update<0>(op.doc("weight - lr * (grad + wd * weight)."), {}, false, sgd_step).sample({{3, 4}, {3, 4}}, {.lr = 0.1, .wd = 0.01});
}
GLUINO_OP(sgd_mom_update, MomentumAttrs) {
  define_update<1>(op.doc("SGD with momentum."), Names1{"mom"}, false, sgd_momentum_step)
      .sample({{3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .momentum = 0.9, .wd = 0.01});
}
GLUINO_OP(nag_mom_update, NesterovAttrs) {
  define_update<1>(op.doc("SGD with Nesterov's momentum."), Names1{"mom"}, false, nesterov_step)
      .sample({{3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .momentum = 0.9});
}
GLUINO_OP(mp_sgd_update, SGDAttrs) {
  define_update<0>(op.doc("SGD on a float32 copy of the weight."), {}, true, sgd_step).sample({{3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1});
}
GLUINO_OP(mp_sgd_mom_update, MomentumAttrs) {
  define_update<1>(op.doc("SGD with momentum on a float32 copy of the weight."), Names1{"mom"}, true, sgd_momentum_step)
      .sample({{3, 4}, {3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .momentum = 0.9});
}
GLUINO_OP(mp_nag_mom_update, NesterovAttrs) {
  define_update<1>(op.doc("SGD with Nesterov's momentum on a float32 copy of the weight."), Names1{"mom"}, true, nesterov_step)
      .sample({{3, 4}, {3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .momentum = 0.9});
}

GLUINO_OP(multi_sgd_update, Many<SGDAttrs>) {
  define_updates<0>(op.doc("SGD on many weights: inputs are (weight, grad) for each."), false, sgd_step);
}
GLUINO_OP(multi_sgd_mom_update, Many<MomentumAttrs>) {
  define_updates<1>(op.doc("SGD with momentum on many weights: inputs are (weight, grad, mom) for each."), false, sgd_momentum_step);
}
GLUINO_OP(multi_mp_sgd_update, Many<SGDAttrs>) {
  define_updates<0>(op.doc("SGD on many weights: inputs are (weight, grad, weight32) for each."), true, sgd_step);
}
GLUINO_OP(multi_mp_sgd_mom_update, Many<MomentumAttrs>) {
  define_updates<1>(op.doc("SGD with momentum on many weights: inputs are (weight, grad, mom, weight32) for each."), true,
                    sgd_momentum_step);
}
GLUINO_OP(_multi_nag_mom_update, Many<NesterovAttrs>) {
  define_updates<1>(op.doc("SGD with Nesterov's momentum on many weights: inputs are (weight, grad, mom) for each."), false, nesterov_step);
}

struct SignSGDAttrs {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(SignSGDAttrs).DECAY_AND_GRADIENT(SignSGDAttrs);
  }
};
struct SignumAttrs {
  double lr = 0, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1, wd_lh = 0;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(SignumAttrs)
        .MOMENTUM(SignumAttrs)
        .DECAY_AND_GRADIENT(SignumAttrs)
        .field("wd_lh", &SignumAttrs::wd_lh, "weight decay outside of the momentum");
  }
};
static auto sign_step = [](const SignSGDAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd)](T w, T g) { return (1 - lr * wd) * w - lr * sign_of(g); };
};
GLUINO_OP(signsgd_update, SignSGDAttrs) {
  define_update<0>(op.doc("SGD with the sign of the gradient only."), {}, false, sign_step)
      .sample({{3, 4}, {3, 4}}, {.lr = 0.1, .wd = 0.01});
}
GLUINO_OP(_multi_signsgd_update, Many<SignSGDAttrs>) {
  define_updates<0>(op.doc("SGD with the sign of the gradient only on many weights: inputs are (weight, grad) for each."), false,
                    sign_step);
}
static auto sign_momentum_step = [](const SignumAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), outer = static_cast<T>(a.wd_lh), scale = static_cast<T>(a.rescale_grad),
          keep = static_cast<T>(a.momentum), clip = Clip<T>(a.clip_gradient)](T w, T g, T& mom) {
    mom = keep * mom - (1 - keep) * (clip(scale * g) + wd * w);
    return (1 - lr * outer) * w + lr * sign_of(mom);
  };
};
GLUINO_OP(signum_update, SignumAttrs) {
  define_update<1>(op.doc("SGD with the sign of the momentum only."), Names1{"mom"}, false, sign_momentum_step)
      .sample({{3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .momentum = 0.9, .wd = 0.01});
}
GLUINO_OP(_multi_signum_update, Many<SignumAttrs>) {
  define_updates<1>(op.doc("SGD with the sign of the momentum only on many weights: inputs are (weight, grad, mom) for each."), false,
                    sign_momentum_step);
}

// ---- Adam
#define AVERAGES(A)                                                  \
  field("beta1", &A::beta1, "how much of the mean is kept")          \
      .field("beta2", &A::beta2, "how much of the variance is kept") \
      .field("epsilon", &A::epsilon, "added to the standard deviation")
struct AdamAttrs {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1;
  bool lazy_update = true;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(AdamAttrs).AVERAGES(AdamAttrs).DECAY_AND_GRADIENT(AdamAttrs).LAZY_UPDATE(AdamAttrs);
  }
};
static auto adam_step = [](const AdamAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), b1 = static_cast<T>(a.beta1),
          b2 = static_cast<T>(a.beta2), eps = static_cast<T>(a.epsilon), clip = Clip<T>(a.clip_gradient)](T w, T g, T& mean, T& var) {
    const T d = clip(scale * g + wd * w);
    mean = b1 * mean + (1 - b1) * d;
    var = b2 * var + (1 - b2) * d * d;
    return w - lr * mean / (std::sqrt(var) + eps);
  };
};
GLUINO_OP(adam_update, AdamAttrs) {
  define_update<2>(op.doc("Adam; the caller corrects the bias in lr."), Names2{"mean", "var"}, false, adam_step)
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.lr = 0.1, .wd = 0.01});
}
GLUINO_OP(_multi_adam_update, Many<AdamAttrs>) {
  define_updates<2>(op.doc("Adam on many weights: inputs are (weight, grad, mean, var) for each."), false, adam_step);
}

struct AdamWAttrs {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, eta = 0, clip_gradient = -1;
  static void fields(AttrFields<AdamWAttrs>& f) {
    RATE(AdamWAttrs)
        .AVERAGES(AdamWAttrs)
        .field("wd", &AdamWAttrs::wd, "weight decay")
        .required("eta", &AdamWAttrs::eta, "factor of the whole step")
        .field("clip_gradient", &AdamWAttrs::clip_gradient, "bound of the gradient; negative for none");
  }
};
template <class T>
static auto adamw_step(const AdamWAttrs& a, T scale) {
  return
      [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), eta = static_cast<T>(a.eta), b1 = static_cast<T>(a.beta1),
       b2 = static_cast<T>(a.beta2), eps = static_cast<T>(a.epsilon), clip = Clip<T>(a.clip_gradient), scale](T w, T g, T& mean, T& var) {
        const T d = clip(scale * g);
        mean = b1 * mean + (1 - b1) * d;
        var = b2 * var + (1 - b2) * d * d;
        return w - eta * (lr * mean / (std::sqrt(var) + eps) + wd * w);
      };
}
// The factor of the gradient is a tensor; when it is 0 or not finite (an overflow was seen) the step is left out.
static void adamw_kernel(const AdamWAttrs& a, KernelContext& k) {
  const double scale = k.in(k.num_inputs() - 1).item<double>();
  const bool has_master = k.num_inputs() == 6, skip = !std::isfinite(scale) || scale == 0;
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    Tensor mean = k.state(2), var = k.state(3), master = has_master ? k.state(4) : k.out();
    T *out = k.out_data<T>(), *target = master.mutable_data<T>();
    const T* weight = has_master ? target : k.data<T>(0);
    const auto rule = adamw_step<T>(a, static_cast<T>(scale));
    using P = Piece<T, 2, std::remove_const_t<decltype(rule)>>;
    if (!skip)
      update_pieces(std::vector<P>{{k.out().size(), weight, k.data<T>(1), {mean.mutable_data<T>(), var.mutable_data<T>()}, target, rule}});
    const T* result = skip ? weight : target;
    if (result != out) std::copy_n(result, k.out().size(), out);
  });
}
static OpBuilder<AdamWAttrs>& define_adamw(OpBuilder<AdamWAttrs>& op, bool has_master) {
  op.input("weight").input("grad").state("mean").state("var");
  if (has_master) op.state("weight32");
  return op.input("rescale_grad")
      .own_dtype()
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .kernel(adamw_kernel)
      .shape([](const AdamWAttrs&, std::span<const Shape> in) { return in[0]; });
}
GLUINO_OP(_adamw_update, AdamWAttrs) {
  define_adamw(op.doc("Adam with decoupled weight decay.").alias("_contrib_adamw_update"), false)
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1), {1}}, {.lr = 0.1, .eta = 1});
}
GLUINO_OP(_multi_adamw_step, Many<AdamAttrs>) {
  define_updates<2>(op.doc("Adam with decoupled weight decay on many weights: inputs are (weight, grad, mean, var) for each."), false,
                    [](const AdamAttrs& a, auto zero) {
                      using T = decltype(zero);
                      const AdamWAttrs whole{1,    a.beta1, a.beta2,        a.epsilon,
                                             a.wd, a.lr,    a.clip_gradient};  // lr is a factor of the decay too
                      return adamw_step<T>(whole, static_cast<T>(a.rescale_grad));
                    });
}
GLUINO_OP(_mp_adamw_update, AdamWAttrs) {
  define_adamw(op.doc("Adam with decoupled weight decay on a float32 copy of the weight.").alias("_contrib_mp_adamw_update"), true)
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1), {3, 4}, {1}}, {.lr = 0.1, .eta = 1});
}

// ---- RMSProp, AdaGrad
#define EPSILON_UNDER_ROOT(A) field("epsilon", &A::epsilon, "added under the square root")
#define KEPT_AVERAGES(A) field("gamma1", &A::gamma1, "how much of the averages is kept")
#define CLIP_WEIGHTS(A) field("clip_weights", &A::clip_weights, "bound of the weights; negative for none")
struct RMSPropAttrs {
  double lr = 0, gamma1 = 0.95, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1, clip_weights = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(RMSPropAttrs)
        .KEPT_AVERAGES(RMSPropAttrs)
        .EPSILON_UNDER_ROOT(RMSPropAttrs)
        .DECAY_AND_GRADIENT(RMSPropAttrs)
        .CLIP_WEIGHTS(RMSPropAttrs);
  }
};
struct CentredRMSPropAttrs {
  double lr = 0, gamma1 = 0.95, gamma2 = 0.9, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1, clip_weights = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(CentredRMSPropAttrs)
        .KEPT_AVERAGES(CentredRMSPropAttrs)
        .field("gamma2", &CentredRMSPropAttrs::gamma2, "how much of the last step is kept")
        .EPSILON_UNDER_ROOT(CentredRMSPropAttrs)
        .DECAY_AND_GRADIENT(CentredRMSPropAttrs)
        .CLIP_WEIGHTS(CentredRMSPropAttrs);
  }
};
static auto rmsprop_step = [](const RMSPropAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), keep = static_cast<T>(a.gamma1),
          eps = static_cast<T>(a.epsilon), clip = Clip<T>(a.clip_gradient), bound = Clip<T>(a.clip_weights)](T w, T g, T& n) {
    const T d = clip(scale * g + wd * w);
    n = (1 - keep) * d * d + keep * n;
    return bound(w - lr * (d / std::sqrt(n + eps)));
  };
};
GLUINO_OP(rmsprop_update, RMSPropAttrs) {
  define_update<1>(op.doc("Divides the gradient by a moving average of its size."), Names1{"n"}, false, rmsprop_step)
      .sample({{3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.lr = 0.1, .wd = 0.01});
}
GLUINO_OP(_multi_rmsprop_update, Many<RMSPropAttrs>) {
  define_updates<1>(op.doc("RMSProp on many weights: inputs are (weight, grad, n) for each."), false, rmsprop_step);
}
static auto centred_rmsprop_step = [](const CentredRMSPropAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), keep = static_cast<T>(a.gamma1),
          inertia = static_cast<T>(a.gamma2), eps = static_cast<T>(a.epsilon), clip = Clip<T>(a.clip_gradient),
          bound = Clip<T>(a.clip_weights)](T w, T g, T& n, T& average, T& delta) {
    const T d = clip(scale * g + wd * w);
    n = (1 - keep) * d * d + keep * n;
    average = (1 - keep) * d + keep * average;
    delta = inertia * delta - lr * (d / std::sqrt(n - average * average + eps));
    return bound(w + delta);
  };
};
GLUINO_OP(rmspropalex_update, CentredRMSPropAttrs) {
  define_update<3>(op.doc("RMSProp with a centred average and momentum."), Names3{"n", "g", "delta"}, false, centred_rmsprop_step)
      .sample({{3, 4}, {3, 4}, uniform_sample({3, 4}, 4.5, 5), {3, 4}, {3, 4}}, {.lr = 0.1});
}
GLUINO_OP(_multi_rmspropalex_update, Many<CentredRMSPropAttrs>) {
  define_updates<3>(op.doc("RMSProp with a centred average and momentum on many weights: inputs are (weight, grad, n, g, delta) for each."),
                    false, centred_rmsprop_step);
}
struct AdaGradAttrs {
  double lr = 0, epsilon = 1e-7, wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(AdaGradAttrs).EPSILON_UNDER_ROOT(AdaGradAttrs).DECAY_AND_GRADIENT(AdaGradAttrs);
  }
};
static auto adagrad_step = [](const AdaGradAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), eps = static_cast<T>(a.epsilon),
          clip = Clip<T>(a.clip_gradient)](T w, T g, T& history) {
    const T d = clip(scale * g);
    history += d * d;
    return w - lr * (d / std::sqrt(history + eps) + wd * w);
  };
};
GLUINO_OP(_sparse_adagrad_update, AdaGradAttrs) {
  define_update<1>(op.doc("Divides the gradient by the root of the sum of its squares so far."), Names1{"history"}, false, adagrad_step)
      .sample({{3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.lr = 0.1});
}
GLUINO_OP(_multi_adagrad_update, Many<AdaGradAttrs>) {
  define_updates<1>(op.doc("AdaGrad on many weights: inputs are (weight, grad, history) for each."), false, adagrad_step);
}

// ---- follow the leader
struct FtrlAttrs {
  double lr = 0, lamda1 = 0.01, beta = 1, wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(FtrlAttrs)
        .field("lamda1", &FtrlAttrs::lamda1, "weight of the absolute values")
        .field("beta", &FtrlAttrs::beta, "added to the root of the sum of squares")
        .DECAY_AND_GRADIENT(FtrlAttrs);
  }
};
static auto ftrl_step = [](const FtrlAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), lamda = static_cast<T>(a.lamda1),
          beta = static_cast<T>(a.beta), clip = Clip<T>(a.clip_gradient)](T w, T g, T& z, T& n) {
    const T d = clip(scale * g), before = std::sqrt(n);
    n += d * d;
    z += d - (std::sqrt(n) - before) * w / lr;
    const T step = (sign_of(z) * lamda - z) / ((beta + std::sqrt(n)) / lr + wd);
    return std::abs(z) > lamda ? step : T(0);
  };
};
GLUINO_OP(ftrl_update, FtrlAttrs) {
  define_update<2>(op.doc("Follow the regularized leader."), Names2{"z", "n"}, false, ftrl_step)
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.lr = 0.1});
}
GLUINO_OP(_multi_ftrl_update, Many<FtrlAttrs>) {
  define_updates<2>(op.doc("Follow the regularized leader on many weights: inputs are (weight, grad, z, n) for each."), false, ftrl_step);
}
struct FtmlAttrs {
  double lr = 0, beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;
  int64_t t = 1;
  double wd = 0, rescale_grad = 1, clip_grad = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(FtmlAttrs)
        .AVERAGES(FtmlAttrs)
        .required("t", &FtmlAttrs::t, "number of this step, from 1 on")
        .field("wd", &FtmlAttrs::wd, "weight decay")
        .field("rescale_grad", &FtmlAttrs::rescale_grad, "factor of the gradient")
        .field("clip_grad", &FtmlAttrs::clip_grad, "bound of the gradient; negative for none");
  }
};
static auto ftml_step = [](const FtmlAttrs& a, auto zero) {
  using T = decltype(zero);
  const double t = static_cast<double>(a.t);
  return [wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), b1 = static_cast<T>(a.beta1), b2 = static_cast<T>(a.beta2),
          eps = static_cast<T>(a.epsilon), rate = static_cast<T>((1 - std::pow(a.beta1, t)) / a.lr),
          correction = static_cast<T>(1 - std::pow(a.beta2, t)), clip = Clip<T>(a.clip_grad)](T w, T g, T& d, T& v, T& z) {
    const T slope = clip(scale * g + wd * w);
    v = b2 * v + (1 - b2) * slope * slope;
    const T next = rate * (std::sqrt(v / correction) + eps);
    z = b1 * z + (1 - b1) * slope - (next - b1 * d) * w;
    d = next;
    return -z / d;
  };
};
GLUINO_OP(ftml_update, FtmlAttrs) {
  define_update<3>(op.doc("Follow the moving leader."), Names3{"d", "v", "z"}, false, ftml_step)
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1), {3, 4}}, {.lr = 0.1, .t = 2});
}
GLUINO_OP(_multi_ftml_update, Many<FtmlAttrs>) {
  define_updates<3>(op.doc("Follow the moving leader on many weights: inputs are (weight, grad, d, v, z) for each."), false, ftml_step);
}

}  // namespace
}  // namespace gluino::ops
