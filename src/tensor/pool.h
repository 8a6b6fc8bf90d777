// The memory pool of a device: freed blocks are kept in size classes and given out again.
#pragma once
#include <cstdint>

#include "gluino/device.h"

namespace gluino {

inline constexpr int64_t kAlignment = 64;

void* pool_allocate(int64_t bytes, Device device);
void pool_free(void* data, int64_t bytes, Device device);

}  // namespace gluino
