// Optimizer steps that divide by averages of the gradient: every element of a weight and of its states is updated in one pass.
#include <cmath>

#include "ops/optimizer/optimizer_steps.h"

namespace gluino::ops {
namespace {

// ---- Adam
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
      .shape([](const AdamWAttrs&, std::span<const Shape> in) {
        for (size_t i = 1; i + 1 < in.size(); ++i)
          if (!(in[i] == in[0])) raise<ShapeError>("the inputs of a weight of shape {} have its shape, but one has {}", in[0], in[i]);
        check_one_element("rescale_grad", in.back());
        return in[0];
      });
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

struct MultiAdamWAttrs : AdamWAttrs {
  Floats lrs, wds, etas;
  int64_t num_weights = 1;
  int64_t count() const { return num_weights; }
  AdamWAttrs of(size_t weight) const {
    AdamWAttrs one = *this;
    one.lr = lrs[weight], one.wd = wds[weight], one.eta = etas[weight];
    return one;
  }
  void check_lists() const {
    check_list("lrs", lrs, num_weights);
    check_list("wds", wds, num_weights);
    check_list("etas", etas, num_weights);
  }
  static void fields(AttrFields<MultiAdamWAttrs>& f) {
    const auto common = [](double AdamWAttrs::*member) { return static_cast<double MultiAdamWAttrs::*>(member); };
    f.required("lrs", &MultiAdamWAttrs::lrs, "learning rate of each weight")
        .field("beta1", common(&AdamWAttrs::beta1), "how much of the mean is kept")
        .field("beta2", common(&AdamWAttrs::beta2), "how much of the variance is kept")
        .field("epsilon", common(&AdamWAttrs::epsilon), "added to the standard deviation")
        .required("wds", &MultiAdamWAttrs::wds, "weight decay of each weight")
        .required("etas", &MultiAdamWAttrs::etas, "factor of the whole step of each weight")
        .field("clip_gradient", common(&AdamWAttrs::clip_gradient), "bound of the gradients; negative for none")
        .field("num_weights", &MultiAdamWAttrs::num_weights, "number of weights");
  }
  static MultiAdamWAttrs sample() {
    MultiAdamWAttrs a;
    a.lrs = {0.1, 0.2}, a.wds = {0, 0.1}, a.etas = {1, 0.5};
    a.num_weights = 2;
    return a;
  }
  static std::vector<SampleInput> shared_inputs() { return {uniform_sample({1}, 0.5, 1)}; }
};
static OpBuilder<MultiAdamWAttrs>& define_multi_adamw(OpBuilder<MultiAdamWAttrs>& op, bool has_master) {
  return define_updates_by<2>(op, has_master, [](const MultiAdamWAttrs& a, Groups<2>& groups, std::span<const Tensor> shared) {
    const double scale = shared[0].item<double>();
    const bool skip = !std::isfinite(scale) || scale == 0;
    for (const Group<2>& g : groups)
      if (skip && !g.out.is_same(g.weight)) std::memcpy(bytes_of(g.out), bytes_of(g.weight), static_cast<size_t>(g.weight.nbytes()));
    if (skip) return;
    sweep(groups, [&](size_t w, auto zero) { return adamw_step(a.of(w), static_cast<decltype(zero)>(scale)); });
  });
}
GLUINO_OP(_multi_adamw_update, MultiAdamWAttrs) {
  define_multi_adamw(op.doc("AdamW on many weights: inputs are (weight, grad, mean, var) for each, then the factor of the gradients.")
                         .alias("_contrib_multi_adamw_update"),
                     false);
}
GLUINO_OP(_multi_mp_adamw_update, MultiAdamWAttrs) {
  define_multi_adamw(
      op.doc("AdamW on many weights: inputs are (weight, grad, mean, var, weight32) for each, then the factor of the gradients.")
          .alias("_contrib_multi_mp_adamw_update"),
      true);
}

// ---- Adam's relatives
struct AdamaxAttrs {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(AdamaxAttrs).AVERAGES(AdamaxAttrs).DECAY_AND_GRADIENT(AdamaxAttrs);
  }
};
GLUINO_OP(_multi_adamax_update, Many<AdamaxAttrs>) {
  op.doc(
      "Adam with the largest gradient instead of the variance on many weights; the caller corrects the bias in lrs. Inputs are (weight, "
      "grad, mean, largest) for each.");
  define_updates<2>(op, false, [](const AdamaxAttrs& a, auto zero) {
    using T = decltype(zero);
    return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), b1 = static_cast<T>(a.beta1),
            share = static_cast<T>(1 - a.beta1), b2 = static_cast<T>(a.beta2), eps = static_cast<T>(a.epsilon),
            clip = Clip<T>(a.clip_gradient)](T w, T g, T& mean, T& largest) {
      const T d = clip(scale * g + wd * w), faded = b2 * largest, size = std::abs(d);
      mean = b1 * mean + share * d;
      largest = faded > size ? faded : size;
      return w - lr * mean / (largest + eps);
    };
  });
}

struct NadamAttrs {
  double lr = 0, gradient_lr = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  int64_t t = 1;
  double wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(NadamAttrs).AVERAGES(NadamAttrs).STEP_NUMBER(NadamAttrs).DECAY_AND_GRADIENT(NadamAttrs);
  }
};
GLUINO_OP(_multi_nadam_update, Many<NadamAttrs>) {
  op.doc(
      "Adam with Nesterov's momentum on many weights: lrs are the rates of the mean, gradient_lrs those of the gradient, which the caller "
      "takes from the schedule of the momentum. Inputs are (weight, grad, mean, var) for each.");
  define_updates<2>(op, false, [](const NadamAttrs& a, auto zero) {
    using T = decltype(zero);
    return [lr = static_cast<T>(a.lr), gradient_lr = static_cast<T>(a.gradient_lr), wd = static_cast<T>(a.wd),
            scale = static_cast<T>(a.rescale_grad), b1 = static_cast<T>(a.beta1), share1 = static_cast<T>(1 - a.beta1),
            b2 = static_cast<T>(a.beta2), share2 = static_cast<T>(1 - a.beta2), eps = static_cast<T>(a.epsilon),
            correction = static_cast<T>(1 - std::pow(a.beta2, static_cast<double>(a.t))),
            clip = Clip<T>(a.clip_gradient)](T w, T g, T& mean, T& var) {
      const T d = clip(scale * g + wd * w);
      mean = b1 * mean + share1 * d;
      var = b2 * var + share2 * d * d;
      return w - (gradient_lr * d + lr * mean) / (std::sqrt(var / correction) + eps);
    };
  });
}

// ---- RMSProp, AdaGrad, AdaDelta
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

struct AdaDeltaAttrs {
  double lr = 0, rho = 0.9, epsilon = 1e-5, wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(AdaDeltaAttrs)
        .field("rho", &AdaDeltaAttrs::rho, "how much of the averages is kept")
        .field("epsilon", &AdaDeltaAttrs::epsilon, "added under the square roots")
        .DECAY_AND_GRADIENT(AdaDeltaAttrs);
  }
};
GLUINO_OP(_multi_adadelta_update, Many<AdaDeltaAttrs>) {
  op.doc(
      "AdaDelta on many weights, whose steps are as large as the steps before: lrs have no effect. Inputs are (weight, grad, squares of "
      "gradients, squares of steps) for each.");
  define_updates<2>(op, false, [](const AdaDeltaAttrs& a, auto zero) {
    using T = decltype(zero);
    return
        [wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), keep = static_cast<T>(a.rho), share = static_cast<T>(1 - a.rho),
         eps = static_cast<T>(a.epsilon), clip = Clip<T>(a.clip_gradient)](T w, T g, T& gradients, T& steps) {
          const T d = clip(scale * g);
          gradients = keep * gradients + share * d * d;
          const T step = std::sqrt(steps + eps) / std::sqrt(gradients + eps) * d;
          steps = keep * steps + share * step * step;
          return w - (step + wd * w);
        };
  });
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
        .STEP_NUMBER(FtmlAttrs)
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
