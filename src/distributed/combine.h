// Adds up what several ranks have sent.
#pragma once
#include <cstdint>
#include <span>

#include "gluino/distributed.h"
#include "gluino/dtype.h"

namespace gluino::distributed {

// out[i] = sources[0][i] combined with sources[1][i], ... in this order; 16-bit floats in float32. `out` may be one of the sources.
void combine(std::span<const char* const> sources, char* out, int64_t count, DType dtype, Reduce how);

}  // namespace gluino::distributed
