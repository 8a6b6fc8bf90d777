// A multilayer perceptron: imperative, hybridized, timed, exported, loaded again, and as a symbolic program.
#include <gluino/gluino.h>

#include <chrono>
#include <iostream>

using namespace gluino;

static std::unique_ptr<nn::HybridSequential> get_net() {
  auto net = std::make_unique<nn::HybridSequential>();
  net->add(nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}), nn::Dense(2));
  net->initialize();
  return net;
}

static double seconds_for_1000_calls(nn::HybridSequential& net, const Tensor& x) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) net(x);
  waitall();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int main() {
  const Tensor x = random::normal(0, 1, {1, 512});
  auto net = get_net();
  const Tensor before = (*net)(x);
  net->hybridize();
  const Tensor after = (*net)(x);
  std::cout << "imperative:\n" << before << "\nhybridized:\n" << after << "\n\n";

  auto fresh = get_net();
  std::cout << "before hybridizing: " << seconds_for_1000_calls(*fresh, x) << " s\n";
  fresh->hybridize();
  std::cout << "after hybridizing:  " << seconds_for_1000_calls(*fresh, x) << " s\n\n";

  net->export_model("my_mlp");  // my_mlp-symbol.json and my_mlp-0000.params, in MXNet 1.9's form
  auto loaded = SymbolBlock::imports("my_mlp-symbol.json", {"data"}, "my_mlp-0000.params");
  const bool same = array_equal((*loaded)(x), before) && array_equal(after, before);
  std::cout << "exported and loaded: " << (same ? "the same numbers" : "DIFFERENT numbers") << "\n\n";

  std::cout << "the symbolic program:\n" << (*net)(sym::var("data")) << "\n";
  return same ? 0 : 1;
}
