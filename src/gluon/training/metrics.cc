#include <cmath>
#include <limits>

#include "base/format.h"
#include "gluino/autograd.h"
#include "gluino/metric.h"
#include "gluino/ops.h"

namespace gluino::metric {
namespace {

std::vector<double> numbers(const Tensor& t) { return t.detach().to_vector<double>(); }

void check_sizes(const std::string& name, const Tensor& label, const Tensor& prediction, int64_t labels, int64_t predictions) {
  if (labels != predictions)
    raise<ShapeError>("metric {}: labels of shape {} do not fit predictions of shape {}", name, label.shape(), prediction.shape());
}

}  // namespace

double Metric::value() const { return count_ > 0 ? sum_ / count_ : std::numeric_limits<double>::quiet_NaN(); }

void Accuracy::update(const Tensor& label, const Tensor& prediction) {
  const autograd::Scope scope(false, std::nullopt);
  const bool are_classes = prediction.shape() == label.shape();
  const std::vector<double> want = numbers(label), got = numbers(are_classes ? prediction : argmax(prediction.detach(), {.axis = axis_}));
  check_sizes(name_, label, prediction, static_cast<int64_t>(want.size()), static_cast<int64_t>(got.size()));
  double hits = 0;
  for (size_t i = 0; i < want.size(); ++i) hits += std::floor(want[i]) == std::floor(got[i]);
  add(hits, static_cast<double>(want.size()));
}

TopKAccuracy::TopKAccuracy(int64_t top_k, const std::string& name) : Metric(fmt::format("{}_{}", name, top_k)), top_k_(top_k) {
  if (top_k < 1) raise<UserError>("TopKAccuracy: top_k is {}, at least 1 is needed", top_k);
}
void TopKAccuracy::update(const Tensor& label, const Tensor& prediction) {
  if (prediction.ndim() != 2)
    raise<ShapeError>("metric {}: predictions have shape {}, but (batch, classes) is needed", name_, prediction.shape());
  const autograd::Scope scope(false, std::nullopt);
  const std::vector<double> want = numbers(label);
  check_sizes(name_, label, prediction, static_cast<int64_t>(want.size()), prediction.extent(0));
  const int64_t k = std::min(top_k_, prediction.extent(1));
  const std::vector<double> best = numbers(topk(prediction.detach(), {.axis = 1, .k = k})[0]);
  double hits = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto first = best.begin() + static_cast<ptrdiff_t>(i) * k;
    hits += std::find(first, first + k, std::floor(want[i])) != first + k;
  }
  add(hits, static_cast<double>(want.size()));
}

BinaryMetric::BinaryMetric(std::string name, std::string average) : Metric(std::move(name)), micro_(average == "micro") {
  if (average != "micro" && average != "macro") raise<UserError>("metric {}: average is '{}'; it must be macro or micro", name_, average);
}
void BinaryMetric::update(const Tensor& label, const Tensor& prediction) {
  const std::vector<double> want = numbers(label), got = numbers(prediction);
  const bool has_two = got.size() == 2 * want.size();
  if (!has_two) check_sizes(name_, label, prediction, static_cast<int64_t>(want.size()), static_cast<int64_t>(got.size()));
  Counts c;
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] != 0 && want[i] != 1) raise<UserError>("metric {}: a label is {}, but the two classes are 0 and 1", name_, want[i]);
    const bool positive = has_two ? got[2 * i + 1] > got[2 * i] : got[i] > 0.5;
    double& count = want[i] == 1 ? (positive ? c.true_positive : c.false_negative) : (positive ? c.false_positive : c.true_negative);
    ++count;
  }
  all_.true_positive += c.true_positive;
  all_.false_positive += c.false_positive;
  all_.true_negative += c.true_negative;
  all_.false_negative += c.false_negative;
  add(score(c), 1);
}
void BinaryMetric::reset() {
  Metric::reset();
  all_ = {};
}
double BinaryMetric::value() const { return micro_ && count_ > 0 ? score(all_) : Metric::value(); }
double F1::score(const Counts& c) const {
  const double all = 2 * c.true_positive + c.false_positive + c.false_negative;
  return all > 0 ? 2 * c.true_positive / all : 0;
}
double MCC::score(const Counts& c) const {
  double below = 1;
  for (const double sum : {c.true_positive + c.false_positive, c.true_positive + c.false_negative, c.true_negative + c.false_positive,
                           c.true_negative + c.false_negative})
    below *= sum > 0 ? sum : 1;
  return (c.true_positive * c.true_negative - c.false_positive * c.false_negative) / std::sqrt(below);
}

template <class F>
static std::pair<double, double> sum_of_errors(const std::string& name, const Tensor& label, const Tensor& prediction, F error) {
  const std::vector<double> want = numbers(label), got = numbers(prediction);
  check_sizes(name, label, prediction, static_cast<int64_t>(want.size()), static_cast<int64_t>(got.size()));
  double sum = 0;
  for (size_t i = 0; i < want.size(); ++i) sum += error(want[i] - got[i]);
  return {sum, static_cast<double>(want.size())};
}
void MAE::update(const Tensor& label, const Tensor& prediction) {
  const auto [sum, count] = sum_of_errors(name_, label, prediction, [](double d) { return std::abs(d); });
  add(sum, count);
}
void MSE::update(const Tensor& label, const Tensor& prediction) {
  const auto [sum, count] = sum_of_errors(name_, label, prediction, [](double d) { return d * d; });
  add(sum, count);
}
double RMSE::value() const { return std::sqrt(MSE::value()); }

void CrossEntropy::update(const Tensor& label, const Tensor& prediction) {
  const std::vector<double> want = numbers(label), got = numbers(prediction);
  const int64_t classes = prediction.shape().ndim() > 0 ? prediction.shape().back() : 1;
  check_sizes(name_, label, prediction, static_cast<int64_t>(want.size()) * classes, static_cast<int64_t>(got.size()));
  double sum = 0, count = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto c = static_cast<int64_t>(want[i]);
    if (ignore_label_ && c == *ignore_label_) continue;
    if (c < 0 || c >= classes) raise<IndexError>("metric {}: label {} is not one of {} classes", name_, c, classes);
    sum -= std::log(std::max(got[i * static_cast<size_t>(classes) + static_cast<size_t>(c)], eps_));
    ++count;
  }
  add(sum, count);
}
double Perplexity::value() const { return std::exp(CrossEntropy::value()); }

void PearsonCorrelation::update(const Tensor& label, const Tensor& prediction) {
  const std::vector<double> x = numbers(label), y = numbers(prediction);
  check_sizes(name_, label, prediction, static_cast<int64_t>(x.size()), static_cast<int64_t>(y.size()));
  for (size_t i = 0; i < x.size(); ++i) {
    x_ += x[i];
    y_ += y[i];
    xx_ += x[i] * x[i];
    yy_ += y[i] * y[i];
    xy_ += x[i] * y[i];
  }
  add(0, static_cast<double>(x.size()));
}
void PearsonCorrelation::reset() {
  Metric::reset();
  x_ = y_ = xx_ = yy_ = xy_ = 0;
}
double PearsonCorrelation::value() const {
  return (count_ * xy_ - x_ * y_) / std::sqrt((count_ * xx_ - x_ * x_) * (count_ * yy_ - y_ * y_));
}

void Loss::update(const Tensor&, const Tensor& losses) {
  double sum = 0;
  for (const double v : numbers(losses)) sum += v;
  add(sum, static_cast<double>(losses.size()));
}

void CompositeMetric::update(const Tensor& label, const Tensor& prediction) {
  for (const MetricPtr& m : metrics_) m->update(label, prediction);
}
std::shared_ptr<Metric> CompositeMetric::fresh() const {
  std::vector<MetricPtr> copies;
  for (const MetricPtr& m : metrics_) copies.push_back(m->fresh());
  return std::make_shared<CompositeMetric>(copies);
}
void CompositeMetric::reset() {
  for (const MetricPtr& m : metrics_) m->reset();
}
double CompositeMetric::value() const {
  if (metrics_.empty()) throw UserError("CompositeMetric: it holds no metric");
  return metrics_[0]->value();
}
std::vector<std::pair<std::string, double>> CompositeMetric::get() const {
  std::vector<std::pair<std::string, double>> all;
  for (const MetricPtr& m : metrics_)
    for (auto& entry : m->get()) all.push_back(std::move(entry));
  return all;
}

MetricPtr create(const std::string& name) {
  static const std::vector<std::pair<std::string, std::function<MetricPtr()>>> known{
      {"accuracy", [] { return std::make_shared<Accuracy>(); }},
      {"acc", [] { return std::make_shared<Accuracy>(); }},
      {"top_k_accuracy", [] { return std::make_shared<TopKAccuracy>(); }},
      {"f1", [] { return std::make_shared<F1>(); }},
      {"mcc", [] { return std::make_shared<MCC>(); }},
      {"mae", [] { return std::make_shared<MAE>(); }},
      {"mse", [] { return std::make_shared<MSE>(); }},
      {"rmse", [] { return std::make_shared<RMSE>(); }},
      {"cross-entropy", [] { return std::make_shared<CrossEntropy>(); }},
      {"ce", [] { return std::make_shared<CrossEntropy>(); }},
      {"perplexity", [] { return std::make_shared<Perplexity>(); }},
      {"pearsonr", [] { return std::make_shared<PearsonCorrelation>(); }},
      {"loss", [] { return std::make_shared<Loss>(); }}};
  std::vector<std::string> names;
  for (const auto& [n, make] : known) {
    if (n == name) return make();
    names.push_back(n);
  }
  raise<UserError>("no metric is named '{}'{}", name, did_you_mean(name, names));
}

}  // namespace gluino::metric
