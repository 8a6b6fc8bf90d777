// What a child made by fork must find in order. It has the thread that forked and no other: what these had locked would stay locked, and
// what they were changing half changed, for ever. So a fork waits until no thread is in the middle of something of that kind.
#pragma once
#include <memory>

#include "gluino/detail/lock.h"

namespace gluino {

// While it lives, a fork in another thread waits. For short pieces of work and for libraries with locks of their own; in it a thread calls
// no code of the user's and waits for no other thread, except for a NoForkMutex.
class NoForkScope {
 public:
  NoForkScope() { detail::enter_no_fork(); }
  ~NoForkScope() { detail::leave_no_fork(); }
  NoForkScope(const NoForkScope&) = delete;
  NoForkScope& operator=(const NoForkScope&) = delete;
};

// A mutex that may be held for long, also while code of the user's runs: a fork does not wait for it, and the child has a new one. What it
// guards must be whole at any moment.
class PerProcessMutex {
 public:
  class Lock {
   public:
    explicit Lock(std::shared_ptr<std::mutex> m) : mutex_(std::move(m)), lock_(*mutex_) {}
    void unlock() { lock_.unlock(); }

   private:
    std::shared_ptr<std::mutex> mutex_;
    std::unique_lock<std::mutex> lock_;
  };
  Lock lock();

 private:
  NoForkMutex guard_;
  std::shared_ptr<std::mutex> mutex_;
  int generation_ = -1;
};

bool is_forked();  // whether this process was made by fork from one that had loaded the library

}  // namespace gluino
