// What a child made by fork must find in order. It has the thread that forked and no other: what these had locked would stay locked, and
// what they were changing half changed, for ever. So a fork waits until no thread is in the middle of something of that kind.
#pragma once
#include <mutex>

namespace gluino {

// While it lives, a fork in another thread waits. For short pieces of work and for libraries with locks of their own; in it a thread calls
// no code of the user's and waits for no other thread, except for a NoForkMutex.
class NoForkScope {
 public:
  NoForkScope();
  ~NoForkScope();
  NoForkScope(const NoForkScope&) = delete;
  NoForkScope& operator=(const NoForkScope&) = delete;
};

namespace detail {
void enter_no_fork();
void leave_no_fork();
}  // namespace detail

// A mutex that is never held when a process forks. It is held for as short a time as a NoForkScope may be.
template <class Mutex>
class BasicNoForkMutex {
 public:
  void lock() {
    detail::enter_no_fork();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    detail::leave_no_fork();
  }

 private:
  Mutex mutex_;
};
using NoForkMutex = BasicNoForkMutex<std::mutex>;
using NoForkRecursiveMutex = BasicNoForkMutex<std::recursive_mutex>;

bool is_forked();  // whether this process was made by fork from one that had loaded the library

}  // namespace gluino
