// Device: where a tensor lives. cpu(0), cpu(1), ... are distinct contexts with their own memory pools and seeds.
#pragma once
#include <cstdint>
#include <string>

namespace gluino {

class Device {
 public:
  static constexpr int kMaxDevices = 16;
  constexpr Device() = default;
  int id() const { return id_; }
  std::string str() const;  // "cpu(0)"
  bool operator==(const Device&) const = default;

 private:
  friend Device cpu(int id);
  constexpr explicit Device(int id) : id_(id) {}
  int id_ = 0;
};

Device cpu(int id = 0);
[[noreturn]] Device gpu(int id = 0);  // raises: this build computes on the CPU
int num_gpus();
Device current_device();

// Creation functions use this device while the scope lives.
class DeviceScope {
 public:
  explicit DeviceScope(Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device previous_;
};

struct MemoryStats {
  int64_t live = 0;         // bytes in tensors now
  int64_t peak = 0;         // the most that live has been since the last reset_peak
  int64_t cached = 0;       // bytes kept by the pool for reuse
  int64_t allocations = 0;  // requests served since the start
};
MemoryStats memory_stats(Device device = cpu());
void reset_peak(Device device = cpu());
void release_cached_memory(Device device = cpu());

// Threads that one operator may use; the default is GLUINO_NUM_THREADS, OMP_NUM_THREADS or the number of cores.
void set_num_threads(int n);
int num_threads();

}  // namespace gluino
