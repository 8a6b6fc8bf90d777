// Metrics by hand-checked arithmetic: the formula on a few numbers, over two batches.
#include <cmath>

#include "gluino/metric.h"
#include "support/support.h"

namespace gluino::test {
namespace {

TEST(Metrics, AccuracyAndTopK) {
  metric::Accuracy accuracy;
  metric::TopKAccuracy top2(2);
  EXPECT_TRUE(std::isnan(accuracy.value()));
  for (metric::Metric* m : {static_cast<metric::Metric*>(&accuracy), static_cast<metric::Metric*>(&top2)}) {
    m->update(tensor({0, 1}), tensor({{0.6, 0.3, 0.1}, {0.5, 0.4, 0.1}}));
    m->update(tensor({2}), tensor({{0.6, 0.3, 0.1}}));
  }
  EXPECT_DOUBLE_EQ(accuracy.value(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(top2.value(), 2.0 / 3);
  EXPECT_EQ(top2.name(), "top_k_accuracy_2");
  accuracy.reset();
  accuracy.update(tensor({3, 4}), tensor({3, 5}));  // classes, not scores
  EXPECT_DOUBLE_EQ(accuracy.value(), 0.5);
  GLUINO_EXPECT_ERROR(ShapeError, "do not fit", accuracy.update(tensor({1, 2, 3}), ones({2, 4})));
}

TEST(Metrics, F1AndMCC) {
  // Batch 1: tp 1, fp 1, tn 0, fn 0. Batch 2: tp 1, fp 0, tn 1, fn 1.
  auto feed = [](metric::Metric&& m) {
    m.update(tensor({1, 0}), tensor({{0.1, 0.9}, {0.2, 0.8}}));
    m.update(tensor({1, 1, 0}), tensor({0.9, 0.1, 0.3}));
    return m.value();
  };
  EXPECT_DOUBLE_EQ(feed(metric::F1()), (2.0 / 3 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(feed(metric::F1("micro")), 4.0 / 6);
  EXPECT_DOUBLE_EQ(feed(metric::MCC("micro")), (2 * 1 - 1 * 1) / std::sqrt(3.0 * 3 * 2 * 2));
  metric::F1 f;
  GLUINO_EXPECT_ERROR(UserError, "the two classes are 0 and 1", f.update(tensor({2}), tensor({0.5})));
}

TEST(Metrics, RegressionIsAveragedOverBatchesOrElements) {
  auto feed = [](const std::string& name, const std::string& average) {
    const metric::MetricPtr m = metric::create(name, {{"average", average}});
    m->update(tensor({1, 2, 3}), tensor({1, 3, 5}));
    m->update(tensor({0}), tensor({-5}));
    return m->value();
  };
  EXPECT_DOUBLE_EQ(feed("mae", "micro"), (0 + 1 + 2 + 5) / 4.0);
  EXPECT_DOUBLE_EQ(feed("mse", "micro"), (0 + 1 + 4 + 25) / 4.0);
  EXPECT_DOUBLE_EQ(feed("rmse", "micro"), std::sqrt(30 / 4.0));
  EXPECT_DOUBLE_EQ(feed("mae", "macro"), (1.0 + 5) / 2);
  EXPECT_DOUBLE_EQ(feed("mse", "macro"), (5.0 / 3 + 25) / 2);
  EXPECT_DOUBLE_EQ(feed("rmse", "macro"), (std::sqrt(5.0 / 3) + 5) / 2);
  GLUINO_EXPECT_ERROR(UserError, "average is 'mean'; it must be macro or micro", metric::MSE("mean"));
  for (const double far : {0.0, 1e9}) {  // y = 2 x + 1, and digits are not lost far from 0
    metric::PearsonCorrelation all("micro"), each;
    for (metric::Metric* p : {static_cast<metric::Metric*>(&all), static_cast<metric::Metric*>(&each)}) {
      p->update(from_vector(std::vector<double>{far + 1, far + 2}), tensor({3, 5}));
      p->update(from_vector(std::vector<double>{far + 3, far + 4}), tensor({7, 9}));
      EXPECT_NEAR(p->value(), 1, 1e-12);
    }
  }
}

TEST(Metrics, CrossEntropyAndPerplexity) {
  metric::CrossEntropy ce;
  metric::Perplexity perplexity(0);
  ce.update(tensor({1, 0}), tensor({{0.5, 0.5}, {0.25, 0.75}}));
  perplexity.update(tensor({1, 0}), tensor({{0.5, 0.5}, {0.25, 0.75}}));
  EXPECT_NEAR(ce.value(), (std::log(2) + std::log(4)) / 2, 1e-9);
  EXPECT_NEAR(perplexity.value(), 2, 1e-9);
  GLUINO_EXPECT_ERROR(IndexError, "label 2 is not one of 2 classes", ce.update(tensor({2}), tensor({{0.5, 0.5}})));
}

TEST(Metrics, CompositeCustomLossAndNames) {
  metric::CompositeMetric all(
      {metric::create("acc"), std::make_shared<metric::CustomMetric>(
                                  [](const Tensor& l, const Tensor& p) { return (l - p.max(Shape{1})).sum().item<double>(); }, "mine")});
  all.update(tensor({1}), tensor({{0.25, 0.75}}));
  const auto values = all.get();
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0], (std::pair<std::string, double>{"accuracy", 1}));
  EXPECT_EQ(values[1], (std::pair<std::string, double>{"mine", 0.25}));
  metric::Loss loss;
  loss.update({}, tensor({1, 2}));
  loss.update({}, tensor({6}));
  EXPECT_DOUBLE_EQ(loss.value(), 3);
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'accuracy'?", metric::create("acuracy"));
}

TEST(Metrics, TheCorrelationOfClasses) {
  // Of two classes it is that of Matthews over all samples.
  metric::PCC pcc;
  metric::MCC mcc("micro");
  for (metric::Metric* m : {static_cast<metric::Metric*>(&pcc), static_cast<metric::Metric*>(&mcc)}) {
    m->update(tensor({1, 0}), tensor({{0.1, 0.9}, {0.2, 0.8}}));
    m->update(tensor({1, 1, 0}), tensor({{0.1, 0.9}, {0.9, 0.1}, {0.7, 0.3}}));
  }
  EXPECT_DOUBLE_EQ(pcc.value(), mcc.value());
  // Three classes, guesses 0 1 2 2 for labels 0 1 2 0: 4 samples, 3 hits, guesses (1 1 2), labels (2 1 1).
  pcc.reset();
  pcc.update(tensor({0, 1}), tensor({{3, 1, 1}, {1, 3, 1}}));
  pcc.update(tensor({2, 0}), tensor({{1, 1, 3}, {1, 1, 3}}));
  EXPECT_DOUBLE_EQ(pcc.value(), (4 * 3 - 5) / std::sqrt((16.0 - 6) * (16 - 6)));
  EXPECT_TRUE(std::isnan(pcc.fresh()->value()));
  GLUINO_EXPECT_ERROR(IndexError, "a label is -1", pcc.update(tensor({-1}), ones({1, 2})));
  GLUINO_EXPECT_ERROR(ShapeError, "(batch, classes)", pcc.update(tensor({1}), ones({2})));
}

}  // namespace
}  // namespace gluino::test
