#include "base/fork.h"

#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <thread>

namespace gluino {
namespace {

thread_local int tls_depth = 0;  // scopes of this thread, one inside the other

// Leaked on purpose: memory is freed, under a lock, until the very end.
struct Gate {
  std::atomic<int> inside{0};  // threads
  std::atomic<bool> closed{false};
  std::mutex forking;
  bool is_child = false;

  Gate() {
    pthread_atfork([] { gate().close(); }, [] { gate().open(); }, [] { gate().open_in_child(); });
  }
  static Gate& gate() {
    static auto* g = new Gate;
    return *g;
  }
  void enter() {
    for (;;) {
      inside.fetch_add(1);
      if (!closed.load()) return;
      inside.fetch_sub(1);
      while (closed.load()) std::this_thread::yield();
    }
  }
  void leave() { inside.fetch_sub(1); }

  void close() {
    forking.lock();
    closed.store(true);
    const int own = tls_depth > 0 ? 1 : 0;
    while (inside.load() > own) std::this_thread::yield();
  }
  void open() {
    closed.store(false);
    forking.unlock();
  }
  void open_in_child() {
    is_child = true;
    inside.store(tls_depth > 0 ? 1 : 0);  // those that were on their way in
    omp_set_num_threads(1);               // the threads of the team that this thread had are gone, which OpenMP does not notice
    open();
  }
};

// The handlers must be there before the first thread forks.
[[maybe_unused]] const bool is_ready = (Gate::gate(), true);

}  // namespace

void detail::enter_no_fork() {
  if (tls_depth++ == 0) Gate::gate().enter();
}
void detail::leave_no_fork() {
  if (--tls_depth == 0) Gate::gate().leave();
}
NoForkScope::NoForkScope() { detail::enter_no_fork(); }
NoForkScope::~NoForkScope() { detail::leave_no_fork(); }

bool is_forked() { return Gate::gate().is_child; }

}  // namespace gluino
