// Memory for a kernel's own use.
#pragma once
#include <cstdint>
#include <functional>

namespace gluino::kernels {

// Gives memory that lives until the kernel returns.
using Scratch = std::function<void*(int64_t bytes)>;

}  // namespace gluino::kernels
