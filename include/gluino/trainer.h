// Trainer: applies an optimizer to parameters after backward.
#pragma once
#include "gluino/parameter.h"

namespace gluino {

struct SGDOptions {
  double learning_rate = 0.01, momentum = 0, wd = 0;
  double clip_gradient = -1;  // negative: none
};

// Stochastic gradient descent with momentum, one fused operator per parameter.
class Trainer {
 public:
  Trainer(const ParameterDict& parameters, SGDOptions options);
  // Gradients are divided by batch_size.
  void step(double batch_size);
  double learning_rate() const { return options_.learning_rate; }
  void set_learning_rate(double lr) { options_.learning_rate = lr; }

 private:
  std::vector<ParameterPtr> parameters_;
  Tensors momenta_;
  SGDOptions options_;
};

}  // namespace gluino
