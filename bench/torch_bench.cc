// The measurements of eager_bench.cc in libtorch, under the same names.
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <cstdlib>

namespace {

// The same number of threads as gluino.
const bool configured = [] {
  if (const char* n = std::getenv("GLUINO_NUM_THREADS")) torch::set_num_threads(std::atoi(n));
  return true;
}();

void add_16(benchmark::State& state) {
  const torch::NoGradGuard guard;
  const torch::Tensor a = torch::ones({16}), b = torch::ones({16});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_16);

void add_16_recorded(benchmark::State& state) {
  const torch::Tensor a = torch::ones({16}, torch::requires_grad()), b = torch::ones({16}, torch::requires_grad());
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_16_recorded);

void add_16_recorded_and_backward(benchmark::State& state) {
  const torch::Tensor a = torch::ones({16}, torch::requires_grad()), b = torch::ones({16}, torch::requires_grad());
  const torch::Tensor head = torch::ones({16});
  for (auto _ : state) (a + b).backward(head);
}
BENCHMARK(add_16_recorded_and_backward);

template <class F>
void elementwise(benchmark::State& state, int arrays, F f) {
  const torch::NoGradGuard guard;
  const torch::Tensor a = torch::linspace(-3, 3, state.range(0)), b = torch::ones({state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(f(a, b));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0) * arrays * 4);
}
void add(benchmark::State& s) {
  elementwise(s, 3, [](const torch::Tensor& a, const torch::Tensor& b) { return a + b; });
}
void exp(benchmark::State& s) {
  elementwise(s, 2, [](const torch::Tensor& a, const torch::Tensor&) { return torch::exp(a); });
}
void tanh(benchmark::State& s) {
  elementwise(s, 2, [](const torch::Tensor& a, const torch::Tensor&) { return torch::tanh(a); });
}
void relu(benchmark::State& s) {
  elementwise(s, 2, [](const torch::Tensor& a, const torch::Tensor&) { return torch::relu(a); });
}

#define SIZES ->Arg(1 << 20)->Arg(1 << 24)->UseRealTime()
BENCHMARK(add) SIZES;
BENCHMARK(exp) SIZES;
BENCHMARK(tanh) SIZES;
BENCHMARK(relu) SIZES;

}  // namespace
