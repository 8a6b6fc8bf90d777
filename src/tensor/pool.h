// The memory pool of a device: freed blocks are kept in size classes and given out again; large ones, as many as a program lately needed.
#pragma once
#include <cstdint>

#include "gluino/device.h"

namespace gluino {

inline constexpr int64_t kAlignment = 64;

void* pool_allocate(int64_t bytes, Device device);
void pool_free(void* data, int64_t bytes, Device device);
// After something that has needed much more than what follows will: what is free and more than what is live goes back to the system.
void trim_cached_memory(Device device);
// Zeros in a block of the pool. Whole pages of a large one take no memory until something is written there.
void fill_with_zeros(void* data, int64_t bytes);

// Memory from elsewhere, for tests that look for accesses out of bounds. A block goes back to where it came from.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(int64_t bytes) = 0;  // null: there is no more
  virtual bool release(void* data) = 0;       // false: it is the pool's
};
void install_memory_source(MemorySource* source);  // must live as long as any block of it; null: the pool alone

// While one lives, large blocks that this thread frees go back to the system: they were needed once, and the pool would keep each for
// others of its size.
class [[nodiscard]] FreesToSystem {
 public:
  FreesToSystem();
  ~FreesToSystem();
  FreesToSystem(const FreesToSystem&) = delete;
  FreesToSystem& operator=(const FreesToSystem&) = delete;

 private:
  bool previous_;
};

}  // namespace gluino
