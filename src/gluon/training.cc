#include "base/format.h"
#include "gluino/autograd.h"
#include "gluino/loss.h"
#include "gluino/op.h"
#include "gluino/trainer.h"

namespace gluino {
namespace loss {

// The mean over all axes but the first.
static Tensor per_sample(const Tensor& t) { return gluino::call("mean", {t}, {{"axis", Shape{0}}, {"exclude", true}}); }

Tensor SoftmaxCrossEntropyLoss::forward(const Tensor& prediction, const Tensor& label) {
  const auto axis = int64_t{options_.axis};
  const Tensor log_p = options_.from_logits ? prediction : gluino::call("log_softmax", {prediction}, {{"axis", axis}});
  if (options_.sparse_label) return per_sample(-gluino::call("pick", {log_p, label}, {{"axis", axis}, {"keepdims", true}}));
  return per_sample(-gluino::call("sum", {log_p * label}, {{"axis", Shape{axis}}, {"keepdims", true}}));
}

Tensor L2Loss::forward(const Tensor& prediction, const Tensor& label) {
  const Tensor difference = gluino::call("reshape_like", {label, prediction}) - prediction;
  return per_sample(gluino::call("square", {difference}) * 0.5);
}

}  // namespace loss

Trainer::Trainer(const ParameterDict& parameters, SGDOptions options) : options_(options) {
  for (const auto& [name, p] : parameters)
    if (p->grad_req() != GradReq::null) parameters_.push_back(p);
  momenta_.resize(parameters_.size());
}

void Trainer::step(double batch_size) {
  if (batch_size <= 0) raise<UserError>("Trainer: batch_size is {}, a positive number is needed", batch_size);
  const autograd::Scope scope(false, std::nullopt);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = *parameters_[i];
    Tensor weight = p.data();
    if (options_.momentum != 0 && !momenta_[i].defined()) momenta_[i] = zeros_like(weight.detach());
    const OpDef& op = OpRegistry::global().get(options_.momentum != 0 ? "sgd_mom_update" : "sgd_update");
    std::vector<std::pair<std::string_view, AttrValue>> attrs{{"lr", options_.learning_rate * p.lr_mult()},
                                                              {"wd", options_.wd * p.wd_mult()},
                                                              {"rescale_grad", 1 / batch_size},
                                                              {"clip_gradient", options_.clip_gradient}};
    Tensors inputs{weight, p.grad()};
    if (options_.momentum != 0) {
      attrs.emplace_back("momentum", options_.momentum);
      inputs.push_back(momenta_[i]);
    }
    Tensor outputs[] = {weight};  // updated in place
    apply_into(op, inputs, op.make_attrs(attrs), outputs);
  }
}

}  // namespace gluino
