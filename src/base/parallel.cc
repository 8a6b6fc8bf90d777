// The threads behind parallel_for. The caller works too and never waits for a helper that has not started: when the
// other cores are busy it does everything itself. OpenMP's teams would wait for every member, for whole time slices.
#include "base/parallel.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/openmp.h"
#include "base/pause.h"

namespace gluino::detail {
namespace {

thread_local bool tls_inside = false;

// One call of parallel_for; lives on the caller's stack until no helper uses it any more.
struct Job {
  int64_t n, chunk;
  RangeFn f;
  void* context;
  int wanted;                    // helpers that may still join; under the pool's mutex
  std::atomic<int> helpers{0};   // joined and not yet done; raised under the pool's mutex
  std::atomic<int64_t> next{0};  // the first item that nobody has taken
  std::mutex failure_mutex;
  std::exception_ptr failure;

  void work() {
    for (int64_t begin; (begin = next.fetch_add(chunk, std::memory_order_relaxed)) < n;) {
      try {
        f(context, begin, std::min(n, begin + chunk));
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
        next.store(n, std::memory_order_relaxed);  // the rest need not be done
      }
    }
  }
};

// The first bytes of a file of the system's; empty: there is none.
std::string read_start(const char* path) {
  char text[96] = {};
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  return {text, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

// How many threads want to run on this machine now, the calling one among them; 0: unknown.
int count_runnable() {
  int runnable = 0;
  return std::sscanf(read_start("/proc/loadavg").c_str(), "%*s %*s %*s %d/", &runnable) == 1 ? runnable : 0;
}

// Whether another process wants the core this thread runs on. A thread that is put aside in the middle of a chunk keeps the
// others waiting for whole time slices. A helper that this happens to stays away until there is a core for it; a caller goes on
// alone, which leaves the other cores to the other process.
class Contention {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Contention(bool is_helper) : is_helper_(is_helper) {}
  // Whether nothing was lost, or it is time to try again.
  bool is_over() {
    const Clock::time_point now = Clock::now();
    if (now < returned_) return false;
    if (std::exchange(is_away_, false) && cores_are_taken()) {
      is_away_ = true;
      returned_ = now + pause_;
    }
    return !is_away_;
  }
  Clock::time_point returns_at() const { return returned_; }
  // From here on time that passes without the processor counts as lost, if the thread did not give it up itself.
  void watch() {
    watched_ = Clock::now();
    busy_ = processor_time();
    if (watched_ - read_ > kRead) read_waiting_time();
  }
  // Looks back to the last watch().
  void check() {
    const Clock::time_point now = Clock::now();
    if (now - watched_ < kNoticed) return;  // usual, and to ask for the processor's time takes as long as a short chunk
    const Clock::duration lost = (now - watched_) - (processor_time() - busy_);
    if (lost < kNoticed) return;
    const Clock::duration before = waited_;
    read_waiting_time();
    if (waited_ - before < kNoticed) return;  // the machine itself stood still, as virtual ones do
    const bool again = now - returned_ < kRemembered;
    pause_ = again ? std::min<Clock::duration>(2 * pause_, kLongest) : kShortest;
    returned_ = now + pause_;
    is_away_ = true;
  }
  // For a thread that seldom sleeps: both, once enough time has passed for a loss to be noticed.
  void check_and_watch() {
    if (Clock::now() - watched_ < kNoticed) return;
    check();
    watch();
  }

 private:
  // Shorter absences are the system's own business; a process that computes takes milliseconds.
  static constexpr Clock::duration kNoticed = std::chrono::microseconds(700);
  static constexpr Clock::duration kShortest = std::chrono::milliseconds(5), kLongest = std::chrono::milliseconds(100);
  static constexpr Clock::duration kRemembered = std::chrono::milliseconds(100);  // so long after a return a loss is the same trouble
  static constexpr Clock::duration kRead = std::chrono::milliseconds(20);
  // A helper needs a core for itself, a caller one for a helper too.
  bool cores_are_taken() const {
    static const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    return count_runnable() - (is_helper_ ? 1 : 0) >= cores;
  }
  static Clock::duration processor_time() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  }
  // How long this thread has waited for a core that other threads had.
  void read_waiting_time() {
    read_ = Clock::now();
    long long busy = 0, waited = 0;
    const std::string text = read_start("/proc/thread-self/schedstat");
    if (std::sscanf(text.c_str(), "%lld %lld", &busy, &waited) == 2) {
      waited_ = std::chrono::nanoseconds(waited);
      return;
    }
    rusage usage{};  // where the system does not say, every switch counts
    getrusage(RUSAGE_THREAD, &usage);
    waited_ = usage.ru_nivcsw * kNoticed;
  }
  const bool is_helper_;
  bool is_away_ = false;
  Clock::time_point watched_ = Clock::now(), returned_{};
  Clock::duration busy_ = processor_time(), pause_ = kShortest;
  Clock::time_point read_{};
  Clock::duration waited_{};
};

thread_local Contention tls_contention(false);  // of a caller

class Pool {
 public:
  void run(Job& job) {
    const int wanted = job.wanted;
    int sleeping = 0;
    {
      const std::lock_guard lock(mutex_);
      while (threads_ < wanted) start_thread();
      jobs_.push_back(&job);
      posted_.fetch_add(1, std::memory_order_release);
      sleeping = sleeping_;
    }
    if (sleeping && wanted == 1)
      wake_.notify_one();
    else if (sleeping)
      wake_.notify_all();
    tls_contention.check_and_watch();  // also what was lost since the last job
    job.work();
    std::unique_lock lock(mutex_);
    std::erase(jobs_, &job);
    lock.unlock();
    // Helpers are in their last chunk: usually done in less time than it takes to sleep and wake.
    for (int i = 0; i < 2000 && job.helpers.load(std::memory_order_acquire); ++i) pause_briefly();
    if (!job.helpers.load(std::memory_order_acquire)) return;
    lock.lock();
    done_.wait(lock, [&] { return job.helpers.load(std::memory_order_acquire) == 0; });
  }

 private:
  void start_thread() {
    ++threads_;
    std::thread([this] { serve(); }).detach();
  }
  [[noreturn]] void serve() {
    tls_inside = true;
    omp_set_num_threads(1);  // a library called from a chunk must not start a team of its own
    Contention contention(true);
    std::unique_lock lock(mutex_);
    for (;;) {
      wait_for_job(lock);
      Job& job = *jobs_.front();
      job.helpers.fetch_add(1, std::memory_order_relaxed);
      if (--job.wanted == 0) jobs_.pop_front();
      lock.unlock();
      contention.watch();
      job.work();
      contention.check();
      lock.lock();
      // Under the mutex: the caller cannot miss the notification, and the job may be gone after the subtraction.
      job.helpers.fetch_sub(1, std::memory_order_release);
      done_.notify_all();
      lock.unlock();
      while (!contention.is_over()) std::this_thread::sleep_until(contention.returns_at());
      lock.lock();
    }
  }
  // The next job usually comes within microseconds, and to wake a sleeping thread takes longer than many jobs.
  void wait_for_job(std::unique_lock<std::mutex>& lock) {
    constexpr int kLooks = 4000;
    for (int looks = 0; jobs_.empty() && looks < kLooks; ++looks) {
      const unsigned seen = posted_.load(std::memory_order_relaxed);
      lock.unlock();
      for (; looks < kLooks && posted_.load(std::memory_order_acquire) == seen; ++looks) pause_briefly();
      lock.lock();
    }
    ++sleeping_;
    wake_.wait(lock, [&] { return !jobs_.empty(); });
    --sleeping_;
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job*> jobs_;  // those that still want helpers
  std::atomic<unsigned> posted_{0};
  int threads_ = 0, sleeping_ = 0;
};

// Leaked on purpose: its threads run until the process ends. A child made by fork has none of them and begins with a pool of its own.
Pool& pool() {
  static std::atomic<Pool*> current = [] {
    pthread_atfork(nullptr, nullptr, [] { current.store(new Pool); });
    return new Pool;
  }();
  return *current.load(std::memory_order_acquire);
}

}  // namespace

bool inside_parallel_for() { return tls_inside || omp_in_parallel(); }

void run_parallel(int64_t n, int64_t chunk, int helpers, RangeFn f, void* context) {
  // While a part runs neither it nor a library it calls splits its own work.
  struct Inside {
    const int omp_threads = omp_get_max_threads();
    Inside() {
      tls_inside = true;
      omp_set_num_threads(1);
    }
    ~Inside() {
      omp_set_num_threads(omp_threads);
      tls_inside = false;
    }
  } const inside;
  if (!tls_contention.is_over()) return f(context, 0, n);
  Job job{
      .n = n, .chunk = chunk, .f = f, .context = context, .wanted = helpers, .helpers = {}, .next = {}, .failure_mutex = {}, .failure = {}};
  pool().run(job);
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace gluino::detail
