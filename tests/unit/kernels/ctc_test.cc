// The loss of unaligned sequences against the sum over all ways, also where probabilities are too small for their product to be one.
#include "kernels/recurrent/ctc.h"

#include <cmath>

#include "unit/kernels/random_data.h"

namespace gluino::test {
namespace {

using Doubles = std::vector<double>;

// What is left of a way when repetitions and then blanks, which are 0, are dropped.
std::vector<int64_t> collapsed(const std::vector<int64_t>& way) {
  std::vector<int64_t> labels;
  for (size_t t = 0; t < way.size(); ++t)
    if (way[t] != 0 && (t == 0 || way[t] != way[t - 1])) labels.push_back(way[t]);
  return labels;
}

Doubles log_softmax(const Doubles& x, int64_t classes) {
  Doubles out;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(classes)) {
    const auto begin = x.begin() + static_cast<ptrdiff_t>(row), end = begin + classes;
    const double most = *std::max_element(begin, end);
    double sum = 0;
    for (auto i = begin; i != end; ++i) sum += std::exp(*i - most);
    for (auto i = begin; i != end; ++i) out.push_back(*i - most - std::log(sum));
  }
  return out;
}

// Over all ways, each by itself.
double loss_of_all_ways(const Doubles& x, int64_t time, int64_t classes, const std::vector<int64_t>& labels) {
  const Doubles logs = log_softmax(x, classes);
  double total = -INFINITY;
  std::vector<int64_t> way(static_cast<size_t>(time), 0);
  for (;;) {
    if (collapsed(way) == labels) {
      double log_p = 0;
      for (int64_t t = 0; t < time; ++t) log_p += logs[t * classes + way[t]];
      const double high = std::max(total, log_p), low = std::min(total, log_p);
      total = high + std::log1p(std::exp(low - high));
    }
    size_t digit = 0;
    while (digit < way.size() && ++way[digit] == classes) way[digit++] = 0;
    if (digit == way.size()) return -total;
  }
}

class Ctc : public RandomData {
 protected:
  Ctc() : RandomData(17) {}
};

TEST_F(Ctc, IsTheSumOverAllWays) {
  constexpr int64_t time = 6, classes = 3;
  const std::vector<std::vector<int64_t>> sequences{{}, {1}, {1, 2}, {1, 1}, {2, 1, 2}, {1, 1, 1}};
  // The larger the activations, the smaller the probabilities: from some on, products of them are below every number.
  for (const double size : {1.0, 20.0, 300.0, 3000.0})
    for (const auto& labels : sequences) {
      Doubles x;
      for (const float v : numbers(time * classes)) x.push_back(size * static_cast<double>(v));
      Doubles gradient(x.size(), NAN);
      const double loss = kernels::ctc_loss(x.data(), time, classes, labels, 0, gradient.data());
      const double want = loss_of_all_ways(x, time, classes, labels);
      EXPECT_NEAR(loss, want, 1e-9 * (1 + std::abs(want))) << size;
      if (size > 20) continue;  // steps as long as differences need pass over many corners
      for (size_t i = 0; i < x.size(); ++i) {
        constexpr double kStep = 1e-5;
        Doubles up = x, down = x;
        up[i] += kStep;
        down[i] -= kStep;
        const double slope = (loss_of_all_ways(up, time, classes, labels) - loss_of_all_ways(down, time, classes, labels)) / (2 * kStep);
        EXPECT_NEAR(gradient[i], slope, 1e-5) << size << ", element " << i;
      }
    }
}

// A long way of little likelihood beside a blank that is nearly certain: the cells that the labels need are far below the largest.
TEST_F(Ctc, WaysMayBeFarLessLikelyThanOthers) {
  constexpr int64_t time = 400, classes = 5;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 150; ++i) labels.push_back(1 + i % 4);
  Doubles x(time * classes, 0.0), gradient(x.size(), NAN);
  for (int64_t t = 0; t < time; ++t) x[t * classes] = 12;
  const double loss = kernels::ctc_loss(x.data(), time, classes, labels, 0, gradient.data());
  // Every way has 150 labels or more; those with exactly so many, each between blanks or not, are nearly all of them.
  const double log_label = -std::log(std::exp(12.0) + 4), log_blank = 12 + log_label;
  const double ways = std::lgamma(401.0) - std::lgamma(151.0) - std::lgamma(251.0);
  EXPECT_NEAR(loss, -(150 * log_label + 250 * log_blank + ways), 0.01);
  double sum = 0;
  for (const double g : gradient) sum += std::abs(g);
  EXPECT_GT(sum, 100);
  for (int64_t t = 0; t < time; ++t) {
    double row = 0;
    for (int64_t c = 0; c < classes; ++c) row += gradient[t * classes + c];
    ASSERT_NEAR(row, 0, 1e-9) << t;
  }
}

}  // namespace
}  // namespace gluino::test
