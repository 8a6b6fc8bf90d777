// What one eager operator costs: on 16 floats, where only the way to the kernel counts, and on arrays far larger than
// the caches, beside a plain copy loop. torch_bench.cc measures the same under the same names.
#include <benchmark/benchmark.h>

#include <vector>

#include "gluino/autograd.h"
#include "gluino/ops.h"

namespace {

using namespace gluino;

void add_16(benchmark::State& state) {
  const Tensor a = ones({16}), b = ones({16});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_16);

void add_16_recorded(benchmark::State& state) {
  Tensor a = ones({16}), b = ones({16});
  a.attach_grad();
  b.attach_grad();
  const auto record = autograd::record();
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_16_recorded);

void add_16_recorded_and_backward(benchmark::State& state) {
  Tensor a = ones({16}), b = ones({16});
  a.attach_grad();
  b.attach_grad();
  for (auto _ : state) {
    Tensor c;
    {
      const auto record = autograd::record();
      c = a + b;
    }
    c.backward();
  }
}
BENCHMARK(add_16_recorded_and_backward);

// `arrays` are read or written per element; the rate counts their bytes.
void count_bytes(benchmark::State& state, int64_t n, int arrays) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * n * arrays * static_cast<int64_t>(sizeof(float)));
}

void copy_loop(benchmark::State& state) {
  const auto n = static_cast<size_t>(state.range(0));
  const std::vector<float> from(n, 1.0f);
  std::vector<float> to(n);
  for (auto _ : state) {
    for (size_t i = 0; i < n; ++i) to[i] = from[i];
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  count_bytes(state, state.range(0), 2);
}

// The output lives for one iteration, as in user code: its memory comes back from the pool.
template <class F>
void elementwise(benchmark::State& state, int arrays, F f) {
  const Tensor a = linspace(-3, 3, state.range(0)), b = ones({state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(f(a, b));
  count_bytes(state, state.range(0), arrays);
}
void add(benchmark::State& s) {
  elementwise(s, 3, [](const Tensor& a, const Tensor& b) { return a + b; });
}
void exp(benchmark::State& s) {
  elementwise(s, 2, [](const Tensor& a, const Tensor&) { return gluino::exp(a); });
}
void tanh(benchmark::State& s) {
  elementwise(s, 2, [](const Tensor& a, const Tensor&) { return gluino::tanh(a); });
}
void relu(benchmark::State& s) {
  elementwise(s, 2, [](const Tensor& a, const Tensor&) { return gluino::relu(a); });
}

#define SIZES ->Arg(1 << 20)->Arg(1 << 24)->UseRealTime()
BENCHMARK(copy_loop) SIZES;
BENCHMARK(add) SIZES;
BENCHMARK(exp) SIZES;
BENCHMARK(tanh) SIZES;
BENCHMARK(relu) SIZES;

}  // namespace
