// Numbers that kernels of products share out and lay out their work by.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// Multiplications worth a thread: with fewer, waking it costs more than it saves (measured on a machine with two cores).
inline constexpr int64_t kGrain = 1 << 18;
// Floats of a line of the cache. Blocks of memory whose sizes are powers of two are kept apart by one, or they would share a few sets of
// it.
inline constexpr int64_t kLine = 16;

}  // namespace gluino::kernels
