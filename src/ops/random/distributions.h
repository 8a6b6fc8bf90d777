// How one random number of each distribution is drawn. The parameters are those of the operators.
#pragma once
#include "dispatch/random.h"
#include "gluino/tensor.h"

namespace gluino::ops {

// Some neighbouring elements of a stream, from `first` on.
struct Neighbours {
  static constexpr int64_t kMost = 256;
  RandomStream stream;
  int64_t first, count;  // at most kMost
  ElementRandom of(int64_t i) const { return {stream, first + i}; }
};

// draw_many: the numbers of neighbouring elements as draw gives them, most of them as vectors; those of Gamma differ from draw's in the
// last places of float64.

struct Uniform {
  static double draw(double low, double high, ElementRandom& r) { return low + (high - low) * r.uniform(); }
};
struct Normal {
  static double draw(double mean, double deviation, ElementRandom& r);
};
struct Gamma {
  static double draw(double alpha, double scale, ElementRandom& r);
  static void draw_many(double alpha, double scale, const Neighbours& elements, double* numbers);
};
struct Exponential {
  static double draw(double rate, ElementRandom& r);
};
struct Poisson {
  static double draw(double mean, ElementRandom& r);
  static void draw_many(double mean, double, const Neighbours& elements, double* numbers);
};
struct NegativeBinomial {
  static double draw(double k, double p, ElementRandom& r);
};
struct GeneralizedNegativeBinomial {
  static double draw(double mean, double alpha, ElementRandom& r);
};

// Fills a tensor from the next stream of its device, as the operator random_normal does.
void fill_normal(Tensor& out, double mean, double deviation);

// log(|gamma(x)|), safe to call from several threads.
double log_gamma(double x);

}  // namespace gluino::ops
