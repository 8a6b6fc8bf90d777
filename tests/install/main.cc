// Uses the installed library: every kind of header once, and a value that can be checked.
#include <gluino/autograd.h>
#include <gluino/dlpack.h>
#include <gluino/io.h>
#include <gluino/nn.h>
#include <gluino/ops.h>
#include <gluino/symbol.h>

#include <iostream>

int main(int argc, char** argv) {
  using namespace gluino;
  if (argc > 1) {  // a model for the programs in C
    nn::Dense net(3, {.in_units = 8});
    net.initialize();
    net.hybridize();
    net(ones({2, 8}));
    net.export_model(argv[1]);
  }
  Tensor x = tensor({{-1, 2}, {3, -4}});
  x.attach_grad();
  Tensor y;
  {
    const auto record = autograd::record();
    y = relu(x).sum();
  }
  y.backward();
  const Tensor back = Tensor::from_dlpack(x.to_dlpack());
  const Symbol s = sym::apply("square", {sym::var("v")});
  const bool ok = y.item() == 5 && x.grad().to_vector<float>() == std::vector<float>{0, 1, 1, 0} && array_equal(back, x) &&
                  s.eval({{"v", tensor({3})}})[0].item() == 9 && read_npy(write_npy(x), "x").size() == 4;
  std::cout << (ok ? "gluino works from outside\n" : "wrong values\n");
  return ok ? 0 : 1;
}
