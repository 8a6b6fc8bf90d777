// The generators: the same numbers for every number of threads, and the right distributions.
#include "gluino/random.h"

#include <cmath>
#include <numeric>

#include "dispatch/random.h"
#include "gluino/autograd.h"
#include "gluino/op.h"
#include "support/support.h"

namespace gluino::test {
namespace {

struct Moments {
  double mean = 0, variance = 0;
  explicit Moments(const Tensor& t) {
    const std::vector<double> v = t.to_vector<double>();
    for (double x : v) mean += x / static_cast<double>(v.size());
    for (double x : v) variance += (x - mean) * (x - mean) / static_cast<double>(v.size());
  }
};
constexpr int64_t kMany = 200000;

void expect_moments(const Tensor& t, double mean, double variance) {
  const Moments m(t);
  EXPECT_NEAR(m.mean, mean, 0.02 * std::max(1.0, std::sqrt(variance)));
  EXPECT_NEAR(m.variance, variance, 0.04 * std::max(1.0, variance));
}

TEST(Random, HasTheMomentsOfItsDistribution) {
  seed(7);
  expect_moments(random::uniform(-1, 3, {kMany}), 1, 16.0 / 12);
  expect_moments(random::uniform(-1, 3, {kMany}, {.dtype = DType::float64}), 1, 16.0 / 12);
  expect_moments(random::normal(2, 3, {kMany}), 2, 9);
  expect_moments(random::normal(2, 3, {kMany}, {.dtype = DType::float64}), 2, 9);
  expect_moments(random::gamma(2.5, 0.5, {kMany}), 1.25, 0.625);
  expect_moments(random::gamma(0.4, 2, {kMany}), 0.8, 1.6);
  expect_moments(random::exponential(2, {kMany}), 2, 4);
  expect_moments(random::poisson(3.5, {kMany}), 3.5, 3.5);
  expect_moments(random::poisson(40, {kMany}), 40, 40);
  expect_moments(random::negative_binomial(4, 0.4, {kMany}), 6, 15);
  expect_moments(random::generalized_negative_binomial(2, 0.3, {kMany}), 2, 3.2);
  expect_moments(random::randint(-2, 5, {kMany}), 1, 4);
  expect_moments(random::bernoulli(0.3, {kMany}), 0.3, 0.21);
}

TEST(Random, DoesNotDependOnTheNumberOfThreads) {
  const int before = num_threads();
  auto draw = [](int threads) {
    set_num_threads(threads);
    seed(11);
    const Tensor p = call("softmax", {random::normal(0, 1, {300, 50})});
    return Tensors{random::uniform(0, 1, {100001}), random::normal(0, 1, {100001}), random::gamma(0.7, 1, {50001}),
                   random::poisson(20, {50001}),    random::multinomial(p, {7}),    random::shuffle(arange(1000))};
  };
  const Tensors one = draw(1), four = draw(4);
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(array_equal(one[i], four[i])) << "tensor " << i;
}

// Fisher and Yates, from the end, with the first number of each element.
TEST(Random, ShufflesByTheNumbersOfItsElements) {
  for (const int64_t n : {1, 2, 3, 256, 257, 258, 1000}) {
    seed(5);
    const RandomStream stream = peek_random_stream(cpu());
    std::vector<float> wanted(static_cast<size_t>(n));
    std::iota(wanted.begin(), wanted.end(), 0.0f);
    for (int64_t i = n - 1; i > 0; --i)
      std::swap(wanted[i], wanted[static_cast<size_t>(ElementRandom(stream, i).uniform() * static_cast<double>(i + 1))]);
    EXPECT_EQ(random::shuffle(arange(static_cast<double>(n))).to_vector<float>(), wanted) << n;
  }
}

// Numbers with the same parameters are drawn many at a time, others one by one: from one seed they are the same.
TEST(Random, NumbersDrawnTogetherAreThoseDrawnOneByOne) {
  const auto compare = [](const char* name, const std::vector<double>& values, double tolerance) {
    SCOPED_TRACE(std::string(name) + " of " + std::to_string(values[0]));
    constexpr int64_t n = 3001;
    Tensors one, all;
    for (double v : values) {
      one.push_back(full({1}, v, {.dtype = DType::float64}));
      all.push_back(full({n}, v, {.dtype = DType::float64}));
    }
    seed(13);
    const std::vector<double> together = call(name, one, {{"shape", Shape{n}}}).to_vector<double>();
    seed(13);
    const std::vector<double> apart = call(name, all, {}).to_vector<double>();
    ASSERT_EQ(together.size(), apart.size());
    for (size_t i = 0; i < apart.size(); ++i) ASSERT_NEAR(together[i], apart[i], tolerance * std::abs(apart[i])) << i;
  };
  for (const double mean : {0.0, 0.05, 4.0, 11.9, 12.0, 300.0}) compare("_sample_poisson", {mean}, 0);
  for (const double alpha : {0.0, 0.1, 0.9, 1.0, 2.0, 70.0}) compare("_sample_gamma", {alpha, 1.5}, 1e-12);
}

TEST(Random, SeedStartsAgainAndDevicesDiffer) {
  seed(3);
  const Tensor first = random::uniform(0, 1, {8}), second = random::uniform(0, 1, {8});
  EXPECT_FALSE(array_equal(first, second));
  const Tensor other = random::uniform(0, 1, {8}, {.device = cpu(1)});
  EXPECT_FALSE(array_equal(first, other.to(cpu(0))));
  seed(3, cpu(0));
  EXPECT_TRUE(array_equal(first, random::uniform(0, 1, {8})));
}

// Known answers of Philox4x32-10 (Random123's test vectors): counter and key all zeros.
TEST(Random, PhiloxGivesThePublishedWords) {
  seed(0);
  const std::vector<float> v = random::uniform(0, 1, {4}).to_vector<float>();
  const uint32_t words[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(v[i], static_cast<float>(words[i] >> 8) * 0x1p-24f);
}

TEST(Dropout, KeepsTheMeanAndItsGradientUsesTheSameMask) {
  seed(5);
  Tensor x = ones({1000, 50});
  x.attach_grad();
  Tensor y;
  {
    const auto record = autograd::record();
    y = call("Dropout", {x}, {{"p", 0.25}});
  }
  y.backward();
  EXPECT_NEAR(Moments(y).mean, 1, 0.02);
  EXPECT_TRUE(array_equal(x.grad(), y));
  EXPECT_TRUE(array_equal(call("Dropout", {x}, {{"p", 0.25}}), ones({1000, 50})));
}

}  // namespace
}  // namespace gluino::test
