// Losses: hybrid blocks of (prediction, label) that give one number per sample.
#pragma once
#include "gluino/block.h"

namespace gluino::loss {

struct SoftmaxCrossEntropyOptions {
  int axis = -1;
  bool sparse_label = true;  // labels are class numbers, not distributions
  bool from_logits = false;  // the prediction is already log-probabilities
};
class SoftmaxCrossEntropyLoss : public HybridBlock {
 public:
  explicit SoftmaxCrossEntropyLoss(SoftmaxCrossEntropyOptions options = {}) : options_(options) {}
  using Block::forward;
  Tensor forward(const Tensor& prediction, const Tensor& label) override;

 private:
  SoftmaxCrossEntropyOptions options_;
};

// Half the squared difference.
class L2Loss : public HybridBlock {
 public:
  using Block::forward;
  Tensor forward(const Tensor& prediction, const Tensor& label) override;
};

}  // namespace gluino::loss
