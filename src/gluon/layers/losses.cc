#include <numbers>

#include "base/format.h"
#include "gluino/functions.h"
#include "gluino/loss.h"
#include "gluon/layers/layers.h"
#include "gluon/named.h"

namespace gluino::loss {
namespace {

Tensor soft_relu(const Tensor& x) { return activation(x, {.act_type = "softrelu"}); }
Tensor sum_along(const Tensor& x, int64_t axis, bool keepdims, bool exclude = false) {
  return sum(x, {.axis = Shape{axis}, .keepdims = keepdims, .exclude = exclude});
}
// log(1 + exp(x)) - x * label, without overflow. One by one: in an expression the compiler chooses which part is traced first.
Tensor logistic(const Tensor& x, const Tensor& label) {
  const Tensor far = soft_relu(-abs(x)), product = x * label, positive = relu(x);
  return positive - product + far;
}

}  // namespace

Tensor Loss::label_like(const Tensor& label, const Tensor& prediction) const {
  return label_rule_ == LabelRule::mxnet ? reshape_like(label, prediction) : gluino::label_like(label, prediction);
}
Tensors Loss::forward(const Tensors& inputs) {
  if (inputs.size() < arity()) raise<UserError>("{}: {} inputs were given, {} are needed", kind(), inputs.size(), arity());
  Tensor loss = elements(inputs);
  if (inputs.size() > arity() && inputs[arity()].defined()) loss = broadcast_mul(loss, inputs[arity()]);
  return {finish(weight_ ? loss * *weight_ : loss)};
}
Tensor Loss::finish(const Tensor& weighted) const { return mean(weighted, {.axis = Shape{batch_axis_}, .exclude = true}); }

Tensor L1Loss::elements(const Tensors& in) const { return abs(label_like(in) - in[0]); }
Tensor L2Loss::elements(const Tensors& in) const { return square(label_like(in) - in[0]) * 0.5; }

Tensor SigmoidBinaryCrossEntropyLoss::elements(const Tensors& in) const {
  const Tensor label = label_like(in);
  const bool is_weighted = in.size() > 3 && in[3].defined();
  if (options_.from_sigmoid) {
    const double tiny = 1e-12;
    const Tensor positive = log(in[0] + tiny) * label, negative = log(1.0 - in[0] + tiny) * (1.0 - label);
    return -((is_weighted ? broadcast_mul(positive, in[3]) : positive) + negative);
  }
  if (!is_weighted) return logistic(in[0], label);
  // log-weight l = 1 + (w - 1) * label: (1 - label) x + l log(1 + exp(-|x|)) + l relu(-x)
  const Tensor l = broadcast_mul(in[3] - 1.0, label) + 1.0;
  return in[0] - in[0] * label + l * (soft_relu(-abs(in[0])) + relu(-in[0]));
}

Tensor SoftmaxCrossEntropyLoss::elements(const Tensors& in) const {
  const Tensor log_p = options_.from_logits ? in[0] : log_softmax(in[0], {.axis = options_.axis});
  if (options_.sparse_label) {
    const Tensor label = label_rule_ == LabelRule::mxnet ? in[1] : check_index(in[1], log_p, {.axis = options_.axis});
    return -pick(log_p, label, {.axis = options_.axis, .keepdims = true, .mode = "clip"});
  }
  return -sum_along(log_p * label_like(in[1], log_p), options_.axis, true);
}

Tensor KLDivLoss::elements(const Tensors& in) const {
  const Tensor log_p = options_.from_logits ? in[0] : log_softmax(in[0], {.axis = options_.axis});
  return in[1] * (log(in[1] + 1e-12) - log_p);
}

Tensor HuberLoss::elements(const Tensors& in) const {
  const Tensor distance = abs(label_like(in) - in[0]);
  const Tensor is_far = distance > options_.rho, far = distance - 0.5 * options_.rho, near = square(distance) * (0.5 / options_.rho);
  return where(is_far, far, near);
}

Tensor HingeLoss::elements(const Tensors& in) const { return relu(options_.margin - in[0] * label_like(in)); }
Tensor SquaredHingeLoss::elements(const Tensors& in) const { return square(relu(options_.margin - in[0] * label_like(in))); }

LogisticLoss::LogisticLoss(LogisticOptions o) : LossOf(std::move(o)) {
  if (options_.label_format != "signed" && options_.label_format != "binary")
    raise<UserError>("LogisticLoss: label_format is '{}'; it must be signed or binary", options_.label_format);
}
Tensor LogisticLoss::elements(const Tensors& in) const {
  const Tensor label = label_like(in);
  return logistic(in[0], options_.label_format == "signed" ? (label + 1.0) / 2.0 : label);
}

Tensor TripletLoss::elements(const Tensors& in) const {
  const Tensor positive = label_like(in), negative = label_like(in[2], in[0]);
  return relu(sum_along(square(positive - in[0]) - square(negative - in[0]), batch_axis_, false, true) + options_.margin);
}

CTCLoss::CTCLoss(CTCOptions o) : Loss(o.weight, o.label_layout == "NT" ? 0 : 1), options_(std::move(o)) {
  if (options_.layout != "NTC" && options_.layout != "TNC")
    raise<UserError>("CTCLoss: layout is '{}'; it must be NTC or TNC", options_.layout);
  if (options_.label_layout != "NT" && options_.label_layout != "TN")
    raise<UserError>("CTCLoss: label_layout is '{}'; it must be NT or TN", options_.label_layout);
}
Tensors CTCLoss::forward(const Tensors& inputs) {
  if (inputs.size() == 3) throw UserError("CTCLoss: 3 inputs were given; lengths are needed of both predictions and labels, or of neither");
  Tensor loss = elements(inputs);
  if (inputs.size() > 4 && inputs[4].defined()) loss = broadcast_mul(loss, inputs[4]);
  return {weight_ ? loss * *weight_ : loss};
}
Tensor CTCLoss::elements(const Tensors& in) const {
  auto swapped = [](const Tensor& t) { return swap_axis(t, {.dim1 = 0, .dim2 = 1}); };
  const Tensor data = options_.layout == "NTC" ? swapped(in.at(0)) : in.at(0);
  const Tensor label = options_.label_layout == "TN" ? swapped(in.at(1)) : in.at(1);
  const Tensor lengths = in.size() > 3 ? in[2] : Tensor(), label_lengths = in.size() > 3 ? in[3] : Tensor();
  return ctc_loss(data, label, lengths, label_lengths,
                  {.use_data_lengths = lengths.defined(), .use_label_lengths = label_lengths.defined(), .blank_label = "last"});
}

Tensor CosineEmbeddingLoss::elements(const Tensors& in) const {
  const Tensor a = label_like(in[0], in[1]), b = in[1];
  const Tensor sizes = sqrt(sum_along(square(a), -1, true) * sum_along(square(b), -1, true));
  const Tensor product = sum_along(a * b, -1, true), cosine = broadcast_div(product, maximum(sizes, 1e-12));
  const Tensor label = label_like(in[2], cosine);
  const Tensor apart = clip(cosine - options_.margin, {.a_min = 0, .a_max = 1 - options_.margin});
  const Tensor is_alike = label == 1.0, together = 1.0 - cosine;
  return where(is_alike, together, apart);
}

Tensor PoissonNLLLoss::elements(const Tensors& in) const {
  const Tensor target = label_like(in);
  const Tensor loss = options_.from_logits ? exp(in[0]) - target * in[0] : in[0] - target * log(in[0] + options_.epsilon);
  if (!options_.compute_full) return loss;
  // n log n - n + log(2 pi n) / 2, for counts above 1
  const Tensor safe = maximum(target, 1);
  const Tensor stirling = safe * log(safe) - safe + log(safe * (2 * std::numbers::pi)) * 0.5;
  return loss + stirling * (target > 1.0);
}
Tensor PoissonNLLLoss::finish(const Tensor& weighted) const { return mean(weighted); }

// ---- by name

namespace {

template <class O>
void common_fields(AttrFields<O>& f) {
  f.field("weight", &O::weight, "factor of the loss; None for none").field("batch_axis", &O::batch_axis, "the axis of the samples");
}
template <class L, class O, class F>
void add_loss(Named<LossPtr>& all, const char* name, F own_fields) {
  all.add<O>(
      name,
      [own_fields](AttrFields<O>& f) {
        own_fields(f);
        if constexpr (requires(O o) { o.batch_axis; }) common_fields(f);
      },
      [](O options) -> LossPtr { return std::make_shared<L>(std::move(options)); });
}
template <class O>
void no_fields(AttrFields<O>&) {}
template <class O>
void margin_field(AttrFields<O>& f) {
  f.field("margin", &O::margin, "how far apart is far enough");
}

const Named<LossPtr>& losses_by_name() {
  static const Named<LossPtr> known = [] {
    Named<LossPtr> all("loss");
    add_loss<L1Loss, LossOptions>(all, "L1Loss", no_fields<LossOptions>);
    add_loss<L2Loss, LossOptions>(all, "L2Loss", no_fields<LossOptions>);
    using Sigmoid = SigmoidBinaryCrossEntropyOptions;
    add_loss<SigmoidBinaryCrossEntropyLoss, Sigmoid>(all, "SigmoidBinaryCrossEntropyLoss", [](AttrFields<Sigmoid>& f) {
      f.field("from_sigmoid", &Sigmoid::from_sigmoid, "the prediction is a probability");
    });
    using Softmax = SoftmaxCrossEntropyOptions;
    add_loss<SoftmaxCrossEntropyLoss, Softmax>(all, "SoftmaxCrossEntropyLoss", [](AttrFields<Softmax>& f) {
      f.field("axis", &Softmax::axis, "the axis of the classes")
          .field("sparse_label", &Softmax::sparse_label, "labels are class numbers")
          .field("from_logits", &Softmax::from_logits, "the prediction is log-probabilities");
    });
    add_loss<KLDivLoss, KLDivOptions>(all, "KLDivLoss", [](AttrFields<KLDivOptions>& f) {
      f.field("from_logits", &KLDivOptions::from_logits, "the prediction is log-probabilities")
          .field("axis", &KLDivOptions::axis, "the axis of the classes");
    });
    add_loss<HuberLoss, HuberOptions>(all, "HuberLoss",
                                      [](AttrFields<HuberOptions>& f) { f.field("rho", &HuberOptions::rho, "where it becomes linear"); });
    add_loss<HingeLoss, MarginOptions>(all, "HingeLoss", margin_field<MarginOptions>);
    add_loss<SquaredHingeLoss, MarginOptions>(all, "SquaredHingeLoss", margin_field<MarginOptions>);
    add_loss<TripletLoss, MarginOptions>(all, "TripletLoss", margin_field<MarginOptions>);
    add_loss<LogisticLoss, LogisticOptions>(all, "LogisticLoss", [](AttrFields<LogisticOptions>& f) {
      f.field("label_format", &LogisticOptions::label_format, "signed or binary");
    });
    add_loss<CTCLoss, CTCOptions>(all, "CTCLoss", [](AttrFields<CTCOptions>& f) {
      f.field("layout", &CTCOptions::layout, "of the prediction: NTC or TNC")
          .field("label_layout", &CTCOptions::label_layout, "NT or TN")
          .field("weight", &CTCOptions::weight, "factor of the loss; None for none");
    });
    add_loss<CosineEmbeddingLoss, CosineEmbeddingOptions>(all, "CosineEmbeddingLoss", margin_field<CosineEmbeddingOptions>);
    add_loss<PoissonNLLLoss, PoissonNLLOptions>(all, "PoissonNLLLoss", [](AttrFields<PoissonNLLOptions>& f) {
      f.field("from_logits", &PoissonNLLOptions::from_logits, "the prediction is the logarithm of the rate")
          .field("compute_full", &PoissonNLLOptions::compute_full, "with Stirling's term")
          .field("epsilon", &PoissonNLLOptions::epsilon, "added to the rate before its logarithm");
    });
    return all;
  }();
  return known;
}

}  // namespace

LossPtr create(const std::string& name, const NamedOptions& options) { return losses_by_name().create(name, options); }
std::vector<std::string> names() { return losses_by_name().names(); }
std::vector<Option> options_of(const std::string& name) { return losses_by_name().options_of(name); }

// ---- samples

static const LossSamples samples{
    sample<L1Loss>({{3, 4}, {3, 4}}),
    sample<L2Loss>({{3, 4}, {3, 4}, uniform_sample({3, 1}, 0.1, 1)}),
    sample<SigmoidBinaryCrossEntropyLoss>({{3, 4}, uniform_sample({3, 4}, 0, 1)}),
    sample<SigmoidBinaryCrossEntropyLoss>(
        {{3, 4}, uniform_sample({3, 4}, 0, 1), uniform_sample({3, 1}, 0.1, 1), uniform_sample({1, 4}, 0.5, 2)}),
    sample<SigmoidBinaryCrossEntropyLoss>({uniform_sample({3, 4}, 0.1, 0.9), uniform_sample({3, 4}, 0, 1)},
                                          SigmoidBinaryCrossEntropyOptions{.from_sigmoid = true, .weight = 2}),
    sample<SoftmaxCrossEntropyLoss>({{3, 4}, index_sample({3}, 4)}),
    sample<SoftmaxCrossEntropyLoss>({{3, 4, 2}, uniform_sample({3, 4, 2}, 0, 1)},
                                    SoftmaxCrossEntropyOptions{.axis = 1, .sparse_label = false, .weight = 0.5}),
    sample<SoftmaxCrossEntropyLoss>({{3, 4}, index_sample({3}, 4), uniform_sample({3, 1}, 0.1, 1)}),
    sample<KLDivLoss>({{3, 4}, uniform_sample({3, 4}, 0.1, 1)}),
    sample<KLDivLoss>({{3, 4}, uniform_sample({3, 4}, 0.1, 1)}, KLDivOptions{.from_logits = false}),
    sample<HuberLoss>({{3, 4}, {3, 4}}, HuberOptions{.rho = 0.7}),
    sample<HingeLoss>({{3, 4}, {3, 4}}),
    sample<SquaredHingeLoss>({{3, 4}, {3, 4}}),
    sample<LogisticLoss>({{3, 4}, {3, 4}}),
    sample<LogisticLoss>({{3, 4}, uniform_sample({3, 4}, 0, 1)}, LogisticOptions{.label_format = "binary"}),
    sample<TripletLoss>({{3, 4}, {3, 4}, {3, 4}}),
    sample<CTCLoss>({{2, 5, 4}, index_sample({2, 2}, 3)}),
    sample<CTCLoss>({{5, 2, 4}, index_sample({2, 2}, 3), SampleInput({2}, 4, 6, true), SampleInput({2}, 1, 3, true)},
                    CTCOptions{.layout = "TNC"}),
    sample<CosineEmbeddingLoss>({{3, 4}, {3, 4}, SampleInput({3}, 0, 2, true)}),
    sample<PoissonNLLLoss>({{3, 4}, index_sample({3, 4}, 6)}),
    sample<PoissonNLLLoss>({uniform_sample({3, 4}, 0.5, 2), index_sample({3, 4}, 6)},
                           PoissonNLLOptions{.from_logits = false, .compute_full = true}),
};

}  // namespace gluino::loss
