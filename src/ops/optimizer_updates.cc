// Optimizer steps: every element of a weight and of its states is updated in one pass.
#include <array>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

constexpr const char* kNoGradient = "an optimizer's step is not differentiated";

// out[i] = f(weight[i], gradient[i], states[0][i], ...), where f also updates the states.
template <class T, class F, size_t... I>
static void update_elements(int64_t size, const T* weight, const T* gradient, const std::array<T*, sizeof...(I)>& states, T* out,
                            const F& f, std::index_sequence<I...>) {
  parallel_for(size, kParallelGrain, [&](int64_t begin, int64_t end) {
    const std::array<T*, sizeof...(I)> s = states;
    (void)s;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) out[i] = f(weight[i], gradient[i], s[I][i]...);
  });
}

// make(attrs, T()) gives the function of one element: (weight, gradient, states&...) -> new weight.
template <size_t States, class A, class Make>
static void run_update(const A& a, KernelContext& k, bool has_master, const Make& make) {
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    std::array<T*, States> states;
    int input = 2;
    for (T*& state : states) state = k.state(input++).template mutable_data<T>();
    const auto f = make(a, T());
    T* out = k.out_data<T>();
    if (!has_master)
      return update_elements<T>(k.out().size(), k.data<T>(0), k.data<T>(1), states, out, f, std::make_index_sequence<States>());
    Tensor master = k.state(k.num_inputs() - 1);
    T* weight = master.mutable_data<T>();
    update_elements<T>(k.out().size(), weight, k.data<T>(1), states, weight, f, std::make_index_sequence<States>());
    std::copy_n(weight, k.out().size(), out);
  });
}

// Inputs weight, grad and the named states; with a master copy the float32 weight comes last and is what is updated.
template <size_t States, class A, class Make>
static OpBuilder<A>& define_update(OpBuilder<A>& op, const std::array<const char*, States>& names, bool has_master, Make make) {
  op.input("weight").input("grad");
  for (const char* name : names) op.state(name);
  if (has_master) op.state("weight32");
  return op.same_shape()
      .kernel_dtypes(real_dtypes())
      .not_differentiable(kNoGradient)
      .inplace(0)
      .kernel([make, has_master](const A& a, KernelContext& k) { run_update<States>(a, k, has_master, make); });
}
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

#define COMMON_MEMBERS double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
#define COMMON_FIELDS(A)                                                 \
  f.required("lr", &A::lr, "learning rate")                              \
      .field("wd", &A::wd, "weight decay")                               \
      .field("rescale_grad", &A::rescale_grad, "factor of the gradient") \
      .field("clip_gradient", &A::clip_gradient, "bound of the gradient; negative for none")

// ---- SGD
struct SGDAttrs {
  COMMON_MEMBERS
  double momentum = 0;
  static void fields(AttrFields<SGDAttrs>& f) {
    COMMON_FIELDS(SGDAttrs).field("momentum", &SGDAttrs::momentum, "how much of the last step is kept");
  }
};
static auto sgd_step = [](const SGDAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), clip = Clip<T>(a.clip_gradient)](
             T w, T g) { return w - lr * (clip(scale * g) + wd * w); };
};
static auto sgd_momentum_step = [](const SGDAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), keep = static_cast<T>(a.momentum),
          clip = Clip<T>(a.clip_gradient)](T w, T g, T& mom) {
    mom = keep * mom - lr * (clip(scale * g) + wd * w);
    return w + mom;
  };
};
static auto nesterov_step = [](const SGDAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), keep = static_cast<T>(a.momentum),
          clip = Clip<T>(a.clip_gradient)](T w, T g, T& mom) {
    const T d = clip(scale * g) + wd * w;
    mom = keep * mom - lr * d;
    return w + (keep * mom - lr * d);
  };
};
GLUINO_OP(sgd_update, SGDAttrs) {
  define_update<0>(op.doc("weight - lr * (grad + wd * weight).").ignores({"lazy_update"}), {}, false, sgd_step)
      .sample({{3, 4}, {3, 4}}, {.lr = 0.1, .wd = 0.01});
}
GLUINO_OP(sgd_mom_update, SGDAttrs) {
  define_update<1>(op.doc("SGD with momentum.").ignores({"lazy_update"}), Names1{"mom"}, false, sgd_momentum_step)
      .sample({{3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .wd = 0.01, .momentum = 0.9});
}
GLUINO_OP(nag_mom_update, SGDAttrs) {
  define_update<1>(op.doc("SGD with Nesterov's momentum."), Names1{"mom"}, false, nesterov_step)
      .sample({{3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .momentum = 0.9});
}
GLUINO_OP(mp_sgd_update, SGDAttrs) {
  define_update<0>(op.doc("SGD on a float32 copy of the weight.").ignores({"lazy_update"}), {}, true, sgd_step)
      .sample({{3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1});
}
GLUINO_OP(mp_sgd_mom_update, SGDAttrs) {
  define_update<1>(op.doc("SGD with momentum on a float32 copy of the weight.").ignores({"lazy_update"}), Names1{"mom"}, true,
                   sgd_momentum_step)
      .sample({{3, 4}, {3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .momentum = 0.9});
}
GLUINO_OP(mp_nag_mom_update, SGDAttrs) {
  define_update<1>(op.doc("SGD with Nesterov's momentum on a float32 copy of the weight."), Names1{"mom"}, true, nesterov_step)
      .sample({{3, 4}, {3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .momentum = 0.9});
}

struct SignAttrs {
  COMMON_MEMBERS
  double momentum = 0, wd_lh = 0;
  static void fields(AttrFields<SignAttrs>& f) {
    COMMON_FIELDS(SignAttrs)
        .field("momentum", &SignAttrs::momentum, "how much of the last step is kept")
        .field("wd_lh", &SignAttrs::wd_lh, "weight decay outside of the momentum");
  }
};
GLUINO_OP(signsgd_update, SignAttrs) {
  define_update<0>(op.doc("SGD with the sign of the gradient only."), {}, false, [](const SignAttrs& a, auto zero) {
    using T = decltype(zero);
    return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd)](T w, T g) { return (1 - lr * wd) * w - lr * sign_of(g); };
  }).sample({{3, 4}, {3, 4}}, {.lr = 0.1, .wd = 0.01});
}
GLUINO_OP(signum_update, SignAttrs) {
  define_update<1>(op.doc("SGD with the sign of the momentum only."), Names1{"mom"}, false, [](const SignAttrs& a, auto zero) {
    using T = decltype(zero);
    return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), outer = static_cast<T>(a.wd_lh), scale = static_cast<T>(a.rescale_grad),
            keep = static_cast<T>(a.momentum), clip = Clip<T>(a.clip_gradient)](T w, T g, T& mom) {
      mom = keep * mom - (1 - keep) * (clip(scale * g) + wd * w);
      return (1 - lr * outer) * w + lr * sign_of(mom);
    };
  }).sample({{3, 4}, {3, 4}, {3, 4}}, {.lr = 0.1, .wd = 0.01, .momentum = 0.9});
}

// ---- Adam
struct AdamAttrs {
  COMMON_MEMBERS
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  static void fields(AttrFields<AdamAttrs>& f) {
    COMMON_FIELDS(AdamAttrs)
        .field("beta1", &AdamAttrs::beta1, "how much of the mean is kept")
        .field("beta2", &AdamAttrs::beta2, "how much of the variance is kept")
        .field("epsilon", &AdamAttrs::epsilon, "added to the standard deviation");
  }
};
GLUINO_OP(adam_update, AdamAttrs) {
  define_update<2>(op.doc("Adam; the caller corrects the bias in lr.").ignores({"lazy_update"}), Names2{"mean", "var"}, false,
                   [](const AdamAttrs& a, auto zero) {
                     using T = decltype(zero);
                     return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad),
                             b1 = static_cast<T>(a.beta1), b2 = static_cast<T>(a.beta2), eps = static_cast<T>(a.epsilon),
                             clip = Clip<T>(a.clip_gradient)](T w, T g, T& mean, T& var) {
                       const T d = clip(scale * g + wd * w);
                       mean = b1 * mean + (1 - b1) * d;
                       var = b2 * var + (1 - b2) * d * d;
                       return w - lr * mean / (std::sqrt(var) + eps);
                     };
                   })
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.lr = 0.1, .wd = 0.01});
}

struct AdamWAttrs {
  double lr = 0, eta = 0, wd = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, clip_gradient = -1;
  static void fields(AttrFields<AdamWAttrs>& f) {
    f.required("lr", &AdamWAttrs::lr, "learning rate")
        .required("eta", &AdamWAttrs::eta, "factor of the whole step")
        .field("wd", &AdamWAttrs::wd, "weight decay")
        .field("beta1", &AdamWAttrs::beta1, "how much of the mean is kept")
        .field("beta2", &AdamWAttrs::beta2, "how much of the variance is kept")
        .field("epsilon", &AdamWAttrs::epsilon, "added to the standard deviation")
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
    if (!skip)
      update_elements<T>(k.out().size(), weight, k.data<T>(1), std::array<T*, 2>{mean.mutable_data<T>(), var.mutable_data<T>()}, target,
                         adamw_step<T>(a, static_cast<T>(scale)), std::make_index_sequence<2>());
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
GLUINO_OP(_mp_adamw_update, AdamWAttrs) {
  define_adamw(op.doc("Adam with decoupled weight decay on a float32 copy of the weight.").alias("_contrib_mp_adamw_update"), true)
      .sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1), {3, 4}, {1}}, {.lr = 0.1, .eta = 1});
}

// ---- RMSProp, AdaGrad
struct RMSPropAttrs {
  COMMON_MEMBERS
  double gamma1 = 0.95, gamma2 = 0.9, epsilon = 1e-8, clip_weights = -1;
  static void fields(AttrFields<RMSPropAttrs>& f) {
    COMMON_FIELDS(RMSPropAttrs)
        .field("gamma1", &RMSPropAttrs::gamma1, "how much of the averages is kept")
        .field("gamma2", &RMSPropAttrs::gamma2, "how much of the last step is kept")
        .field("epsilon", &RMSPropAttrs::epsilon, "added under the square root")
        .field("clip_weights", &RMSPropAttrs::clip_weights, "bound of the weights; negative for none");
  }
};
GLUINO_OP(rmsprop_update, RMSPropAttrs) {
  define_update<1>(op.doc("Divides the gradient by a moving average of its size."), Names1{"n"}, false,
                   [](const RMSPropAttrs& a, auto zero) {
                     using T = decltype(zero);
                     return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad),
                             keep = static_cast<T>(a.gamma1), eps = static_cast<T>(a.epsilon), clip = Clip<T>(a.clip_gradient),
                             bound = Clip<T>(a.clip_weights)](T w, T g, T& n) {
                       const T d = clip(scale * g + wd * w);
                       n = (1 - keep) * d * d + keep * n;
                       return bound(w - lr * (d / std::sqrt(n + eps)));
                     };
                   })
      .sample({{3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.lr = 0.1, .wd = 0.01});
}
GLUINO_OP(rmspropalex_update, RMSPropAttrs) {
  define_update<3>(op.doc("RMSProp with a centred average and momentum."), Names3{"n", "g", "delta"}, false,
                   [](const RMSPropAttrs& a, auto zero) {
                     using T = decltype(zero);
                     return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad),
                             keep = static_cast<T>(a.gamma1), inertia = static_cast<T>(a.gamma2), eps = static_cast<T>(a.epsilon),
                             clip = Clip<T>(a.clip_gradient), bound = Clip<T>(a.clip_weights)](T w, T g, T& n, T& average, T& delta) {
                       const T d = clip(scale * g + wd * w);
                       n = (1 - keep) * d * d + keep * n;
                       average = (1 - keep) * d + keep * average;
                       delta = inertia * delta - lr * (d / std::sqrt(n - average * average + eps));
                       return bound(w + delta);
                     };
                   })
      .sample({{3, 4}, {3, 4}, uniform_sample({3, 4}, 4.5, 5), {3, 4}, {3, 4}}, {.lr = 0.1});
}
struct AdaGradAttrs {
  COMMON_MEMBERS
  double epsilon = 1e-7;
  static void fields(AttrFields<AdaGradAttrs>& f) {
    COMMON_FIELDS(AdaGradAttrs).field("epsilon", &AdaGradAttrs::epsilon, "added under the square root");
  }
};
GLUINO_OP(_sparse_adagrad_update, AdaGradAttrs) {
  define_update<1>(op.doc("Divides the gradient by the root of the sum of its squares so far."), Names1{"history"}, false,
                   [](const AdaGradAttrs& a, auto zero) {
                     using T = decltype(zero);
                     return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad),
                             eps = static_cast<T>(a.epsilon), clip = Clip<T>(a.clip_gradient)](T w, T g, T& history) {
                       const T d = clip(scale * g);
                       history += d * d;
                       return w - lr * (d / std::sqrt(history + eps) + wd * w);
                     };
                   })
      .sample({{3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.lr = 0.1});
}

// ---- follow the leader
struct FtrlAttrs {
  COMMON_MEMBERS
  double lamda1 = 0.01, beta = 1;
  static void fields(AttrFields<FtrlAttrs>& f) {
    COMMON_FIELDS(FtrlAttrs)
        .field("lamda1", &FtrlAttrs::lamda1, "weight of the absolute values")
        .field("beta", &FtrlAttrs::beta, "added to the root of the sum of squares");
  }
};
GLUINO_OP(ftrl_update, FtrlAttrs) {
  define_update<2>(op.doc("Follow the regularized leader."), Names2{"z", "n"}, false, [](const FtrlAttrs& a, auto zero) {
    using T = decltype(zero);
    return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), lamda = static_cast<T>(a.lamda1),
            beta = static_cast<T>(a.beta), clip = Clip<T>(a.clip_gradient)](T w, T g, T& z, T& n) {
      const T d = clip(scale * g), before = std::sqrt(n);
      n += d * d;
      z += d - (std::sqrt(n) - before) * w / lr;
      const T step = (sign_of(z) * lamda - z) / ((beta + std::sqrt(n)) / lr + wd);
      return std::abs(z) > lamda ? step : T(0);
    };
  }).sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1)}, {.lr = 0.1});
}
struct FtmlAttrs {
  double lr = 0, wd = 0, rescale_grad = 1, clip_grad = -1, beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;
  int64_t t = 1;
  static void fields(AttrFields<FtmlAttrs>& f) {
    f.required("lr", &FtmlAttrs::lr, "learning rate")
        .required("t", &FtmlAttrs::t, "number of this step, from 1 on")
        .field("wd", &FtmlAttrs::wd, "weight decay")
        .field("rescale_grad", &FtmlAttrs::rescale_grad, "factor of the gradient")
        .field("clip_grad", &FtmlAttrs::clip_grad, "bound of the gradient; negative for none")
        .field("beta1", &FtmlAttrs::beta1, "how much of the mean is kept")
        .field("beta2", &FtmlAttrs::beta2, "how much of the variance is kept")
        .field("epsilon", &FtmlAttrs::epsilon, "added to the standard deviation");
  }
};
GLUINO_OP(ftml_update, FtmlAttrs) {
  define_update<3>(op.doc("Follow the moving leader."), Names3{"d", "v", "z"}, false, [](const FtmlAttrs& a, auto zero) {
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
  }).sample({{3, 4}, {3, 4}, {3, 4}, uniform_sample({3, 4}, 0.1, 1), {3, 4}}, {.lr = 0.1, .t = 2});
}

}  // namespace
}  // namespace gluino::ops
