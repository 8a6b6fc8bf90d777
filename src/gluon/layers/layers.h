// What the layers' sources share.
#pragma once
#include "gluino/catalogue.h"
#include "gluino/ops.h"

namespace gluino {

// Options are checked where they are given, not where they are first used. `what` is "Dense: activation".

// One of the choices of an operator's attribute.
void check_choice(const std::string& what, const std::string& value, std::string_view op, std::string_view attribute);
inline void check_activation(const std::string& layer, const std::string& function) {
  if (!function.empty()) check_choice(layer + ": activation", function, "Activation", "act_type");
}
void check_rate(const std::string& what, double rate);  // a share: 0 to 1
void check_positive(const std::string& what, double value);
void check_not_negative(const std::string& what, double value);

inline Tensor activate(const Tensor& x, const std::string& function) {
  return function.empty() ? x : activation(x, {.act_type = function});
}

// Undefined where a layer goes without the parameter.
inline Tensor data_or_none(const ParameterPtr& p) { return p ? p->data() : Tensor(); }

inline void complete_if_known(bool known, const ParameterPtr& p, const auto& shape) {
  if (known && p) p->complete(shape());
}

// sample<Dense>({{2, 3}}, 4): a Dense(4) and the shapes of its inputs.
template <class B, class... A>
catalogue::BlockSample sample(std::vector<SampleInput> inputs, A... arguments) {
  return {std::move(inputs), [=] { return std::make_shared<B>(arguments...); }};
}

// Enters samples into the catalogue when the library is loaded.
struct LayerSamples {
  LayerSamples(std::initializer_list<catalogue::BlockSample> samples) { catalogue::layers().insert(catalogue::layers().end(), samples); }
};
struct LossSamples {
  LossSamples(std::initializer_list<catalogue::BlockSample> samples) { catalogue::losses().insert(catalogue::losses().end(), samples); }
};

}  // namespace gluino
