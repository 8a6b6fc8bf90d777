// NoForkMutex: a mutex that a child made by fork finds open.
#pragma once
#include <mutex>

namespace gluino {

namespace detail {
void enter_no_fork();  // from here to leave_no_fork() a fork in another thread waits
void leave_no_fork();
}  // namespace detail

// Never held when a process forks: for short pieces of work, in which a thread calls no code of the user's and waits for no other
// thread, except for another NoForkMutex.
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

}  // namespace gluino
