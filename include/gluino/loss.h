// Losses: hybrid blocks of (prediction, label[, sample_weight]) that give one number per sample. `weight` scales the loss.
#pragma once
#include "gluino/block.h"
#include "gluino/named_options.h"

namespace gluino::loss {

// What becomes of labels that do not fit: an error; or, as in MXNet, which Python follows, labels of another shape are read in the order of
// their elements, and classes that do not exist are the nearest one.
enum class LabelRule { strict, mxnet };

// (prediction, label[, sample_weight]) unless said otherwise; sample_weight is broadcast to the loss.
class Loss : public HybridBlock {
 public:
  Loss(std::optional<double> weight, int batch_axis) : weight_(weight), batch_axis_(batch_axis) {}
  Tensor forward(const Tensor& prediction, const Tensor& label) override { return forward(Tensors{prediction, label}).at(0); }
  Tensor forward(const Tensor& prediction, const Tensor& label, const Tensor& sample_weight) override {
    return forward(Tensors{prediction, label, sample_weight}).at(0);
  }
  Tensors forward(const Tensors& inputs) override;
  void set_label_rule(LabelRule rule) { label_rule_ = rule; }

 protected:
  // The loss of every element; weights and the mean over all axes but the batch follow.
  virtual Tensor elements(const Tensors& inputs) const = 0;
  virtual Tensor finish(const Tensor& weighted) const;
  virtual size_t arity() const { return 2; }
  Tensor label_like(const Tensor& label, const Tensor& prediction) const;  // of the prediction's shape
  Tensor label_like(const Tensors& inputs) const { return label_like(inputs[1], inputs[0]); }
  std::optional<double> weight_;
  int batch_axis_;
  LabelRule label_rule_ = LabelRule::strict;
};
using LossPtr = std::shared_ptr<Loss>;

// A loss and its options, which have `weight` and `batch_axis`.
template <class Options>
class LossOf : public Loss {
 public:
  explicit LossOf(Options o = {}) : Loss(o.weight, o.batch_axis), options_(std::move(o)) {}

 protected:
  const Options options_;
};

#define GLUINO_LOSS_FIELDS           \
  std::optional<double> weight = {}; \
  int batch_axis = 0;
struct LossOptions {
  GLUINO_LOSS_FIELDS
};
// The difference's absolute value.
class L1Loss : public LossOf<LossOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
};
// Half the squared difference.
class L2Loss : public LossOf<LossOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
};

struct SigmoidBinaryCrossEntropyOptions {
  bool from_sigmoid = false;  // the prediction is already a probability
  GLUINO_LOSS_FIELDS
};
// Labels are 0 or 1, or between. A fourth input weights the positive samples: (prediction, label, sample_weight, pos_weight).
class SigmoidBinaryCrossEntropyLoss : public LossOf<SigmoidBinaryCrossEntropyOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
};
using SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss;

struct SoftmaxCrossEntropyOptions {
  int axis = -1;
  bool sparse_label = true;  // labels are class numbers, not distributions
  bool from_logits = false;  // the prediction is already log-probabilities
  GLUINO_LOSS_FIELDS
};
class SoftmaxCrossEntropyLoss : public LossOf<SoftmaxCrossEntropyOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
};
using SoftmaxCELoss = SoftmaxCrossEntropyLoss;

struct KLDivOptions {
  bool from_logits = true;  // the prediction is already log-probabilities
  int axis = -1;
  GLUINO_LOSS_FIELDS
};
class KLDivLoss : public LossOf<KLDivOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
};

struct HuberOptions {
  double rho = 1;  // beyond it the loss grows linearly
  GLUINO_LOSS_FIELDS
};
class HuberLoss : public LossOf<HuberOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
};

struct MarginOptions {
  double margin = 1;
  GLUINO_LOSS_FIELDS
};
// Labels are -1 or 1.
class HingeLoss : public LossOf<MarginOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
};
class SquaredHingeLoss : public LossOf<MarginOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
};
// (anchor, positive, negative[, sample_weight]): the positive must be nearer by the margin.
class TripletLoss : public LossOf<MarginOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
  Tensor finish(const Tensor& weighted) const override { return weighted; }
  size_t arity() const override { return 3; }
};

struct LogisticOptions {
  std::string label_format = "signed";  // labels are -1 and 1; "binary": 0 and 1
  GLUINO_LOSS_FIELDS
};
class LogisticLoss : public LossOf<LogisticOptions> {
 public:
  explicit LogisticLoss(LogisticOptions o = {});

 protected:
  Tensor elements(const Tensors& inputs) const override;
};

struct CTCOptions {
  std::string layout = "NTC", label_layout = "NT";
  std::optional<double> weight = {};
};
// (prediction, label[, prediction_lengths, label_lengths[, sample_weight]]); the last class is the blank, labels are padded with -1.
// A null tensor stands for lengths that are not given.
class CTCLoss : public Loss {
 public:
  explicit CTCLoss(CTCOptions o = {});
  Tensors forward(const Tensors& inputs) override;

 protected:
  Tensor elements(const Tensors& inputs) const override;

 private:
  CTCOptions options_;
};

struct CosineEmbeddingOptions {
  double margin = 0;
  GLUINO_LOSS_FIELDS
};
// (input1, input2, label[, sample_weight]): label 1 pulls together, -1 pushes apart until the cosine is below the margin.
class CosineEmbeddingLoss : public LossOf<CosineEmbeddingOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
  size_t arity() const override { return 3; }
};

struct PoissonNLLOptions {
  bool from_logits = true;    // the prediction is the logarithm of the rate
  bool compute_full = false;  // with Stirling's term for the factorial of the label
  double epsilon = 1e-8;
  GLUINO_LOSS_FIELDS
};
// Gives one number, the mean over everything.
class PoissonNLLLoss : public LossOf<PoissonNLLOptions> {
 public:
  using LossOf::LossOf;

 protected:
  Tensor elements(const Tensors& inputs) const override;
  Tensor finish(const Tensor& weighted) const override;
};
#undef GLUINO_LOSS_FIELDS

// create("HuberLoss", {{"rho", 0.5}}): names as above, options as in the structs.
LossPtr create(const std::string& name, const NamedOptions& options = {});
std::vector<std::string> names();
std::vector<Option> options_of(const std::string& name);

}  // namespace gluino::loss
