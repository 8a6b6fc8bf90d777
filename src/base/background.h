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

// Made with new and never deleted. It stops when the main thread ends, if that has ever pushed a job: before any static object is
// destroyed, among them those that a job has made. For a process that another thread ends, whoever makes one sees to it that stop() is
// called.
class BackgroundQueue {
 public:
  explicit BackgroundQueue(std::chrono::milliseconds grace);
  // False where there is no such thread: in a child made by fork, and after stop().
  bool push(std::function<void()> job);
  void stop();  // waits for the job at work; those that have not begun after the grace are dropped

 private:
  void serve();

  const pid_t process_;
  const std::chrono::milliseconds grace_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point deadline_;
  std::thread thread_;
};

}  // namespace gluino
