// LeNet with a last layer written by hand: custom parameters, reshape codes, static memory, export with an epoch.
#include <gluino/gluino.h>

#include <iostream>

using namespace gluino;

struct Net : nn::HybridBlock {
  nn::Conv2D conv1{6, 5}, conv2{16, 5};
  nn::MaxPool2D pool1{2}, pool2{2};
  nn::Dense fc1{120}, fc2{84};
  ParameterPtr fc3_weight = add_parameter("fc3_weight", {.shape = {10, 84}});
  Net() { GLUINO_CHILDREN(conv1, pool1, conv2, pool2, fc1, fc2); }

  Tensor forward(const Tensor& in) override {
    std::cout << "forward with a tensor of shape " << in.shape().str() << (in.is_symbolic() ? " (tracing)\n" : "\n");
    Tensor x = pool1(relu(conv1(in)));
    x = pool2(relu(conv2(x)));
    x = x.reshape({0, -1});  // 0 copies an extent, -1 is inferred
    x = relu(fc1(x));
    x = relu(fc2(x));
    return dot(x, fc3_weight->data(), {.transpose_b = true});
  }
};

int main() {
  seed(42);
  Net net;
  net.initialize();
  const Tensor x = random::normal(0, 1, {16, 1, 28, 28});
  const Tensor eager = net(x);
  net.hybridize(true, {.static_alloc = true, .static_shape = true});
  const Tensor hybrid = net(x);
  net(x);
  net.export_model("model", 1);
  auto net2 = SymbolBlock::imports("model-symbol.json", {"data"}, "model-0001.params");
  const bool same = all_close(hybrid, eager, 1e-5, 1e-6) && all_close((*net2)(x), eager, 1e-5, 1e-6);
  std::cout << net.summary({{16, 1, 28, 28}}) << (same ? "all three agree\n" : "they DIFFER\n");
  return same ? 0 : 1;
}
