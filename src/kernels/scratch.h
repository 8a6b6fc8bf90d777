// Memory for a kernel's own use.
#pragma once
#include <cstdint>
#include <functional>

namespace gluino::kernels {

// Gives memory that lives until the kernel returns.
using Scratch = std::function<void*(int64_t bytes)>;
inline float* floats(int64_t count, const Scratch& scratch) { return static_cast<float*>(scratch(count * int64_t{sizeof(float)})); }

}  // namespace gluino::kernels
