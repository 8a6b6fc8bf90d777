// The queue of inference requests and the threads that run them. Requests of one kind are joined along the batch axis, up to a number of
// rows, or until the first of them has waited for a while.
#pragma once
#include <condition_variable>
#include <list>
#include <thread>

#include "serve/model.h"

namespace gluino::serve {

struct SchedulerOptions {
  int64_t max_batch = 64;
  Clock::duration max_delay{0};
  int64_t max_queue = 1024;
  int workers = 1;
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();  // what waits is still run
  // Takes them all; answers 429 for those that find the queue full.
  void submit(std::vector<JobPtr>& jobs);
  int64_t queued() const { return queued_.load(std::memory_order_relaxed); }

 private:
  using Batch = std::vector<JobPtr>;
  void work();
  Batch next(bool& wants_trial);  // empty: the end
  Lane* ready_lane(Clock::time_point now, Clock::time_point& earliest);
  Batch take(Lane& lane, bool& wants_trial);
  bool is_full(const Lane& lane) const {
    return lane.rows >= options_.max_batch || static_cast<int64_t>(lane.jobs.size()) >= options_.max_batch;
  }

  const SchedulerOptions options_;
  std::atomic<int64_t> queued_{0};
  std::mutex mutex_;  // guards what follows, and the lanes of all models
  std::condition_variable changed_;
  std::list<Lane*> active_;  // that hold requests
  int idle_ = 0;
  bool is_ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gluino::serve
