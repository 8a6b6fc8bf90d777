// parallel_for: splits a range over OpenMP threads when the work is worth it.
#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

#include "gluino/device.h"

namespace gluino {

// Elements below which one thread is faster than waking others.
inline constexpr int64_t kParallelGrain = 32768;

// Calls f(begin, end) on disjoint parts of [0, n). `grain` is the least number of items worth a thread.
// Exceptions thrown by f are passed on to the caller.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  const int64_t parts = std::min<int64_t>(num_threads(), (n + grain - 1) / std::max<int64_t>(grain, 1));
  if (parts <= 1 || omp_in_parallel()) return f(int64_t{0}, n);
  std::exception_ptr failure;
#pragma omp parallel for num_threads(static_cast<int>(parts)) schedule(static, 1)
  for (int64_t p = 0; p < parts; ++p) {
    try {
      f(n * p / parts, n * (p + 1) / parts);
    } catch (...) {
#pragma omp critical(gluino_parallel_for)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gluino
