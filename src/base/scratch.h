// Memory for a kernel's own use.
#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace gluino::kernels {

// Gives memory that lives until the kernel returns.
using Scratch = std::function<void*(int64_t bytes)>;
inline float* floats(int64_t count, const Scratch& scratch) { return static_cast<float*>(scratch(count * int64_t{sizeof(float)})); }

// Pieces of scratch memory, as many as there are threads that need one at a time.
class ScratchBuffers {
 public:
  ScratchBuffers(int64_t count, int64_t elements, const Scratch& scratch) {
    for (int64_t i = 0; i < count; ++i) free_.push_back(floats(elements, scratch));
  }
  template <class F>
  void use(F&& f) {
    float* mine = take();
    f(mine);
    const std::lock_guard lock(mutex_);
    free_.push_back(mine);
  }

 private:
  float* take() {
    const std::lock_guard lock(mutex_);
    float* mine = free_.back();
    free_.pop_back();
    return mine;
  }
  std::mutex mutex_;
  std::vector<float*> free_;
};

}  // namespace gluino::kernels
