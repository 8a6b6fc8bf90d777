// Metrics: numbers gathered over batches. update(label, prediction) adds a batch; value() is the metric so far.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

 protected:
  void add(double sum, double count) {
    sum_ += sum;
    count_ += count;
  }
  std::string name_;
  double sum_ = 0, count_ = 0;
};
using MetricPtr = std::shared_ptr<Metric>;

namespace detail {
template <class M>
std::shared_ptr<Metric> reset_copy(const M& metric) {
  auto copy = std::make_shared<M>(metric);
  copy->reset();
  return copy;
}
}  // namespace detail

// The share of samples whose largest prediction along `axis` is the label. Predictions of the label's shape are classes.
class Accuracy : public Metric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit Accuracy(int axis = 1, std::string name = "accuracy") : Metric(std::move(name)), axis_(axis) {}
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  int axis_;
};
// The share of samples whose label is among the top_k largest predictions.
class TopKAccuracy : public Metric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit TopKAccuracy(int64_t top_k = 1, const std::string& name = "top_k_accuracy");
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  int64_t top_k_;
};

// Counts of a classifier of two classes: predictions are (batch, 2) or probabilities of class 1.
class BinaryMetric : public Metric {
 public:
  BinaryMetric(std::string name, std::string average);  // "macro": the mean over batches; "micro": of all samples at once
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override;
  double value() const override;

 protected:
  struct Counts {
    double true_positive = 0, false_positive = 0, true_negative = 0, false_negative = 0;
  };
  virtual double score(const Counts& c) const = 0;

 private:
  bool micro_;
  Counts all_;
};
class F1 : public BinaryMetric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit F1(std::string average = "macro", std::string name = "f1") : BinaryMetric(std::move(name), std::move(average)) {}

 protected:
  double score(const Counts& c) const override;
};
class MCC : public BinaryMetric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit MCC(std::string average = "macro", std::string name = "mcc") : BinaryMetric(std::move(name), std::move(average)) {}

 protected:
  double score(const Counts& c) const override;
};

// Errors of a regression, averaged over all elements seen.
class MAE : public Metric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit MAE(std::string name = "mae") : Metric(std::move(name)) {}
  void update(const Tensor& label, const Tensor& prediction) override;
};
class MSE : public Metric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit MSE(std::string name = "mse") : Metric(std::move(name)) {}
  void update(const Tensor& label, const Tensor& prediction) override;
};
class RMSE : public MSE {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit RMSE(std::string name = "rmse") : MSE(std::move(name)) {}
  double value() const override;
};

// -log of the probability given to the label, per sample. Predictions are probabilities along the last axis.
class CrossEntropy : public Metric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit CrossEntropy(double eps = 1e-12, std::string name = "cross-entropy", std::optional<int64_t> ignore_label = {})
      : Metric(std::move(name)), eps_(eps), ignore_label_(ignore_label) {}
  void update(const Tensor& label, const Tensor& prediction) override;

 private:
  double eps_;
  std::optional<int64_t> ignore_label_;
};
class Perplexity : public CrossEntropy {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit Perplexity(std::optional<int64_t> ignore_label = {}, const std::string& name = "perplexity")
      : CrossEntropy(1e-10, name, ignore_label) {}
  double value() const override;
};

// Pearson's correlation of all labels and predictions seen.
class PearsonCorrelation : public Metric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit PearsonCorrelation(std::string name = "pearsonr") : Metric(std::move(name)) {}
  void update(const Tensor& label, const Tensor& prediction) override;
  void reset() override;
  double value() const override;

 private:
  double x_ = 0, y_ = 0, xx_ = 0, yy_ = 0, xy_ = 0;
};

// The mean of a loss: update({}, losses).
class Loss : public Metric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  explicit Loss(std::string name = "loss") : Metric(std::move(name)) {}
  void update(const Tensor& label, const Tensor& losses) override;
};

// The mean over batches of a function of (label, prediction).
class CustomMetric : public Metric {
 public:
  std::shared_ptr<Metric> fresh() const override { return detail::reset_copy(*this); }
  using Function = std::function<double(const Tensor& label, const Tensor& prediction)>;
  explicit CustomMetric(Function f, std::string name = "custom") : Metric(std::move(name)), f_(std::move(f)) {}
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
// "loss".
MetricPtr create(const std::string& name);

}  // namespace gluino::metric
