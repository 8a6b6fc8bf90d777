// How one random number of each distribution is drawn. The parameters are those of the operators.
#pragma once
#include "dispatch/random.h"
#include "gluino/tensor.h"

namespace gluino::ops {

struct Uniform {
  static double draw(double low, double high, ElementRandom& r) { return low + (high - low) * r.uniform(); }
};
struct Normal {
  static double draw(double mean, double deviation, ElementRandom& r);
};
struct Gamma {
  static double draw(double alpha, double scale, ElementRandom& r);
};
struct Exponential {
  static double draw(double rate, ElementRandom& r);
};
struct Poisson {
  static double draw(double mean, ElementRandom& r);
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
