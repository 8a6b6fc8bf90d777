// What a cached call costs beyond its kernels: a three-layer perceptron of a few units, where kernels take next to
// nothing, hybridized, eager, and as bare kernels in a row.
#include <benchmark/benchmark.h>

#include "gluino/gluino.h"

using namespace gluino;

namespace {

struct Mlp {
  explicit Mlp(int64_t in, std::initializer_list<int64_t> units) {
    set_num_threads(1);
    for (int64_t u : units) net.add(nn::Dense(u));
    net.initialize();
    x = random::normal(0, 1, {1, in});
    net(x);
  }
  nn::HybridSequential net;
  Tensor x;
};

void eager_call(benchmark::State& state) {
  Mlp m(4, {4, 4, 2});
  for (auto _ : state) benchmark::DoNotOptimize(m.net(m.x));
}
BENCHMARK(eager_call);

void hybridized_call(benchmark::State& state) {
  Mlp m(4, {4, 4, 2});
  m.net.hybridize();
  for (auto _ : state) benchmark::DoNotOptimize(m.net(m.x));
}
BENCHMARK(hybridized_call);

// The same three operators into memory that is already there.
void bare_kernels(benchmark::State& state) {
  Mlp m(4, {4, 4, 2});
  const OpDef& op = OpRegistry::global().get("FullyConnected");
  struct Layer {
    Tensors inputs, outputs;
    Attrs attrs;
  };
  std::vector<Layer> layers;
  Tensor x = m.x;
  for (const auto& child : m.net.children()) {
    auto& dense = dynamic_cast<nn::Dense&>(*child.block);
    const int64_t units = dense.bias->shape()[0];
    const std::pair<std::string_view, AttrValue> attrs[] = {{"num_hidden", units}};
    layers.push_back({{x, dense.weight->data(), dense.bias->data()}, {empty({1, units})}, op.make_attrs(attrs)});
    x = layers.back().outputs[0];
  }
  for (auto _ : state)
    for (Layer& l : layers) apply_into(op, l.inputs, l.attrs, l.outputs);
}
BENCHMARK(bare_kernels);

void mlp_512_eager(benchmark::State& state) {
  Mlp m(512, {256, 128, 2});
  for (auto _ : state) benchmark::DoNotOptimize(m.net(m.x));
}
BENCHMARK(mlp_512_eager);

void mlp_512_hybridized(benchmark::State& state) {
  Mlp m(512, {256, 128, 2});
  m.net.hybridize();
  for (auto _ : state) benchmark::DoNotOptimize(m.net(m.x));
}
BENCHMARK(mlp_512_hybridized);

}  // namespace

BENCHMARK_MAIN();
