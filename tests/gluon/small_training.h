// A network of two layers, and steps of training on it.
#pragma once
#include "gluino/gluino.h"

namespace gluino::test {

struct SmallNet : nn::HybridBlock {
  nn::Dense hidden{6, {.activation = "tanh"}}, output{3};
  SmallNet() { GLUINO_CHILDREN(hidden, output); }
  Tensor forward(const Tensor& x) override { return output(hidden(x)); }
};

inline double train_step(Block& net, Trainer& trainer, const Tensor& x, const Tensor& y) {
  loss::L2Loss loss_of;
  Tensor loss;
  {
    const auto record = autograd::record();
    loss = loss_of(net(x), y);
  }
  loss.backward();
  trainer.step(static_cast<double>(x.extent(0)));
  return loss.mean().item<double>();
}

inline Tensor flat_parameters(const Block& net) {
  Tensors parts;
  for (const auto& [name, p] : net.collect_params()) parts.push_back(p->reduced().reshape({-1}));
  return concat(parts, {.dim = 0});
}

}  // namespace gluino::test
