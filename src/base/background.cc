#include "base/background.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace gluino {
namespace {

// What is local to the main thread ends before what is static.
class EndOfMainThread {
 public:
  void remember(BackgroundQueue* queue) {
    if (std::find(queues_.begin(), queues_.end(), queue) == queues_.end()) queues_.push_back(queue);
  }
  ~EndOfMainThread() {
    for (BackgroundQueue* queue : queues_) queue->stop();
  }

 private:
  std::vector<BackgroundQueue*> queues_;
};

}  // namespace

BackgroundQueue::BackgroundQueue(std::chrono::milliseconds grace) : process_(getpid()), grace_(grace) {}

bool BackgroundQueue::push(std::function<void()> job) {
  if (getpid() != process_) return false;
  if (gettid() == process_) {
    static thread_local EndOfMainThread end;
    end.remember(this);
  }
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  waiting_.push_back(std::move(job));
  wake_.notify_one();
  return true;
}

void BackgroundQueue::serve() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
    if (stopped_ && (waiting_.empty() || std::chrono::steady_clock::now() >= deadline_)) return;
    const std::function<void()> job = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

void BackgroundQueue::stop() {
  if (getpid() != process_) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    deadline_ = std::chrono::steady_clock::now() + grace_;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace gluino
