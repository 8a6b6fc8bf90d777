#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "gluino/autograd.h"
#include "gluino/metric.h"
#include "gluino/ops.h"
#include "gluon/named.h"

namespace gluino::metric {
namespace {

constexpr double kMostClasses = 1 << 14;  // of a table of classes by classes: 2 GB

std::vector<double> numbers(const Tensor& t) { return t.detach().to_vector<double>(); }

void check_sizes(const std::string& name, const Tensor& label, const Tensor& prediction, int64_t labels, int64_t predictions) {
  if (labels != predictions)
    raise<ShapeError>("metric {}: labels of shape {} do not fit predictions of shape {}", name, label.shape(), prediction.shape());
}

}  // namespace

// "macro" or "micro"
static bool is_micro(const std::string& name, const std::string& average) {
  if (average != "micro" && average != "macro") raise<UserError>("metric {}: average is '{}'; it must be macro or micro", name, average);
  return average == "micro";
}

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

TopKAccuracy::TopKAccuracy(int64_t top_k, const std::string& name) : MetricOf(fmt::format("{}_{}", name, top_k)), top_k_(top_k) {
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

BinaryMetric::BinaryMetric(std::string name, const std::string& average) : Metric(std::move(name)), micro_(is_micro(name_, average)) {}
BinaryMetric::Counts BinaryMetric::count_batch(const Tensor& label, const Tensor& prediction) const {
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
  return c;
}
void BinaryMetric::update(const Tensor& label, const Tensor& prediction) {
  const Counts c = count_batch(label, prediction);
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

RegressionMetric::RegressionMetric(std::string name, const std::string& average)
    : Metric(std::move(name)), micro_(is_micro(name_, average)) {}
void RegressionMetric::update(const Tensor& label, const Tensor& prediction) {
  const std::vector<double> want = numbers(label), got = numbers(prediction);
  check_sizes(name_, label, prediction, static_cast<int64_t>(want.size()), static_cast<int64_t>(got.size()));
  double sum = 0;
  for (size_t i = 0; i < want.size(); ++i) sum += of_element(want[i] - got[i]);
  const auto count = static_cast<double>(want.size());
  if (micro_)
    add(sum, count);
  else
    add(of_mean(sum / count), 1);
}
double MAE::of_element(double difference) const { return std::abs(difference); }
double RMSE::of_mean(double mean) const { return std::sqrt(mean); }

void CrossEntropy::update(const Tensor& label, const Tensor& prediction) {
  const std::vector<double> want = numbers(label), got = numbers(prediction);
  const int64_t classes = prediction.shape().ndim() > 0 ? prediction.shape().back() : 1;
  check_sizes(name_, label, prediction, static_cast<int64_t>(want.size()) * classes, static_cast<int64_t>(got.size()));
  double sum = 0, count = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto c = static_cast<int64_t>(want[i]);
    if (ignore_label_ && c == *ignore_label_) continue;
    if (c < 0 || c >= classes) raise<IndexError>("metric {}: label {} is not one of {} classes", name_, c, classes);
    sum += of_probability(got[i * static_cast<size_t>(classes) + static_cast<size_t>(c)]);
    ++count;
  }
  add(sum, count);
}
double CrossEntropy::of_probability(double p) const { return -std::log(p + eps_); }
double Perplexity::of_probability(double p) const { return -std::log(std::max(p, eps_)); }
double Perplexity::value() const { return std::exp(CrossEntropy::value()); }

void PearsonCorrelation::Moments::add(const Moments& o) {
  const double total = n + o.n, weight = n * o.n / total, dx = o.x - x, dy = o.y - y;
  xx += o.xx + dx * dx * weight;
  yy += o.yy + dy * dy * weight;
  xy += o.xy + dx * dy * weight;
  x += dx * o.n / total;
  y += dy * o.n / total;
  n = total;
}
double PearsonCorrelation::Moments::correlation() const { return xy / std::sqrt(xx * yy); }

PearsonCorrelation::PearsonCorrelation(const std::string& average, std::string name)
    : MetricOf(std::move(name)), micro_(is_micro(name_, average)) {}
void PearsonCorrelation::update(const Tensor& label, const Tensor& prediction) {
  const std::vector<double> x = numbers(label), y = numbers(prediction);
  check_sizes(name_, label, prediction, static_cast<int64_t>(x.size()), static_cast<int64_t>(y.size()));
  if (x.empty()) return;
  Moments batch;
  for (size_t i = 0; i < x.size(); ++i) batch.add({.n = 1, .x = x[i], .y = y[i]});
  all_.add(batch);
  if (micro_)
    add(0, batch.n);
  else
    add(batch.correlation(), 1);
}
void PearsonCorrelation::reset() {
  Metric::reset();
  all_ = {};
}
double PearsonCorrelation::value() const { return micro_ && count_ > 0 ? all_.correlation() : Metric::value(); }

PCC::Confusion PCC::count_batch(const Tensor& label, const Tensor& prediction) {
  const autograd::Scope scope(false, std::nullopt);
  if (prediction.ndim() < 2) raise<ShapeError>("metric pcc: predictions have shape {}, but (batch, classes) is needed", prediction.shape());
  const std::vector<double> want = numbers(label), guess = numbers(argmax(prediction.detach(), {.axis = 1}));
  check_sizes("pcc", label, prediction, static_cast<int64_t>(want.size()), static_cast<int64_t>(guess.size()));
  double last = 1;
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] < 0 || want[i] >= kMostClasses) raise<IndexError>("metric pcc: a label is {}, which is no class", want[i]);
    last = std::max({last, want[i], guess[i]});
  }
  const auto size = static_cast<size_t>(last) + 1;
  Confusion counts(size, std::vector<double>(size));
  for (size_t i = 0; i < want.size(); ++i) ++counts[static_cast<size_t>(guess[i])][static_cast<size_t>(want[i])];
  return counts;
}
double PCC::score(const Confusion& c) {
  double n = 0, hits = 0, guesses = 0, labels = 0, both = 0;  // the last three: sums of squares, and of products
  for (size_t i = 0; i < c.size(); ++i) {
    double guessed = 0, labelled = 0;
    for (size_t k = 0; k < c.size(); ++k) {
      guessed += c[i][k];
      labelled += c[k][i];
    }
    n += guessed;
    hits += c[i][i];
    guesses += guessed * guessed;
    labels += labelled * labelled;
    both += guessed * labelled;
  }
  const double spread = (n * n - guesses) * (n * n - labels);
  return spread > 0 ? (n * hits - both) / std::sqrt(spread) : std::numeric_limits<double>::quiet_NaN();
}
void PCC::update(const Tensor& label, const Tensor& prediction) {
  const Confusion batch = count_batch(label, prediction);
  if (all_.size() < batch.size()) {
    all_.resize(batch.size());
    for (auto& row : all_) row.resize(batch.size());
  }
  for (size_t i = 0; i < batch.size(); ++i)
    for (size_t k = 0; k < batch.size(); ++k) all_[i][k] += batch[i][k];
  const auto samples = static_cast<double>(label.size());
  add(score(batch) * samples, samples);
}
void PCC::reset() {
  Metric::reset();
  all_.clear();
}
double PCC::value() const { return score(all_); }

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

namespace {

// Options are the arguments of the constructors.
struct AxisOptions {
  int axis = 1;
  std::string name;
};
struct TopKOptions {
  int64_t top_k = 1;
  std::string name;
};
struct AverageOptions {
  std::string average = "macro", name;
};
struct ProbabilityOptions {
  double eps = 1e-12;
  std::optional<int64_t> ignore_label;
  std::string name;
};
struct NameOptions {
  std::string name;
};

template <class O>
void name_field(AttrFields<O>& f) {
  f.field("name", &O::name, "what it is called in results");
}
// `make` takes the options and the name, which is `name` where none is given.
template <class O, class F, class Make>
void add_metric(Named<MetricPtr>& all, const std::string& key, const std::string& name, F own_fields, Make make) {
  all.add<O>(
      key,
      [=](AttrFields<O>& f) {
        own_fields(f);
        name_field(f);
      },
      [=](const O& o) -> MetricPtr { return make(o, o.name.empty() ? name : o.name); });
}
template <class M>
void add_average(Named<MetricPtr>& all, const std::string& name) {
  add_metric<AverageOptions>(
      all, name, name,
      [](AttrFields<AverageOptions>& f) { f.field("average", &AverageOptions::average, "macro: over batches; micro: over all at once"); },
      [](const AverageOptions& o, const std::string& n) { return std::make_shared<M>(o.average, n); });
}

const Named<MetricPtr>& metrics_by_name() {
  static const Named<MetricPtr> known = [] {
    Named<MetricPtr> all("metric");
    const auto axis = [](AttrFields<AxisOptions>& f) { f.field("axis", &AxisOptions::axis, "the axis of the classes"); };
    for (const char* key : {"accuracy", "acc"})
      add_metric<AxisOptions>(all, key, "accuracy", axis,
                              [](const AxisOptions& o, const std::string& n) { return std::make_shared<Accuracy>(o.axis, n); });
    add_metric<TopKOptions>(
        all, "top_k_accuracy", "top_k_accuracy",
        [](AttrFields<TopKOptions>& f) { f.field("top_k", &TopKOptions::top_k, "how many guesses count"); },
        [](const TopKOptions& o, const std::string& n) { return std::make_shared<TopKAccuracy>(o.top_k, n); });
    add_average<F1>(all, "f1");
    add_average<MCC>(all, "mcc");
    add_average<MAE>(all, "mae");
    add_average<MSE>(all, "mse");
    add_average<RMSE>(all, "rmse");
    add_average<PearsonCorrelation>(all, "pearsonr");
    using P = ProbabilityOptions;
    const auto ignored = [](AttrFields<P>& f) { f.field("ignore_label", &P::ignore_label, "a label that does not count; None for none"); };
    const auto eps = [=](AttrFields<P>& f) {
      f.field("eps", &P::eps, "added to probabilities");
      ignored(f);
    };
    for (const char* key : {"cross-entropy", "ce"})
      add_metric<P>(all, key, "cross-entropy", eps,
                    [](const P& o, const std::string& n) { return std::make_shared<CrossEntropy>(o.eps, n, o.ignore_label); });
    for (const char* key : {"negativeloglikelihood", "nll_loss"})
      add_metric<P>(all, key, "nll-loss", eps,
                    [](const P& o, const std::string& n) { return std::make_shared<CrossEntropy>(o.eps, n, o.ignore_label); });
    add_metric<P>(all, "perplexity", "perplexity", ignored,
                  [](const P& o, const std::string& n) { return std::make_shared<Perplexity>(o.ignore_label, n); });
    const auto nothing = [](AttrFields<NameOptions>&) {};
    add_metric<NameOptions>(all, "pcc", "pcc", nothing, [](const NameOptions&, const std::string& n) { return std::make_shared<PCC>(n); });
    add_metric<NameOptions>(all, "loss", "loss", nothing,
                            [](const NameOptions&, const std::string& n) { return std::make_shared<Loss>(n); });
    return all;
  }();
  return known;
}

}  // namespace

MetricPtr create(const std::string& name, const NamedOptions& options) { return metrics_by_name().create(name, options); }
std::vector<std::string> names() { return metrics_by_name().names(); }
std::vector<Option> options_of(const std::string& name) { return metrics_by_name().options_of(name); }

}  // namespace gluino::metric
