#include "ops/random/distributions.h"

#include <cmath>
#include <numbers>

namespace gluino::ops {

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

double Exponential::draw(double rate, ElementRandom& r) { return -std::log(r.positive()) / rate; }

// Small means multiply uniforms (Knuth); large ones use Hormann's transformed rejection PTRS, 1993.
double Poisson::draw(double mean, ElementRandom& r) {
  if (!(mean > 0)) return mean == 0 ? 0 : NAN;
  if (mean < 12) {
    const double limit = std::exp(-mean);
    double product = r.uniform(), count = 0;
    for (; product > limit; ++count) product *= r.uniform();
    return count;
  }
  const double b = 0.931 + 2.53 * std::sqrt(mean), a = -0.059 + 0.02483 * b, alpha = 1.1239 + 1.1328 / (b - 3.4),
               accept = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = r.uniform() - 0.5, v = r.positive(), s = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / s + b) * u + mean + 0.43);
    if (s >= 0.07 && v <= accept) return k;
    if (k < 0 || (s < 0.013 && v > s)) continue;
    if (std::log(v * alpha / (a / (s * s) + b)) <= k * std::log(mean) - mean - log_gamma(k + 1)) return k;
  }
}

// A Poisson number whose mean is drawn from a gamma distribution.
double NegativeBinomial::draw(double k, double p, ElementRandom& r) { return Poisson::draw(Gamma::draw(k, (1 - p) / p, r), r); }
double GeneralizedNegativeBinomial::draw(double mean, double alpha, ElementRandom& r) {
  return Poisson::draw(alpha == 0 ? mean : Gamma::draw(1 / alpha, alpha * mean, r), r);
}

}  // namespace gluino::ops
