#include "base/format.h"
#include "gluino/loss.h"
#include "gluino/op.h"

namespace gluino::loss {

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

}  // namespace gluino::loss
