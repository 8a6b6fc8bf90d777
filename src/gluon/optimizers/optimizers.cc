// The optimizers. Every step is an operator over many weights.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/format.h"
#include "gluon/optimizers/optimizer.h"

namespace gluino::optimizer {

Named<OptimizerPtr>& detail::registry() {
  static Named<OptimizerPtr> all("optimizer");
  return all;
}
std::vector<std::string> names() { return detail::registry().names(); }
OptimizerPtr create(const std::string& name, const NamedOptions& options) { return detail::registry().create(name, options); }
std::vector<Option> options_of(const std::string& name) { return detail::registry().options_of(name); }
void Optimizer::set_learning_rate(double lr) {
  if (scheduler_)
    throw UserError("set_learning_rate: a scheduler decides the learning rate; remove it with set_lr_scheduler(nullptr) first");
  learning_rate_ = lr;
}

// An option means the same in every optimizer that has it. Of one that is not listed (a factor, or a bound for which negative is none)
// it is only asked that it is a number.
using Ranges = std::map<std::string_view, std::pair<double, double>>;
static Ranges option_ranges() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Ranges ranges;
  for (const char* name :
       {"learning_rate", "wd", "wd_lh", "momentum", "epsilon", "eps", "beta", "lamda", "lamda1", "eta", "schedule_decay"})
    ranges[name] = {0, kInfinity};
  for (const char* name : {"rho", "gamma1", "gamma2"}) ranges[name] = {0, 1};
  // Means that start at 0 are divided by 1 - beta^t.
  for (const char* name : {"beta1", "beta2"}) ranges[name] = {0, std::nextafter(1.0, 0.0)};
  return ranges;
}

void detail::check_options(const std::string& optimizer, const std::vector<AttrField>& fields, const void* options) {
  static const Ranges ranges = option_ranges();
  for (const AttrField& f : fields) {
    if (f.type != AttrType<double>::name()) continue;
    const std::string text = f.print(options);
    const double value = AttrType<double>::parse(f.name, text);
    if (std::isnan(value)) raise<UserError>("optimizer {}: option '{}' is not a number", optimizer, f.name);
    const auto range = ranges.find(f.name);
    if (range == ranges.end()) continue;
    const auto [least, most] = range->second;
    if (value < least) raise<UserError>("optimizer {}: option '{}' must not be below {}, and is {}", optimizer, f.name, least, text);
    if (value > most)
      raise<UserError>("optimizer {}: option '{}' must {}, and is {}", optimizer, f.name, most < 1 ? "be below 1" : "not be above 1", text);
  }
}

void detail::Steps::add(std::string_view op, const Update& u, size_t states, double lr, StepAttrs common,
                        const std::vector<std::pair<std::string_view, double>>& more) {
  auto call = std::find_if(calls_.begin(), calls_.end(), [&](const Call& c) { return c.op == op && c.common == common; });
  if (call == calls_.end()) call = calls_.insert(call, {op, std::move(common), {}, {}, {}});
  call->inputs.insert(call->inputs.end(), {u.weight, u.grad});
  call->inputs.insert(call->inputs.end(), u.state.begin(), u.state.begin() + static_cast<ptrdiff_t>(states));
  call->outputs.push_back(u.weight);
  call->numbers["lrs"].push_back(lr);
  call->numbers["wds"].push_back(u.wd);
  for (const auto& [name, number] : more) call->numbers[name].push_back(number);
}
static std::atomic<detail::StepObserver> step_observer = nullptr;
void detail::set_step_observer(StepObserver observer) { step_observer = observer; }

void detail::Steps::run() {
  const StepObserver observer = step_observer.load(std::memory_order_relaxed);
  for (Call& call : calls_) {
    const int64_t begin = observer ? std::chrono::steady_clock::now().time_since_epoch().count() : 0;
    const OpDef& op = OpRegistry::global().get(call.op);
    for (auto& [name, list] : call.numbers) call.common.emplace_back(name, std::move(list));
    call.common.emplace_back("num_weights", static_cast<int64_t>(call.outputs.size()));
    apply_into(op, call.inputs, op.make_attrs(call.common), call.outputs);
    if (observer) observer(op, begin);
  }
}

namespace {

using detail::StepAttrs;
using detail::Steps;

template <class O>
StepAttrs common(const O& o, const Update& u) {
  return {{"rescale_grad", u.rescale_grad}, {"clip_gradient", o.clip_gradient}};
}
StepAttrs with(StepAttrs attrs, const StepAttrs& more) {
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

// A state that is one number of the optimizer's own: it is read and written here, not by an operator.
Tensor number_state(const Tensor& weight, double value) { return full({1}, value, {DType::float64, weight.device()}); }
double& number_in(Tensor& state) { return *state.mutable_data<double>(); }

template <int N, class O>
Tensors zero_states(const O&, const Tensor& weight) {
  Tensors states;
  for (int i = 0; i < N; ++i) states.push_back(zeros_like(weight));
  return states;
}
template <class O>
Tensors momentum_state(const O& o, const Tensor& weight) {
  return o.momentum != 0 ? Tensors{zeros_like(weight)} : Tensors{};
}
template <class O>
void no_fields(AttrFields<O>&) {}
template <class O>
void momentum_field(AttrFields<O>& f) {
  f.field("momentum", &O::momentum, "how much of the last step is kept");
}
template <class O>
void moment_fields(AttrFields<O>& f) {
  f.field("beta1", &O::beta1, "how much of the mean is kept")
      .field("beta2", &O::beta2, "how much of the variance is kept")
      .field("epsilon", &O::epsilon, "added to the standard deviation");
}

// A step with momentum where there is a state for it.
void sgd_step(std::string_view plain, std::string_view with_momentum, const Update& u, Steps& steps, const StepAttrs& attrs,
              double momentum) {
  if (u.state.empty()) return steps.add(plain, u, 0, u.lr, attrs);
  steps.add(with_momentum, u, 1, u.lr, with(attrs, {{"momentum", momentum}}));
}

template <class O>
StepAttrs moments(const O& o) {
  return {{"beta1", o.beta1}, {"beta2", o.beta2}, {"epsilon", o.epsilon}};
}

// The learning rate that makes up for means that start at 0.
double corrected(double lr, double beta1, double beta2, int64_t t) {
  const auto n = static_cast<double>(t);
  return lr * std::sqrt(1 - std::pow(beta2, n)) / (1 - std::pow(beta1, n));
}

}  // namespace

GLUINO_OPTIMIZER(sgd, SGDOptions, momentum_field, momentum_state, [](const SGDOptions& o, Update& u, Steps& steps) {
  sgd_step("multi_sgd_update", "multi_sgd_mom_update", u, steps, common(o, u), o.momentum);
})

GLUINO_OPTIMIZER(nag, NAGOptions, momentum_field, momentum_state, [](const NAGOptions& o, Update& u, Steps& steps) {
  sgd_step("multi_sgd_update", "_multi_nag_mom_update", u, steps, common(o, u), o.momentum);
})

GLUINO_OPTIMIZER(adam, AdamOptions, moment_fields, zero_states<2>, [](const AdamOptions& o, Update& u, Steps& steps) {
  steps.add("_multi_adam_update", u, 2, corrected(u.lr, o.beta1, o.beta2, u.t), with(common(o, u), moments(o)));
})

GLUINO_OPTIMIZER(
    adamw, AdamWOptions,
    [](AttrFields<AdamWOptions>& f) {
      moment_fields(f);
      f.field("correct_bias", &AdamWOptions::correct_bias, "make up for means that start at 0");
    },
    zero_states<2>,
    [](const AdamWOptions& o, Update& u, Steps& steps) {
      if (!std::isfinite(u.rescale_grad) || u.rescale_grad == 0) return;  // an overflow was seen
      steps.add("_multi_adamw_step", u, 2, o.correct_bias ? corrected(u.lr, o.beta1, o.beta2, u.t) : u.lr, with(common(o, u), moments(o)));
    })

GLUINO_OPTIMIZER(
    adagrad, AdaGradOptions, [](AttrFields<AdaGradOptions>& f) { f.field("eps", &AdaGradOptions::eps, "added under the square root"); },
    zero_states<1>,
    [](const AdaGradOptions& o, Update& u, Steps& steps) {
      steps.add("_multi_adagrad_update", u, 1, u.lr, with(common(o, u), {{"epsilon", o.eps}}));
    })

GLUINO_OPTIMIZER(
    adadelta, AdaDeltaOptions,
    [](AttrFields<AdaDeltaOptions>& f) {
      f.field("rho", &AdaDeltaOptions::rho, "how much of the averages is kept")
          .field("epsilon", &AdaDeltaOptions::epsilon, "added under the square roots");
    },
    zero_states<2>,
    [](const AdaDeltaOptions& o, Update& u, Steps& steps) {
      steps.add("_multi_adadelta_update", u, 2, u.lr, with(common(o, u), {{"rho", o.rho}, {"epsilon", o.epsilon}}));
    })

GLUINO_OPTIMIZER(
    rmsprop, RMSPropOptions,
    [](AttrFields<RMSPropOptions>& f) {
      f.field("gamma1", &RMSPropOptions::gamma1, "how much of the averages is kept")
          .field("gamma2", &RMSPropOptions::gamma2, "how much of the last step is kept, when centred")
          .field("epsilon", &RMSPropOptions::epsilon, "added under the square root")
          .field("centered", &RMSPropOptions::centered, "subtract the square of the mean gradient")
          .field("clip_weights", &RMSPropOptions::clip_weights, "bound of the weights; negative for none");
    },
    [](const RMSPropOptions& o, const Tensor& w) { return o.centered ? zero_states<3>(o, w) : zero_states<1>(o, w); },
    [](const RMSPropOptions& o, Update& u, Steps& steps) {
      const StepAttrs attrs = with(common(o, u), {{"gamma1", o.gamma1}, {"epsilon", o.epsilon}, {"clip_weights", o.clip_weights}});
      if (!o.centered) return steps.add("_multi_rmsprop_update", u, 1, u.lr, attrs);
      steps.add("_multi_rmspropalex_update", u, 3, u.lr, with(attrs, {{"gamma2", o.gamma2}}));
    })

GLUINO_OPTIMIZER(
    ftrl, FtrlOptions,
    [](AttrFields<FtrlOptions>& f) {
      f.field("lamda1", &FtrlOptions::lamda1, "weight of the absolute values")
          .field("beta", &FtrlOptions::beta, "added to the root of the sum of squares");
    },
    zero_states<2>,
    [](const FtrlOptions& o, Update& u, Steps& steps) {
      steps.add("_multi_ftrl_update", u, 2, u.lr, with(common(o, u), {{"lamda1", o.lamda1}, {"beta", o.beta}}));
    })

GLUINO_OPTIMIZER(adamax, AdamaxOptions, moment_fields, zero_states<2>, [](const AdamaxOptions& o, Update& u, Steps& steps) {
  const double corrected_lr = u.lr / (1 - std::pow(o.beta1, static_cast<double>(u.t)));
  steps.add("_multi_adamax_update", u, 2, corrected_lr, with(common(o, u), moments(o)));
})

// The third state is the product of the momenta so far. As in MXNet 1.9 it goes on from weight to weight, in their order: the momentum is
// at most beta1 < 1, so the least number among the weights is the one that the step before ended with.
static double nadam_momentum(const NadamOptions& o, int64_t t) {
  return o.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * o.schedule_decay));
}
GLUINO_OPTIMIZER(
    nadam, NadamOptions,
    [](AttrFields<NadamOptions>& f) {
      moment_fields(f);
      f.field("schedule_decay", &NadamOptions::schedule_decay, "how fast the momentum grows to beta1");
    },
    [](const NadamOptions& o, const Tensor& w) {
      Tensors states = zero_states<2>(o, w);
      states.push_back(number_state(w, 1));
      return states;
    },
    [](const NadamOptions& o, Update& u, Steps& steps) {
      const double momentum = nadam_momentum(o, u.t), next = nadam_momentum(o, u.t + 1), schedule = number_in(u.state[2]);
      steps.add("_multi_nadam_update", u, 2, u.lr * next / (1 - schedule * next), with(with(common(o, u), moments(o)), {{"t", u.t}}),
                {{"gradient_lrs", u.lr * (1 - momentum) / (1 - schedule)}});
    },
    [](const NadamOptions& o, std::span<Update* const> updates) {
      double schedule = 1;
      for (Update* u : updates) schedule = std::min(schedule, number_in(u->state[2]));
      for (Update* u : updates) number_in(u->state[2]) = schedule *= nadam_momentum(o, u->t);
    })

GLUINO_OPTIMIZER(ftml, FTMLOptions, moment_fields, zero_states<3>, [](const FTMLOptions& o, Update& u, Steps& steps) {
  const StepAttrs own{{"rescale_grad", u.rescale_grad}, {"clip_grad", o.clip_gradient}, {"t", u.t}};
  steps.add("_multi_ftml_update", u, 3, u.lr, with(own, moments(o)));
})

GLUINO_OPTIMIZER(
    lamb, LAMBOptions,
    [](AttrFields<LAMBOptions>& f) {
      moment_fields(f);
      f.field("lower_bound", &LAMBOptions::lower_bound, "least norm of the weight; negative for none")
          .field("upper_bound", &LAMBOptions::upper_bound, "largest norm of the weight; negative for none")
          .field("bias_correction", &LAMBOptions::bias_correction, "make up for means that start at 0");
    },
    zero_states<2>,
    [](const LAMBOptions& o, Update& u, Steps& steps) {
      const StepAttrs own{
          {"t", u.t}, {"bias_correction", o.bias_correction}, {"lower_bound", o.lower_bound}, {"upper_bound", o.upper_bound}};
      steps.add("_multi_lamb_step", u, 2, u.lr, with(with(common(o, u), moments(o)), own));
    })

// The last state is the learning rate of the step before.
GLUINO_OPTIMIZER(
    lars, LARSOptions,
    [](AttrFields<LARSOptions>& f) {
      momentum_field(f);
      f.field("eta", &LARSOptions::eta, "trust in the ratio of the norms")
          .field("eps", &LARSOptions::eps, "added to the norm of the gradient")
          .field("momentum_correction", &LARSOptions::momentum_correction, "a new learning rate also scales the momentum");
    },
    [](const LARSOptions& o, const Tensor& w) {
      return o.momentum != 0 ? Tensors{zeros_like(w), number_state(w, 0)} : Tensors{};
    },
    [](const LARSOptions& o, Update& u, Steps& steps) {
      double momentum = o.momentum;
      if (!u.state.empty()) {
        const double last = std::exchange(number_in(u.state[1]), u.lr);
        if (o.momentum_correction && last != 0) momentum *= u.lr / last;
      }
      const bool is_scaled = !u.name.ends_with("gamma") && !u.name.ends_with("beta") && !u.name.ends_with("bias");
      if (!is_scaled) return sgd_step("multi_sgd_update", "multi_sgd_mom_update", u, steps, common(o, u), momentum);
      const StepAttrs attrs = with(common(o, u), {{"eta", o.eta}, {"eps", o.eps}});
      sgd_step("_multi_lars_update", "_multi_lars_mom_update", u, steps, attrs, momentum);
    })

GLUINO_OPTIMIZER(
    signum, SignumOptions,
    [](AttrFields<SignumOptions>& f) {
      momentum_field(f);
      f.field("wd_lh", &SignumOptions::wd_lh, "weight decay outside of the momentum");
    },
    momentum_state,
    [](const SignumOptions& o, Update& u, Steps& steps) {
      if (u.state.empty()) return steps.add("_multi_signsgd_update", u, 0, u.lr, common(o, u));
      steps.add("_multi_signum_update", u, 1, u.lr, with(common(o, u), {{"momentum", o.momentum}, {"wd_lh", o.wd_lh}}));
    })

// The last state is the weight before the last step.
GLUINO_OPTIMIZER(
    dcasgd, DCASGDOptions,
    [](AttrFields<DCASGDOptions>& f) {
      momentum_field(f);
      f.field("lamda", &DCASGDOptions::lamda, "how much of the delay is made up for");
    },
    [](const DCASGDOptions& o, const Tensor& w) {
      Tensors states = momentum_state(o, w);
      states.push_back(w.copy());
      return states;
    },
    [](const DCASGDOptions& o, Update& u, Steps& steps) {
      const StepAttrs attrs = with(common(o, u), {{"momentum", o.momentum}, {"lamda", o.lamda}});
      steps.add(o.momentum != 0 ? "_multi_dcasgd_mom_update" : "_multi_dcasgd_update", u, u.state.size(), u.lr, attrs);
    })

GLUINO_OPTIMIZER(sgld, SGLDOptions, no_fields, zero_states<0>,
                 [](const SGLDOptions& o, Update& u, Steps& steps) { steps.add("_multi_sgld_update", u, 0, u.lr, common(o, u)); })

}  // namespace gluino::optimizer
