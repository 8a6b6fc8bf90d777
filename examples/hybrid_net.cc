// A network of one's own: what forward prints appears at every imperative call, and only while tracing when hybridized.
#include <gluino/gluino.h>

#include <iostream>

using namespace gluino;

struct HybridNet : nn::HybridBlock {
  nn::Dense hidden{4}, output{2};
  HybridNet() { GLUINO_CHILDREN(hidden, output); }

  Tensor forward(const Tensor& x) override {
    std::cout << "  x: " << x << "\n";
    const Tensor h = relu(hidden(x));
    std::cout << "  hidden: " << h << "\n";
    return output(h);
  }
};

int main() {
  HybridNet net;
  net.initialize();
  const Tensor x = random::normal(0, 1, {1, 3});
  std::cout << "imperative, first call:\n";
  const Tensor y = net(x);
  std::cout << "imperative, second call:\n";
  net(x);
  net.hybridize();
  std::cout << "hybridized, first call (tracing):\n";
  const Tensor z = net(x);
  std::cout << "hybridized, second call (nothing is printed):\n";
  net(x);
  std::cout << "\n" << net << "\n" << net.explain();
  return array_equal(y, z) ? 0 : 1;
}
