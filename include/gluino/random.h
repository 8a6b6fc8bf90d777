// Random numbers. The same seed gives the same numbers in every mode and for every number of threads.
#pragma once
#include <optional>

#include "gluino/tensor.h"

namespace gluino {

// Starts the generator of one device, or of all, from the beginning.
void seed(uint64_t seed, std::optional<Device> device = {});

namespace random {

Tensor uniform(double low = 0, double high = 1, const Shape& shape = {1}, TensorOptions options = {});
Tensor normal(double loc = 0, double scale = 1, const Shape& shape = {1}, TensorOptions options = {});
Tensor gamma(double alpha = 1, double beta = 1, const Shape& shape = {1}, TensorOptions options = {});  // beta is the scale
Tensor exponential(double scale = 1, const Shape& shape = {1}, TensorOptions options = {});
Tensor poisson(double lam = 1, const Shape& shape = {1}, TensorOptions options = {});
Tensor negative_binomial(double k = 1, double p = 1, const Shape& shape = {1}, TensorOptions options = {});
Tensor generalized_negative_binomial(double mu = 1, double alpha = 1, const Shape& shape = {1}, TensorOptions options = {});
Tensor randint(int64_t low, int64_t high, const Shape& shape = {1}, TensorOptions options = {});  // int32 unless options say otherwise
Tensor bernoulli(double prob = 0.5, const Shape& shape = {1}, TensorOptions options = {});
Tensor multinomial(const Tensor& probabilities, const Shape& shape = {});
Tensor shuffle(const Tensor& data);  // along the first axis

}  // namespace random
}  // namespace gluino
