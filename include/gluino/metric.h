// Metrics: numbers gathered over batches. update(label, prediction) adds a batch; value() is the metric so far.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gluino/named_options.h"
#include "gluino/tensor.h"

namespace gluino::metric {

class Metric {
 public:
  explicit Metric(std::string name) : name_(std::move(name)) {}
  virtual ~Metric() = default;
  virtual void update(const Tensor& label, const Tensor& prediction) = 0;
  virtual void reset() {
    sum_ = 0;
    count_ = 0;
  }
  virtual double value() const;                       // NaN before the first update
  virtual std::shared_ptr<Metric> fresh() const = 0;  // another of the same kind that has seen nothing
  virtual std::vector<std::pair<std::string, double>> get() const { return {{name_, value()}}; }
  const std::string& name() const { return name_; }
  // value() is their ratio, or a function of it
  double sum() const { return sum_; }
  double count() const { return count_; }

 protected:
  void add(double sum, double count) {
    sum_ += sum;
    count_ += count;
  }
  std::string name_;
  double sum_ = 0, count_ = 0;
};
using MetricPtr = std::shared_ptr<Metric>;

// A metric of class Self, which is made fresh by copying it.
template <class Self, class Base = Metric>
class MetricOf : public Base {
 public:
  using Base::Base;
  std::shared_ptr<Metric> fresh() const override {
    auto copy = std::make_shared<Self>(static_cast<const Self&>(*this));
    copy->reset();
    return copy;
  }
};

// The share of samples whose largest prediction along `axis` is the label. Predictions of the label's shape are classes.
class Accuracy : public MetricOf<Accuracy> {
 public:
  explicit Accuracy(int axis = 1, std::string name = "accuracy") : MetricOf(std::move(name)), axis_(axis) {}
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  int axis_;
};
// The share of samples whose label is among the top_k largest predictions.
class TopKAccuracy : public MetricOf<TopKAccuracy> {
 public:
  explicit TopKAccuracy(int64_t top_k = 1, const std::string& name = "top_k_accuracy");
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  int64_t top_k_;
};

// Counts of a classifier of two classes: predictions are (batch, 2) or probabilities of class 1.
class BinaryMetric : public Metric {
 public:
  BinaryMetric(std::string name, const std::string& average);  // "macro": the mean over batches; "micro": of all samples at once
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override;
  double value() const override;

  struct Counts {
    double true_positive = 0, false_positive = 0, true_negative = 0, false_negative = 0;
  };
  Counts count_batch(const Tensor& label, const Tensor& prediction) const;
  virtual double score(const Counts& c) const = 0;

 private:
  bool micro_;
  Counts all_;
};
class F1 : public MetricOf<F1, BinaryMetric> {
 public:
  explicit F1(const std::string& average = "macro", std::string name = "f1") : MetricOf(std::move(name), average) {}

  double score(const Counts& c) const override;
};
class MCC : public MetricOf<MCC, BinaryMetric> {
 public:
  explicit MCC(const std::string& average = "macro", std::string name = "mcc") : MetricOf(std::move(name), average) {}

  double score(const Counts& c) const override;
};

// Errors of a regression. "macro": the mean over batches of a batch's error; "micro": the error of all elements at once.
class RegressionMetric : public Metric {
 public:
  RegressionMetric(std::string name, const std::string& average);
  void update(const Tensor& label, const Tensor& prediction) override;
  double value() const override { return micro_ ? of_mean(Metric::value()) : Metric::value(); }

 protected:
  virtual double of_element(double difference) const = 0;
  virtual double of_mean(double mean) const { return mean; }

 private:
  bool micro_;
};
class MAE : public MetricOf<MAE, RegressionMetric> {
 public:
  explicit MAE(const std::string& average = "macro", std::string name = "mae") : MetricOf(std::move(name), average) {}

 protected:
  double of_element(double difference) const override;
};
class MSE : public MetricOf<MSE, RegressionMetric> {
 public:
  explicit MSE(const std::string& average = "macro", std::string name = "mse") : MetricOf(std::move(name), average) {}

 protected:
  double of_element(double difference) const override { return difference * difference; }
};
class RMSE : public MetricOf<RMSE, MSE> {
 public:
  explicit RMSE(const std::string& average = "macro", std::string name = "rmse") : MetricOf(average, std::move(name)) {}

 protected:
  double of_mean(double mean) const override;
};

// -log(the probability given to the label + eps), per sample. Predictions are probabilities along the last axis.
class CrossEntropy : public MetricOf<CrossEntropy> {
 public:
  explicit CrossEntropy(double eps = 1e-12, std::string name = "cross-entropy", std::optional<int64_t> ignore_label = {})
      : MetricOf(std::move(name)), eps_(eps), ignore_label_(ignore_label) {}
  void update(const Tensor& label, const Tensor& prediction) override;

 protected:
  virtual double of_probability(double p) const;
  double eps_;

 private:
  std::optional<int64_t> ignore_label_;
};
// exp of the mean of -log(probability), probabilities being at least 1e-10.
class Perplexity : public MetricOf<Perplexity, CrossEntropy> {
 public:
  explicit Perplexity(std::optional<int64_t> ignore_label = {}, const std::string& name = "perplexity")
      : MetricOf(1e-10, name, ignore_label) {}
  double value() const override;

 protected:
  double of_probability(double p) const override;
};

// Pearson's correlation of labels and predictions. "macro": the mean of the batches' correlations; "micro": of all that was seen.
class PearsonCorrelation : public MetricOf<PearsonCorrelation> {
 public:
  explicit PearsonCorrelation(const std::string& average = "macro", std::string name = "pearsonr");
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override;
  double value() const override;

 private:
  // Means and sums of products of differences from them, which do not lose digits where means are large (Chan et al., 1979).
  struct Moments {
    double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    void add(const Moments& other);
    double correlation() const;
  };
  bool micro_;
  Moments all_;
};

// The correlation of classes (the coefficient R_K of Gorodkin, 2004): of two classes it is MCC of all samples. Predictions are (batch,
// classes).
class PCC : public MetricOf<PCC> {
 public:
  explicit PCC(std::string name = "pcc") : MetricOf(std::move(name)) {}
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override;
  double value() const override;

  using Confusion = std::vector<std::vector<double>>;  // samples by guess and label
  static Confusion count_batch(const Tensor& label, const Tensor& prediction);
  static double score(const Confusion& c);  // NaN where all guesses, or all labels, are of one class

 private:
  Confusion all_;
};

// The mean of a loss: update({}, losses).
class Loss : public MetricOf<Loss> {
 public:
  explicit Loss(std::string name = "loss") : MetricOf(std::move(name)) {}
  void update(const Tensor& label, const Tensor& losses) override;
};

// The mean over batches of a function of (label, prediction).
class CustomMetric : public MetricOf<CustomMetric> {
 public:
  using Function = std::function<double(const Tensor& label, const Tensor& prediction)>;
  explicit CustomMetric(Function f, std::string name = "custom") : MetricOf(std::move(name)), f_(std::move(f)) {}
  void update(const Tensor& label, const Tensor& prediction) override { add(f_(label, prediction), 1); }

 private:
  Function f_;
};

class CompositeMetric : public Metric {
 public:
  explicit CompositeMetric(std::vector<MetricPtr> metrics = {}) : Metric("composite"), metrics_(std::move(metrics)) {}
  void add(MetricPtr metric) { metrics_.push_back(std::move(metric)); }
  std::shared_ptr<Metric> fresh() const override;
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override;
  double value() const override;  // of the first
  std::vector<std::pair<std::string, double>> get() const override;

 private:
  std::vector<MetricPtr> metrics_;
};

// By name: "accuracy" ("acc"), "top_k_accuracy", "f1", "mcc", "mae", "mse", "rmse", "cross-entropy" ("ce"), "perplexity", "pearsonr",
// "loss"; options by the names of the constructors' arguments.
MetricPtr create(const std::string& name, const NamedOptions& options = {});
std::vector<std::string> names();
std::vector<Option> options_of(const std::string& name);

}  // namespace gluino::metric
