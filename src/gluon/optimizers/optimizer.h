// How an optimizer is defined: its options' fields, its states and its step, in one place of optimizers.cc.
#pragma once
#include <algorithm>
#include <functional>
#include <map>

#include "gluino/op.h"
#include "gluino/optimizer.h"
#include "gluon/named.h"

namespace gluino::optimizer::detail {

Named<OptimizerPtr>& registry();

using StepAttrs = std::vector<std::pair<std::string_view, AttrValue>>;

// Told of every operator that a step has called, with the time it began (nanoseconds of the steady clock), by the thread that called it.
using StepObserver = void (*)(const OpDef& op, int64_t begin);
void set_step_observer(StepObserver observer);

// Steps are operators over many weights. Those that differ in nothing but the numbers of each weight become one call.
class Steps {
 public:
  // The operator takes (weight, grad, the first `states` states) of each weight, its rate and decay, and `more` lists of one number
  // for each weight.
  void add(std::string_view op, const Update& u, size_t states, double lr, StepAttrs common,
           const std::vector<std::pair<std::string_view, double>>& more = {});
  void run();

 private:
  struct Call {
    std::string_view op;
    StepAttrs common;
    Tensors inputs, outputs;
    std::map<std::string_view, Floats> numbers;
  };
  std::vector<Call> calls_;
};

template <class O>
struct Definition {
  std::string name;
  void (*fields)(AttrFields<O>&);  // those of its own, besides the common ones
  Tensors (*state)(const O&, const Tensor& weight);
  void (*update)(const O&, Update&, Steps&);
  void (*begin)(const O&, std::span<Update* const>) = nullptr;  // what the weights of a step have in common, before any is updated
};

// The options of all optimizers and those of its own.
template <class O>
void add_fields(const Definition<O>& d, AttrFields<O>& f) {
  f.field("learning_rate", &O::learning_rate, "size of a step")
      .field("wd", &O::wd, "weight decay")
      .field("rescale_grad", &O::rescale_grad, "factor of the gradient")
      .field("clip_gradient", &O::clip_gradient, "bound of the gradient; negative for none")
      .field("multi_precision", &O::multi_precision, "keep a float32 copy of 16-bit weights");
  d.fields(f);
}
template <class O>
std::vector<AttrField> fields_of(const Definition<O>& d) {
  AttrFields<O> f;
  add_fields(d, f);
  return f.take();
}
// Raises UserError for a number with which no step means anything; what an option may be follows from its name (optimizers.cc).
void check_options(const std::string& optimizer, const std::vector<AttrField>& fields, const void* options);

template <class O>
class Defined final : public Optimizer {
 public:
  Defined(O options, const Definition<O>& d) : options_(std::move(options)), definition_(d) {
    static const std::vector<AttrField> fields = fields_of(d);
    check_options(d.name, fields, &options_);
    learning_rate_ = options_.learning_rate;
    wd_ = options_.wd;
    rescale_grad_ = options_.rescale_grad;
    multi_precision_ = options_.multi_precision;
    scheduler_ = options_.lr_scheduler;
  }
  std::string name() const override { return definition_.name; }
  Tensors create_state(const Tensor& weight) const override { return definition_.state(options_, weight); }
  // The weights of every device by themselves: an operator runs on one. They keep their order, in which random streams are handed out.
  void update(std::span<Update> updates) const override {
    std::vector<Device> devices;
    for (const Update& u : updates)
      if (std::find(devices.begin(), devices.end(), u.weight.device()) == devices.end()) devices.push_back(u.weight.device());
    for (const Device& device : devices) {
      const DeviceScope scope(device);
      std::vector<Update*> own;
      for (Update& u : updates)
        if (u.weight.device() == device) own.push_back(&u);
      if (definition_.begin) definition_.begin(options_, own);
      Steps steps;
      for (Update* u : own) definition_.update(options_, *u, steps);
      steps.run();
    }
  }

 private:
  O options_;
  const Definition<O>& definition_;
};

template <class O>
bool add(const Definition<O>& d) {
  registry().add<O>(
      d.name, [&d](AttrFields<O>& f) { add_fields(d, f); },
      [&d](O options) -> OptimizerPtr { return std::make_shared<Defined<O>>(std::move(options), d); });
  return true;
}

}  // namespace gluino::optimizer::detail

// GLUINO_OPTIMIZER(sgd, SGDOptions, fields, states, step): defines sgd(SGDOptions) and registers it.
#define GLUINO_OPTIMIZER(name, Options, ...)                                                                                       \
  static const detail::Definition<Options> name##_definition{#name, __VA_ARGS__};                                                  \
  OptimizerPtr name(Options options) { return std::make_shared<detail::Defined<Options>>(std::move(options), name##_definition); } \
  static const bool name##_is_registered = detail::add(name##_definition);
