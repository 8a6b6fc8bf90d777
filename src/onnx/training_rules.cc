// Optimizer steps of ai.onnx.preview.training.
#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

// Inputs: rate, count, then as many groups of tensors as there are kinds of state, each for all weights.
struct Steps {
  double rate;
  int64_t count;
  int weights;
};
Steps steps_of(Call& c, int kinds) {
  const int rest = c.num_inputs() - 2;
  if (rest % kinds != 0) raise<UserError>("it has {} tensors, which are not {} for each weight", rest, kinds);
  return {c.number(0), c.whole_number(1), rest / kinds};
}

Tensors adagrad(Call& c) {
  const Steps s = steps_of(c, 3);
  const double rate = s.rate / (1 + static_cast<double>(s.count) * c.number("decay_factor", 0));
  Tensors weights, sums;
  for (int i = 0; i < s.weights; ++i) {
    const Tensor x = c.in(2 + i), gradient = c.in(2 + s.weights + i) + x * c.number("norm_coefficient", 0);
    sums.push_back(c.in(2 + 2 * s.weights + i) + square(gradient));
    weights.push_back(x - gradient * rate / (sqrt(sums.back()) + c.number("epsilon", 1e-6)));
  }
  weights.insert(weights.end(), sums.begin(), sums.end());
  return weights;
}

Tensors adam(Call& c) {
  const Steps s = steps_of(c, 4);
  const double alpha = c.number("alpha", 0.9), beta = c.number("beta", 0.999);
  const auto steps = static_cast<double>(s.count);
  const double rate = s.count > 0 ? s.rate * std::sqrt(1 - std::pow(beta, steps)) / (1 - std::pow(alpha, steps)) : s.rate;
  Tensors weights, means, squares;
  for (int i = 0; i < s.weights; ++i) {
    const Tensor x = c.in(2 + i), gradient = c.in(2 + s.weights + i) + x * c.number("norm_coefficient", 0);
    means.push_back(c.in(2 + 2 * s.weights + i) * alpha + gradient * (1 - alpha));
    squares.push_back(c.in(2 + 3 * s.weights + i) * beta + square(gradient) * (1 - beta));
    const Tensor moved = x - means.back() * rate / (sqrt(squares.back()) + c.number("epsilon", 1e-6));
    weights.push_back(moved * (1 - c.number("norm_coefficient_post", 0)));
  }
  weights.insert(weights.end(), means.begin(), means.end());
  weights.insert(weights.end(), squares.begin(), squares.end());
  return weights;
}

Tensors momentum(Call& c) {
  const Steps s = steps_of(c, 3);
  const double alpha = c.number("alpha", 0), beta = s.count > 0 ? c.number("beta", 1) : 1;
  const bool nesterov = c.text("mode", "standard") == "nesterov";
  Tensors weights, moments;
  for (int i = 0; i < s.weights; ++i) {
    const Tensor x = c.in(2 + i), gradient = c.in(2 + s.weights + i) + x * c.number("norm_coefficient", 0);
    moments.push_back(c.in(2 + 2 * s.weights + i) * alpha + gradient * beta);
    weights.push_back(x - (nesterov ? gradient + moments.back() * alpha : moments.back()) * s.rate);
  }
  weights.insert(weights.end(), moments.begin(), moments.end());
  return weights;
}

}  // namespace

void add_training_rules(Rules& rules) {
  rules.add("ai.onnx.preview.training.Adagrad", adagrad);
  rules.add("ai.onnx.preview.training.Adam", adam);
  rules.add("ai.onnx.preview.training.Momentum", momentum);
}

}  // namespace gluino::onnx
