#include "fuzz/isolated_runs.h"

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gluino::fuzz {
namespace {

constexpr size_t kTextBytes = 1500, kMostReports = 400;
constexpr int kMostDeaths = 12;  // of one subject; then its other cases are left out

void copy_text(char* to, const std::string& text) {
  const size_t n = std::min(text.size(), kTextBytes - 1);
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

// A case that computes for too long is ended by the processor's time, one that waits for ever by the clock.
void start_timers() {
  const itimerval limit{{0, 0}, {kCaseSeconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
  alarm(kCaseSeconds * 30);
}

std::string text_of_status(int status) {
  if (!WIFSIGNALED(status)) return "the process ended with code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  if (signal == SIGPROF || signal == SIGALRM) return "hangs";
  return std::string("crashes: ") + strsignal(signal);
}

}  // namespace

struct IsolatedRuns::Shared {
  struct Report {
    int64_t number;
    char what[kTextBytes], call[kTextBytes];
  };
  volatile int64_t current;
  char call[kTextBytes];
  int64_t results;
  size_t count;
  Report reports[kMostReports];
};

IsolatedRuns::IsolatedRuns() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no shared memory");
  shared_ = static_cast<Shared*>(memory);
}

void IsolatedRuns::describe(const std::string& call) {
  copy_text(shared_->call, call);
  start_timers();
}

void IsolatedRuns::fail(const std::string& what) {
  if (shared_->count == kMostReports) return;
  Shared::Report& report = shared_->reports[shared_->count++];
  report.number = shared_->current;
  copy_text(report.what, what);
  std::memcpy(report.call, shared_->call, kTextBytes);
}

void IsolatedRuns::count_result() { ++shared_->results; }
int64_t IsolatedRuns::results() const { return shared_->results; }

// Returns the case after the last one that was begun.
int64_t IsolatedRuns::run_in_child(int64_t first, int64_t last, const std::function<void(int64_t)>& run, std::string& death) {
  shared_->current = first;
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    const rlimit no_core{0, 0}, memory{rlim_t{3} << 30, rlim_t{3} << 30};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_AS, &memory);
    for (int64_t i = first; i < last; ++i) {
      shared_->current = i;
      run(i);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return last;
  death = text_of_status(status);
  return shared_->current + 1;
}

void IsolatedRuns::collect(const std::string& subject) {
  for (size_t i = 0; i < shared_->count; ++i) {
    const Shared::Report& r = shared_->reports[i];
    failures_.push_back({subject, r.number, r.what, r.call});
  }
  shared_->count = 0;
}

void IsolatedRuns::run(const std::string& subject, int64_t first, int64_t last, const std::function<void(int64_t)>& run) {
  int deaths = 0;
  while (first < last && deaths < kMostDeaths) {
    std::string death;
    first = run_in_child(first, last, run, death);
    collect(subject);
    if (death.empty()) continue;
    failures_.push_back({subject, shared_->current, death, shared_->call});
    ++deaths;
  }
}

}  // namespace gluino::fuzz
