// Batch normalization's sums and sweeps against plain loops in double precision, over layouts of every kind of row.
#include "kernels/rows/normalization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace gluino::test {
namespace {

using kernels::ChannelLayout;

template <class T>
void expect_right(const ChannelLayout& l, double bound) {
  std::mt19937 engine(static_cast<unsigned>(l.inner * 100 + l.channels));
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto numbers = [&](int64_t count) {
    std::vector<T> v(count);
    for (T& x : v) x = static_cast<T>(uniform(engine));
    return v;
  };
  const int64_t size = l.outer * l.channels * l.inner;
  const auto channels = static_cast<size_t>(l.channels);
  const std::vector<T> x = numbers(size), head = numbers(size), scale = numbers(l.channels), shift = numbers(l.channels);
  const std::vector<T> a = numbers(l.channels), b = numbers(l.channels), rstd = numbers(l.channels);
  const auto channel_of = [&](size_t i) { return i / static_cast<size_t>(l.inner) % channels; };
  const double count = static_cast<double>(l.outer * l.inner);

  std::vector<double> mean(channels), var(channels), sum(channels), x_sum(channels);
  for (size_t i = 0; i < x.size(); ++i) mean[channel_of(i)] += static_cast<double>(x[i]) / count;
  for (size_t i = 0; i < x.size(); ++i) var[channel_of(i)] += std::pow(static_cast<double>(x[i]) - mean[channel_of(i)], 2) / count;
  std::vector<T> got_mean(channels), got_var(channels), got_sum(channels), got_x_sum(channels), out(x.size()), grad(x.size());
  kernels::channel_moments(l, x.data(), got_mean.data(), got_var.data());
  kernels::channel_affine(l, x.data(), got_mean.data(), scale.data(), shift.data(), out.data());
  kernels::channel_head_sums(l, head.data(), x.data(), got_mean.data(), rstd.data(), got_sum.data(), got_x_sum.data());
  kernels::channel_grad(l, head.data(), x.data(), got_mean.data(), rstd.data(), scale.data(), a.data(), b.data(), grad.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = channel_of(i);
    const double centred = static_cast<double>(x[i]) - mean[c], h = static_cast<double>(head[i]);
    sum[c] += h;
    x_sum[c] += h * centred * static_cast<double>(rstd[c]);
    ASSERT_NEAR(static_cast<double>(out[i]), centred * static_cast<double>(scale[c]) + static_cast<double>(shift[c]), bound);
    const double inner = h - static_cast<double>(a[c]) - centred * static_cast<double>(rstd[c]) * static_cast<double>(b[c]);
    ASSERT_NEAR(static_cast<double>(grad[i]), static_cast<double>(scale[c]) * inner, bound);
  }
  for (size_t c = 0; c < channels; ++c) {
    ASSERT_NEAR(static_cast<double>(got_mean[c]), mean[c], bound);
    ASSERT_NEAR(static_cast<double>(got_var[c]), var[c], bound);
    ASSERT_NEAR(static_cast<double>(got_sum[c]), sum[c], bound * count);
    ASSERT_NEAR(static_cast<double>(got_x_sum[c]), x_sum[c], bound * count);
  }
}

TEST(ChannelNorms, AreTheSumsOfTheirDefinition) {
  for (const int64_t inner : {1, 2, 4, 7, 8, 15, 16, 17, 33, 64, 100, 1000})
    for (const int64_t channels : {1, 3, 20}) {
      SCOPED_TRACE(inner);
      expect_right<float>({5, channels, inner}, 2e-6);
      expect_right<double>({5, channels, inner}, 1e-14);
    }
}

}  // namespace
}  // namespace gluino::test
