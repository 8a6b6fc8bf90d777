#include "base/fork.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "base/openmp.h"

namespace gluino {
namespace {

// Whether a thread is inside. Scopes are many and forks are few, so a scope costs two plain stores: who forks makes all threads see
// that the gate is closed, by a barrier that the kernel runs on every processor (or, without it, every scope has a fence).
struct Place {
  std::atomic<int> depth{0};  // scopes one inside the other; written by its thread only
  bool is_taken = false;
};

// Leaked on purpose: memory is freed, under a lock, until the very end.
class Gate {
 public:
  static Gate& gate() {
    static auto* g = new Gate;
    return *g;
  }
  std::atomic<bool> closed{false};
  std::atomic<int> leaving{0};  // scopes of threads that are ending and have given back their place
  int generation = 0;           // how many forks made this process
  bool has_kernel_barrier = false;

  Place* take_place() {
    const std::lock_guard lock(forking_);
    for (Place* p : places_)
      if (!p->is_taken) return p->is_taken = true, p;
    places_.push_back(new Place{.is_taken = true});
    return places_.back();
  }
  void give_back(Place* place) {
    const std::lock_guard lock(forking_);
    place->is_taken = false;
  }

 private:
  Gate() {
    has_kernel_barrier = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    pthread_atfork([] { gate().close(); }, [] { gate().open(); }, [] { gate().open_in_child(); });
  }
  void close();
  void open() {
    closed.store(false);
    forking_.unlock();
  }
  void open_in_child();

  std::mutex forking_;  // of the places, too
  std::vector<Place*> places_;
};

// The handlers must be there before the first thread forks.
[[maybe_unused]] const bool is_ready = (Gate::gate(), true);

thread_local Place* tls_place = nullptr;
thread_local bool tls_is_ending = false;
struct PlaceOfThread {
  PlaceOfThread() { tls_place = Gate::gate().take_place(); }
  ~PlaceOfThread() {
    tls_is_ending = true;
    Gate::gate().give_back(std::exchange(tls_place, nullptr));
  }
};
Place* place_of_thread() {
  if (!tls_place && !tls_is_ending) static thread_local const PlaceOfThread place;
  return tls_place;
}

void Gate::close() {
  place_of_thread();  // taken before the lock is
  forking_.lock();
  closed.store(true);
  if (has_kernel_barrier)
    ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const Place* p : places_)
    while (p != tls_place && p->depth.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  while (leaving.load() > 0) std::this_thread::yield();
}

void Gate::open_in_child() {
  ++generation;
  for (Place* p : places_)  // those that were on their way in
    if (p != tls_place) p->depth.store(0);
  leaving.store(0);
  omp_set_num_threads(1);  // the threads of the team that this thread had are gone, which OpenMP does not notice
  has_kernel_barrier = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  open();
}

void wait_until_open() {
  while (Gate::gate().closed.load()) std::this_thread::yield();
}

}  // namespace

void detail::enter_no_fork() {
  Gate& gate = Gate::gate();
  Place* place = place_of_thread();
  if (!place) {
    for (;; wait_until_open()) {
      gate.leaving.fetch_add(1);
      if (!gate.closed.load()) return;
      gate.leaving.fetch_sub(1);
    }
  }
  const int depth = place->depth.load(std::memory_order_relaxed);
  for (;; wait_until_open()) {
    place->depth.store(depth + 1, std::memory_order_relaxed);
    if (depth > 0) return;
    if (gate.has_kernel_barrier)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!gate.closed.load(std::memory_order_relaxed)) return;
    place->depth.store(0, std::memory_order_release);
  }
}
void detail::leave_no_fork() {
  Place* place = tls_place;
  if (!place) {
    Gate::gate().leaving.fetch_sub(1);
    return;
  }
  place->depth.store(place->depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

PerProcessMutex::Lock PerProcessMutex::lock() {
  std::shared_ptr<std::mutex> current;
  {
    const std::lock_guard lock(guard_);
    if (generation_ != Gate::gate().generation) {
      generation_ = Gate::gate().generation;
      mutex_ = std::make_shared<std::mutex>();
    }
    current = mutex_;
  }
  return Lock(std::move(current));
}

bool is_forked() { return Gate::gate().generation > 0; }

}  // namespace gluino
