// One thread that does what it was asked for, in that order, and gives way to others.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gluino {

// Made with new and never deleted; whoever makes one sees to it that stop() is called when the process ends.
class BackgroundQueue {
 public:
  BackgroundQueue();
  // False where there is no such thread: in a child made by fork, and after stop().
  bool push(std::function<void()> job);
  void stop(std::chrono::milliseconds grace);  // jobs that have not begun by then are dropped

 private:
  void serve();

  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point deadline_;
  std::thread thread_;
};

}  // namespace gluino
