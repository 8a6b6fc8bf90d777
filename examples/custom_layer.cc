// A layer of one's own: parameters whose shape the first input completes, a forward written with operators, and from then on it
// is like any other: hybridized, trained, saved, exported.
#include <gluino/gluino.h>

#include <iostream>

using namespace gluino;

// Divides by the root of the mean square along the last axis, and scales: RMSNorm (Zhang and Sennrich, 2019).
class RMSNorm : public nn::HybridBlock {
 public:
  explicit RMSNorm(double epsilon = 1e-6) : scale(add_parameter("scale", {.shape = {0}, .init = init::one()})), epsilon_(epsilon) {}
  Tensor forward(const Tensor& x) override {
    if (has_known_shape(x)) scale->complete({peek_shape(x).back()});  // a shape looked at through peek_shape is no guard
    const Tensor mean_square = mean(square(x), {.axis = Shape{-1}, .keepdims = true});
    return broadcast_mul(broadcast_mul(x, rsqrt(mean_square + epsilon_)), scale->data());
  }
  std::string describe() const override { return "epsilon=" + std::to_string(epsilon_); }
  const ParameterPtr scale;

 private:
  double epsilon_;
};

int main() {
  seed(1);
  nn::HybridSequential net;
  net.add(nn::Dense(16, {.activation = "tanh"}), RMSNorm(), nn::Dense(1));
  net.initialize(init::xavier());
  const Tensor x = random::normal(0, 1, {64, 4}), y = x[{Slice(), Slice(0, 1)}] * x[{Slice(), Slice(1, 2)}];  // learn a product
  const Tensor eager = net(x);
  net.hybridize();
  bool same = all_close(net(x), eager, 1e-5, 1e-6);
  std::cout << net << "\n" << net.summary({{64, 4}});

  loss::L2Loss loss_of;
  Trainer trainer(net.collect_params(), optimizer::adam({.learning_rate = 0.02}));
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    Tensor loss;
    {
      const auto record = autograd::record();
      loss = loss_of(net(x), y);
    }
    loss.backward();
    trainer.step(64);
    last = loss.mean().item<double>();
    if (step == 0) first = last;
  }
  std::cout << "loss " << first << " -> " << last << "\n";

  net.export_model("custom_layer");  // as the operators it is made of: MXNet loads it without knowing RMSNorm
  const auto loaded = SymbolBlock::imports("custom_layer-symbol.json", {"data"}, "custom_layer-0000.params");
  same &= all_close((*loaded)(x), net(x), 1e-5, 1e-6);
  std::cout << (same ? "eager, hybridized and loaded agree\n" : "they DIFFER\n");
  return same && last < first / 4 ? 0 : 1;
}
