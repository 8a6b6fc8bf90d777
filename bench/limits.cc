// What the machine can do at most, measured: multiply-adds a second from registers, and bytes read a second from arrays of
// given sizes. Usage: limits THREADS BYTES...; prints one line of JSON.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "runner.h"

namespace {

#ifdef __AVX512F__
constexpr int kWidth = 16;
#else
constexpr int kWidth = 8;
#endif
typedef float Vector __attribute__((vector_size(kWidth * sizeof(float))));
// Two multiply-add units with a latency of 4 to 5 cycles need ten independent sums.
constexpr int kSums = 10;

volatile float unknown = 1;  // keeps the compiler from computing in advance, or once for all sums

float multiply_add(int64_t n) {
  Vector sums[kSums];
  for (Vector& s : sums) s = Vector{} + unknown;
  const Vector factor = Vector{} + 0.999f;
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 10
    for (Vector& s : sums) s = s * factor + factor;
  float total = 0;
  for (const Vector& s : sums) total += s[0];
  return total;
}

float read(const Vector* data, size_t n) {
  Vector sums[8] = {};
  for (size_t i = 0; i + 8 <= n; i += 8)
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; ++j) sums[j] += data[i + j];
  float total = 0;
  for (const Vector& s : sums) total += s[0];
  return total;
}

std::atomic<float> sink;

// Runs f(thread) on all threads at once; gives the processor seconds per thread of the fastest of several rounds.
template <class F>
double fastest(int threads, F f) {
  double best = 1e9;
  for (int round = 0; round < 25; ++round) {
    std::vector<std::thread> team;
    const double begin = bench::processor_seconds();
    for (int t = 1; t < threads; ++t) team.emplace_back([&f, t] { sink = f(t); });
    sink = f(0);
    for (std::thread& t : team) t.join();
    best = std::min(best, (bench::processor_seconds() - begin) / threads);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  constexpr int64_t kLoops = 4000000;
  const double gflops = 2e-9 * kLoops * kSums * kWidth * threads / fastest(threads, [](int) { return multiply_add(kLoops); });
  std::cout << "{\"gflops\": " << gflops << ", \"read_gbps\": {";
  for (int i = 2; i < argc; ++i) {
    // Each thread reads its share, often enough that starting threads does not count.
    const auto bytes = static_cast<size_t>(std::atoll(argv[i]));
    const size_t n = bytes / sizeof(Vector) / static_cast<size_t>(threads);
    const int64_t repeats = static_cast<int64_t>(100000000 / bytes) + 1;
    std::vector<std::vector<Vector>> shares(threads, std::vector<Vector>(n));
    const double s = fastest(threads, [&](int t) {
      float total = 0;
      for (int64_t r = 0; r < repeats; ++r) {
        total += read(shares[t].data(), n);
        asm volatile("" ::: "memory");  // the next round reads anew
      }
      return total;
    });
    std::cout << (i > 2 ? ", " : "") << "\"" << bytes << "\": " << 1e-9 * static_cast<double>(bytes) * static_cast<double>(repeats) / s;
  }
  std::cout << "}}" << std::endl;
}
