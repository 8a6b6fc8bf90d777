// Storage: one block of memory from a device's pool (or from outside, by DLPack), 64-byte aligned.
#pragma once
#include <functional>

#include "gluino/device.h"
#include "gluino/ref.h"

namespace gluino {

class Storage final : public RefCounted {
 public:
  Storage(int64_t bytes, Device device);
  Storage(void* data, int64_t bytes, Device device, std::function<void()> deleter);
  ~Storage() override;
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  char* data_;
  int64_t bytes_;
  Device device_;
  std::function<void()> deleter_;  // set for foreign memory
};

}  // namespace gluino
