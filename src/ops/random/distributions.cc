#include "ops/random/distributions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "kernels/isa/philox.h"
#include "kernels/isa/primitives.h"

namespace gluino::ops {
namespace {

// What ElementRandom::uniform() gives each of some elements, one number of all of them after the other.
class UniformOfEach {
 public:
  explicit UniformOfEach(const Neighbours& e) : e_(e), block_(static_cast<uint64_t>(e.first)) {}
  const double* next() {
    if (used_ == numbers_.size()) {
      std::array<uint32_t, 4 * Neighbours::kMost> w;
      kernels::philox_table().words(e_.stream.seed, e_.stream.stream, block_, e_.count, w.data());
      for (int64_t i = 0; i < e_.count; ++i) numbers_[0][i] = unit_double(w[4 * i], w[4 * i + 1]);
      for (int64_t i = 0; i < e_.count; ++i) numbers_[1][i] = unit_double(w[4 * i + 2], w[4 * i + 3]);
      block_ += ElementRandom::kNextBlock;
      used_ = 0;
    }
    return numbers_[used_++].data();
  }

 private:
  const Neighbours& e_;
  uint64_t block_;
  std::array<std::array<double, Neighbours::kMost>, 2> numbers_;
  size_t used_ = numbers_.size();
};

using Numbers = std::array<double, Neighbours::kMost>;
void apply_to(ScalarFn fn, double* x, int64_t n) {
  kernels::primitives().scalar[static_cast<int>(fn)][static_cast<int>(ComputeType::f64)](x, nullptr, nullptr, x, n);
}
// log(1 - u), of numbers in [0, 1).
Numbers logs_of_positive(const double* u, int64_t n) {
  Numbers x;
  for (int64_t i = 0; i < n; ++i) x[i] = 1 - u[i];
  apply_to(ScalarFn::log, x.data(), n);
  return x;
}

}  // namespace

double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// Box and Muller.
double Normal::draw(double mean, double deviation, ElementRandom& r) {
  const double radius = std::sqrt(-2 * std::log(r.positive())), angle = 2 * std::numbers::pi * r.uniform();
  return mean + deviation * radius * std::cos(angle);
}

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double Gamma::draw(double alpha, double scale, ElementRandom& r) {
  if (!(alpha > 0)) return alpha == 0 ? 0 : NAN;
  if (std::isinf(alpha)) return alpha * scale;  // no number would ever be accepted
  if (alpha < 1) {
    const double boost = std::pow(r.positive(), 1 / alpha);
    return draw(alpha + 1, scale, r) * boost;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = Normal::draw(0, 1, r), t = 1 + c * x, v = t * t * t;
    if (v > 0 && std::log(r.positive()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v * scale;
  }
}

// The first number of each element that would be accepted mostly is.
void Gamma::draw_many(double alpha, double scale, const Neighbours& e, double* numbers) {
  const int64_t n = e.count;
  const auto draw_one = [&](int64_t i) {
    ElementRandom r = e.of(i);
    numbers[i] = draw(alpha, scale, r);
  };
  if (!(alpha > 0) || std::isinf(alpha)) {
    for (int64_t i = 0; i < n; ++i) draw_one(i);
    return;
  }
  UniformOfEach uniform(e);
  Numbers boost;
  if (alpha < 1) {
    const double* u = uniform.next();
    for (int64_t i = 0; i < n; ++i) boost[i] = std::pow(1 - u[i], 1 / alpha);
  }
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  Numbers x = logs_of_positive(uniform.next(), n), angle, v, log_v;
  const double* turn = uniform.next();
  for (int64_t i = 0; i < n; ++i) angle[i] = 2 * std::numbers::pi * turn[i];
  apply_to(ScalarFn::cos, angle.data(), n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = std::sqrt(-2 * x[i]) * angle[i];
    const double t = 1 + c * x[i];
    log_v[i] = v[i] = t * t * t;
  }
  apply_to(ScalarFn::log, log_v.data(), n);
  const Numbers log_u = logs_of_positive(uniform.next(), n);
  for (int64_t i = 0; i < n; ++i) {
    const bool is_accepted = v[i] > 0 && log_u[i] < 0.5 * x[i] * x[i] + d - d * v[i] + d * log_v[i];
    if (is_accepted)
      numbers[i] = d * v[i] * scale * (alpha < 1 ? boost[i] : 1);
    else
      draw_one(i);
  }
}

double Exponential::draw(double rate, ElementRandom& r) { return -std::log(r.positive()) / rate; }

namespace {

constexpr double kSmallMean = 12;
// Hormann's transformed rejection PTRS, 1993.
struct LargeMean {
  explicit LargeMean(double m)
      : mean(m),
        b(0.931 + 2.53 * std::sqrt(m)),
        a(-0.059 + 0.02483 * b),
        alpha(1.1239 + 1.1328 / (b - 3.4)),
        accept(0.9277 - 3.6224 / (b - 2)) {}
  double candidate(double u, double s) const { return std::floor((2 * a / s + b) * u + mean + 0.43); }
  bool accepts_at_once(double s, double v) const { return s >= 0.07 && v <= accept; }
  double mean, b, a, alpha, accept;
};

}  // namespace

// Small means multiply uniforms (Knuth).
double Poisson::draw(double mean, ElementRandom& r) {
  if (!(mean > 0)) return mean == 0 ? 0 : NAN;
  if (mean < kSmallMean) {
    const double limit = std::exp(-mean);
    double product = r.uniform(), count = 0;
    for (; product > limit; ++count) product *= r.uniform();
    return count;
  }
  const LargeMean p(mean);
  for (;;) {
    const double u = r.uniform() - 0.5, v = r.positive(), s = 0.5 - std::abs(u), k = p.candidate(u, s);
    if (p.accepts_at_once(s, v)) return k;
    if (k < 0 || (s < 0.013 && v > s)) continue;
    if (std::log(v * p.alpha / (p.a / (s * s) + p.b)) <= k * std::log(mean) - mean - log_gamma(k + 1)) return k;
  }
}

void Poisson::draw_many(double mean, double, const Neighbours& e, double* numbers) {
  const int64_t n = e.count;
  const auto draw_one = [&](int64_t i) {
    ElementRandom r = e.of(i);
    numbers[i] = draw(mean, r);
  };
  UniformOfEach uniform(e);
  if (!(mean > 0)) {
    for (int64_t i = 0; i < n; ++i) draw_one(i);
  } else if (mean < kSmallMean) {
    // A product that is below the limit stays there, so nobody needs to stop.
    const double limit = std::exp(-mean);
    Numbers product;
    std::fill_n(product.begin(), n, 1.0);
    std::fill_n(numbers, n, 0.0);
    for (double factors = 0; factors < mean + 2 * std::sqrt(mean); ++factors) {
      const double* u = uniform.next();
      for (int64_t i = 0; i < n; ++i) {
        product[i] *= u[i];
        numbers[i] += product[i] > limit ? 1.0 : 0.0;
      }
    }
    for (int64_t i = 0; i < n; ++i)
      if (product[i] > limit) draw_one(i);
  } else {
    const LargeMean p(mean);
    const double *u = uniform.next(), *v = uniform.next();
    for (int64_t i = 0; i < n; ++i) {
      const double from_middle = u[i] - 0.5, s = 0.5 - std::abs(from_middle);
      numbers[i] = p.candidate(from_middle, s);
      if (!p.accepts_at_once(s, 1 - v[i])) draw_one(i);
    }
  }
}

// A Poisson number whose mean is drawn from a gamma distribution.
double NegativeBinomial::draw(double k, double p, ElementRandom& r) { return Poisson::draw(Gamma::draw(k, (1 - p) / p, r), r); }
double GeneralizedNegativeBinomial::draw(double mean, double alpha, ElementRandom& r) {
  return Poisson::draw(alpha == 0 ? mean : Gamma::draw(1 / alpha, alpha * mean, r), r);
}

}  // namespace gluino::ops
