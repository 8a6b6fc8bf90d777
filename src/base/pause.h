// What a thread does between two looks at a value that another will change.
#pragma once
#include <thread>

namespace gluino {

// Leaves the core's units to its other thread for some cycles; on a CPU of which nothing is known, to another process.
inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#else
  std::this_thread::yield();
#endif
}

}  // namespace gluino
