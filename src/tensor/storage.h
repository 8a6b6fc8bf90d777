// Storage: one block of memory from a device's pool (or from outside, by DLPack), 64-byte aligned.
#pragma once
#include <atomic>
#include <functional>

#include "gluino/device.h"
#include "gluino/detail/ref.h"

namespace gluino {

class Storage final : public RefCounted {
 public:
  Storage(int64_t bytes, Device device);
  Storage(void* data, int64_t bytes, Device device, std::function<void()> deleter);
  ~Storage() override;
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

  // Counts changes of the content, so that what was computed from it can be kept until the next one. Memory that others
  // may write at any time, through DLPack, has no meaningful count.
  void note_write() { writes_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t writes() const { return writes_.load(std::memory_order_relaxed); }
  // An initializer's numbers are nobody's as long as nothing else is written over them.
  void note_initialised() { initialised_at_.store(writes(), std::memory_order_relaxed); }
  bool is_as_initialised() const { return initialised_at_.load(std::memory_order_relaxed) == writes(); }
  void share_outside() { shared_outside_.store(true, std::memory_order_relaxed); }
  bool is_shared_outside() const { return deleter_ || shared_outside_.load(std::memory_order_relaxed); }

 private:
  char* data_;
  int64_t bytes_;
  Device device_;
  std::function<void()> deleter_;  // set for foreign memory
  std::atomic<uint64_t> writes_{0}, initialised_at_{~uint64_t{0}};
  std::atomic<bool> shared_outside_{false};
};

}  // namespace gluino
