// Losses of ONNX's training operators.
#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

Tensor reduced(const Tensor& loss, const Tensor& weight, const std::string& how) {
  if (how == "none") return loss;
  if (how == "sum") return sum(loss).reshape({});
  if (!weight.defined()) return mean(loss).reshape({});
  return broadcast_div(sum(loss), sum(weight)).reshape({});
}

// -log_probability at the target class, classes on axis 1.
Tensor likelihood_loss(Call& c, const Tensor& log_probabilities, const Tensor& target, const Tensor& class_weight) {
  const bool ignores = c.has_attribute("ignore_index");
  const int64_t ignored = c.integer("ignore_index", 0);
  const Tensor is_kept = ignores ? broadcast_not_equal(target, constant_of(static_cast<double>(ignored), target.dtype())) : Tensor();
  const Tensor safe = ignores ? broadcast_mul(target, is_kept.astype(target.dtype())) : target;
  Tensor loss = negative(pick(log_probabilities, safe, {.axis = 1}));
  Tensor weight;
  if (class_weight.defined()) weight = take(class_weight, safe);
  if (ignores) {
    const Tensor kept = is_kept.astype(loss.dtype());
    weight = weight.defined() ? broadcast_mul(weight, kept) : kept;
  }
  if (weight.defined()) loss = broadcast_mul(loss, weight);
  return reduced(loss, weight, c.text("reduction", "mean"));
}

Tensor negative_log_likelihood(Call& c) { return likelihood_loss(c, c.in(0), c.in(1).astype(DType::int64), c.optional(2)); }

Tensors softmax_loss(Call& c) {
  const Tensor log_probabilities = log_softmax(c.in(0), {.axis = 1});
  return {likelihood_loss(c, log_probabilities, c.in(1).astype(DType::int64), c.optional(2)), log_probabilities};
}

}  // namespace

void add_loss_rules(Rules& rules) {
  rules.add("NegativeLogLikelihoodLoss", negative_log_likelihood);
  rules.add("SoftmaxCrossEntropyLoss", softmax_loss);
}

}  // namespace gluino::onnx
