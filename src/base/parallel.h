// parallel_for: splits a range over threads when the work is worth it.
#pragma once
#include <algorithm>
#include <cstdint>

#include "gluino/device.h"

namespace gluino {

// Elements below which one thread is faster than waking others.
inline constexpr int64_t kParallelGrain = 32768;

namespace detail {
using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
bool inside_parallel_for();
void run_parallel(int64_t n, int64_t chunk, int helpers, RangeFn f, void* context);
}  // namespace detail

// Calls f(begin, end) on disjoint parts of [0, n). `grain` is the least number of items worth a thread.
// Exceptions thrown by f are passed on to the caller.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t threads = std::min<int64_t>(num_threads(), (n + grain - 1) / grain);
  if (threads <= 1 || detail::inside_parallel_for()) return f(int64_t{0}, n);
  // Several chunks per thread: a thread that the machine holds up leaves its share to the others.
  int64_t chunk = std::max(grain, (n + threads * 8 - 1) / (threads * 8));
  if (chunk >= 1024) chunk = (chunk + 63) / 64 * 64;
  auto call = [](void* context, int64_t begin, int64_t end) { (*static_cast<std::remove_reference_t<F>*>(context))(begin, end); };
  detail::run_parallel(n, chunk, static_cast<int>(threads) - 1, call, const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace gluino
