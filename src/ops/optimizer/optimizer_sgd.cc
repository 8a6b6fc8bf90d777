// Optimizer steps along the gradient: SGD, its momenta, signs, rates by norms, delays, noise.
#include <cmath>

#include "ops/optimizer/optimizer_steps.h"
#include "ops/random/distributions.h"

namespace gluino::ops {
namespace {

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
    // MXNet writes the weight before the momentum, so the decay in the latter is that of the new weight.
    const T d = clip(scale * g), kept = keep * mom, next = w + (keep * kept - (1 + keep) * lr * (d + wd * w));
    mom = kept - lr * (d + wd * next);
    return next;
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
GLUINO_OP(preloaded_multi_sgd_update, Preloaded<SGDAttrs>) {
  define_updates<0>(op.doc("SGD on many weights: inputs are (weight, grad) for each, then the rates and the decays."), false, sgd_step);
}
GLUINO_OP(preloaded_multi_sgd_mom_update, Preloaded<MomentumAttrs>) {
  define_updates<1>(op.doc("SGD with momentum on many weights: inputs are (weight, grad, mom) for each, then the rates and the decays."),
                    false, sgd_momentum_step);
}
GLUINO_OP(preloaded_multi_mp_sgd_update, Preloaded<SGDAttrs>) {
  define_updates<0>(op.doc("SGD on many weights: inputs are (weight, grad, weight32) for each, then the rates and the decays."), true,
                    sgd_step);
}
GLUINO_OP(preloaded_multi_mp_sgd_mom_update, Preloaded<MomentumAttrs>) {
  define_updates<1>(
      op.doc("SGD with momentum on many weights: inputs are (weight, grad, mom, weight32) for each, then the rates and the decays."), true,
      sgd_momentum_step);
}
GLUINO_OP(_multi_nag_mom_update, Many<NesterovAttrs>) {
  define_updates<1>(op.doc("SGD with Nesterov's momentum on many weights: inputs are (weight, grad, mom) for each."), false, nesterov_step);
}

// What a step takes that has no attributes of its own.
struct PlainAttrs {
  double lr = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(PlainAttrs).DECAY_AND_GRADIENT(PlainAttrs);
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
static auto sign_step = [](const PlainAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd)](T w, T g) { return (1 - lr * wd) * w - lr * sign_of(g); };
};
GLUINO_OP(signsgd_update, PlainAttrs) {
  define_update<0>(op.doc("SGD with the sign of the gradient only."), {}, false, sign_step)
      .sample({{3, 4}, {3, 4}}, {.lr = 0.1, .wd = 0.01});
}
GLUINO_OP(_multi_signsgd_update, Many<PlainAttrs>) {
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

// ---- SGD with rates by the ratio of norms (You et al., "Large batch training of convolutional networks")
template <class A>
struct Lars : A {
  double eta = 0.001, eps = 0;
  template <class Fields>
  static void fields(Fields& f) {
    A::fields(f);
    f.field("eta", &Lars::eta, "trust in the ratio of the norms").field("eps", &Lars::eps, "added to the norm of the gradient");
  }
};
template <size_t States, class A, class Make>
static void define_lars(OpBuilder<Many<Lars<A>>>& op, Make make) {
  define_updates_by<States>(op, false, [make](const Many<Lars<A>>& a, Groups<States>& groups, std::span<const Tensor>) {
    std::vector<double> ratios;
    for (size_t w = 0; w < groups.size(); ++w) {
      const double weight = norm_of(groups[w].weight), gradient = norm_of(groups[w].grad) * a.rescale_grad;
      ratios.push_back(weight > 0 && gradient > 0 ? a.eta * weight / (gradient + a.wds[w] * weight + a.eps) : 1);
    }
    sweep(groups, [&](size_t w, auto zero) {
      A one = a.of(w);
      one.lr *= ratios[w];
      return make(one, zero);
    });
  });
}
GLUINO_OP(_multi_lars_update, Many<Lars<SGDAttrs>>) {
  define_lars<0>(
      op.doc("SGD on many weights, at rates by the ratio of the norms of weight and gradient: inputs are (weight, grad) for each."),
      sgd_step);
}
GLUINO_OP(_multi_lars_mom_update, Many<Lars<MomentumAttrs>>) {
  define_lars<1>(op.doc("SGD with momentum on many weights, at rates by the ratio of the norms of weight and gradient: inputs are (weight, "
                        "grad, mom) for each."),
                 sgd_momentum_step);
}

// ---- SGD that makes up for delays: a gradient was computed for the weight before the last step
struct DelayAttrs {
  double lr = 0, momentum = 0, lamda = 0.04, wd = 0, rescale_grad = 1, clip_gradient = -1;
  template <class Fields>
  static void fields(Fields& f) {
    RATE(DelayAttrs)
        .MOMENTUM(DelayAttrs)
        .field("lamda", &DelayAttrs::lamda, "how much of the delay is made up for")
        .DECAY_AND_GRADIENT(DelayAttrs);
  }
};
static auto delay_momentum_step = [](const DelayAttrs& a, auto zero) {
  using T = decltype(zero);
  return [lr = static_cast<T>(a.lr), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad), keep = static_cast<T>(a.momentum),
          lamda = static_cast<T>(a.lamda), clip = Clip<T>(a.clip_gradient)](T w, T g, T& mom, T& previous) {
    const T d = clip(scale * g);
    mom = keep * mom - lr * (d + wd * w + lamda * d * d * (w - previous));
    previous = w;
    return w + mom;
  };
};
static auto delay_step = [](const DelayAttrs& a, auto zero) {
  return [step = delay_momentum_step(a, zero)](auto w, auto g, auto& previous) {
    auto none = decltype(w)(0);
    return step(w, g, none, previous);
  };
};
GLUINO_OP(_multi_dcasgd_update, Many<DelayAttrs>) {
  define_updates<1>(op.doc("SGD that makes up for delays on many weights: inputs are (weight, grad, previous weight) for each."), false,
                    delay_step);
}
GLUINO_OP(_multi_dcasgd_mom_update, Many<DelayAttrs>) {
  define_updates<2>(
      op.doc("SGD with momentum that makes up for delays on many weights: inputs are (weight, grad, mom, previous weight) for each."),
      false, delay_momentum_step);
}

// ---- Langevin dynamics: half a step along the gradient, and noise
static auto langevin_step = [](const PlainAttrs& a, auto zero) {
  using T = decltype(zero);
  return [half = static_cast<T>(a.lr / 2), wd = static_cast<T>(a.wd), scale = static_cast<T>(a.rescale_grad),
          clip = Clip<T>(a.clip_gradient)](T w, T g, T noise) { return w + (noise - half * (clip(scale * g) + wd * w)); };
};
GLUINO_OP(_multi_sgld_update, Many<PlainAttrs>) {
  op.doc("Stochastic gradient Langevin dynamics on many weights: inputs are (weight, grad) for each.").random();
  define_updates_by<0>(op, false, [](const Many<PlainAttrs>& a, Groups<0>& groups, std::span<const Tensor>) {
    Groups<1> noisy;  // every weight has a stream of its own, so that it sees the same noise alone and among others
    for (size_t w = 0; w < groups.size(); ++w) {
      const Tensor& weight = groups[w].weight;
      Tensor noise = make_tensor(weight.shape(), weight.dtype(), weight.device());
      fill_normal(noise, 0, std::sqrt(a.lrs[w]));
      noisy.push_back({weight, groups[w].grad, groups[w].out, {noise}});
    }
    sweep(noisy, [&](size_t w, auto zero) { return langevin_step(a.of(w), zero); });
  });
}

}  // namespace
}  // namespace gluino::ops
