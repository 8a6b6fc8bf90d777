#include "gluino/device.h"

#include <algorithm>
#include <atomic>

#include "base/env.h"
#include "base/fork.h"
#include "base/format.h"
#include "base/openmp.h"

namespace gluino {
namespace {

thread_local Device tls_device;

int default_threads() {
  if (const auto n = env_int("GLUINO_NUM_THREADS")) {
    omp_set_num_threads(std::max(1, *n));  // oneDNN and OpenBLAS follow
    return std::max(1, *n);
  }
  return std::max(1, omp_get_max_threads());  // honours OMP_NUM_THREADS
}
std::atomic<int>& threads() {
  static std::atomic<int> n{default_threads()};
  return n;
}

}  // namespace

Device cpu(int id) {
  if (id < 0 || id >= Device::kMaxDevices) raise<UserError>("cpu({}) does not exist; ids 0 to {} do", id, Device::kMaxDevices - 1);
  return Device(id);
}
Device gpu(int id) { raise<UserError>("gpu({}) is not available: gluino computes on the CPU; use cpu()", id); }
int num_gpus() { return 0; }
std::string Device::str() const { return fmt::format("cpu({})", id_); }
Device current_device() { return tls_device; }
DeviceScope::DeviceScope(Device device) : previous_(tls_device) { tls_device = device; }
DeviceScope::~DeviceScope() { tls_device = previous_; }

int num_threads() { return threads().load(std::memory_order_relaxed); }
void set_num_threads(int n) {
  if (n < 1) raise<UserError>("set_num_threads: {} threads asked for, at least 1 is needed", n);
  threads() = n;
  if (!is_forked()) omp_set_num_threads(n);  // oneDNN and OpenBLAS follow
}

}  // namespace gluino
