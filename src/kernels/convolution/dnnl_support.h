// What the kernels on oneDNN share: the engine, a stream per thread, and a cache of primitives.
#pragma once
#include <dnnl.hpp>

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fork.h"
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

const dnnl::engine& dnnl_engine();
dnnl::stream& dnnl_stream();
// oneDNN's own scratchpad belongs to the thread that made the primitive; plans are shared between threads.
dnnl::primitive_attr user_scratchpad();

// While it lives, the library uses the calling thread alone: work is shared out by parallel_for.
class OneDnnlThread {
 public:
  OneDnnlThread();
  ~OneDnnlThread();
  OneDnnlThread(const OneDnnlThread&) = delete;
  OneDnnlThread& operator=(const OneDnnlThread&) = delete;

 private:
  int before_;
};

// The extents of a geometry, as a part of what decides a plan.
void append_extents(std::vector<int64_t>& key, const ConvGeometry& g);

// The last used plans by what decides them; a plan is shared by every thread that runs it.
template <class Plan>
class PlanCache {
 public:
  using Key = std::vector<int64_t>;
  template <class Make>
  std::shared_ptr<const Plan> get(const Key& key, Make&& make) {
    const std::lock_guard lock(mutex_);
    if (const auto it = by_key_.find(key); it != by_key_.end()) {
      recent_.splice(recent_.begin(), recent_, it->second.place);
      return it->second.plan;
    }
    std::shared_ptr<const Plan> plan = make();
    recent_.push_front(key);
    by_key_.emplace(key, Entry{plan, recent_.begin()});
    if (by_key_.size() > kCapacity) {
      by_key_.erase(recent_.back());
      recent_.pop_back();
    }
    return plan;
  }

 private:
  static constexpr size_t kCapacity = 512;
  struct Entry {
    std::shared_ptr<const Plan> plan;
    typename std::list<Key>::iterator place;
  };
  NoForkMutex mutex_;
  std::list<Key> recent_;
  std::map<Key, Entry> by_key_;
};

}  // namespace gluino::kernels
