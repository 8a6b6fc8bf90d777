#include "distributed/engine.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "base/env.h"
#include "base/fork.h"
#include "base/format.h"
#include "dispatch/random.h"
#include "gluino/device.h"

namespace gluino::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr double kDefaultTimeout = 300;
constexpr auto kServePeriod = milliseconds(50);       // how often questions of other ranks are looked for
constexpr auto kAnswerPatience = milliseconds(2000);  // how long a rank that was asked may take
constexpr const char* kEnd = "the end of the program";

std::atomic<Engine*> the_engine{nullptr};

double number_from_environment(const char* name, double otherwise) {
  const auto text = env_text(name);
  if (!text) return otherwise;
  char* end = nullptr;
  const double number = std::strtod(text->c_str(), &end);
  if (text->empty() || *end != '\0' || !(number > 0)) raise<UserError>("{} is '{}', a positive number is needed", name, *text);
  return number;
}

// FNV-1a: the same on every machine.
uint64_t hash_of(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

// "rank 2", "ranks 0 to 3 and 5"
std::string names_of(const std::vector<int>& ranks) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - i >= 2)
      runs.push_back(fmt::format("{} to {}", ranks[i], ranks[last]));
    else
      for (size_t k = i; k <= last; ++k) runs.push_back(std::to_string(ranks[k]));
    i = last + 1;
  }
  std::string text = runs.front();
  for (size_t i = 1; i < runs.size(); ++i) text += (i + 1 == runs.size() ? " and " : ", ") + runs[i];
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

// "rank 0 is at ...; ranks 1 and 2 are at ..."
std::string grouped(const std::vector<std::string>& statuses) {
  std::map<std::string, std::vector<int>> groups;
  std::vector<std::string> order;
  for (size_t r = 0; r < statuses.size(); ++r) {
    if (statuses[r].empty()) continue;
    if (!groups.contains(statuses[r])) order.push_back(statuses[r]);
    groups[statuses[r]].push_back(static_cast<int>(r));
  }
  std::string text;
  for (const std::string& status : order) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", names_of(groups[status]), status);
  return text;
}

// Threads of ranks on one machine would fight for its cores; what the user has set stays.
void share_cores(int local_size) {
  if (local_size <= 1 || env_text("GLUINO_NUM_THREADS") || env_text("OMP_NUM_THREADS")) return;
  const auto cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  set_num_threads(std::min(num_threads(), std::max(1, cores / local_size)));
}

}  // namespace

struct Engine::Ticket::State {
  std::string what;
  std::function<void()> work;
  Notes notes;
  std::mutex mutex;
  std::condition_variable done_changed;
  bool is_done = false;
  std::exception_ptr error;
};

void Engine::Ticket::wait() const {
  Engine& engine = get();
  engine.callers_.fetch_add(1);
  {
    std::unique_lock lock(state_->mutex);
    state_->done_changed.wait(lock, [&] { return state_->is_done; });
  }
  engine.callers_.fetch_sub(1);
  if (state_->error) std::rethrow_exception(state_->error);
}
bool Engine::Ticket::is_done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->is_done;
}

Engine& Engine::get() {
  // Leaked on purpose: the thread uses it until the process is gone.
  static Engine* const engine = new Engine;
  return *engine;
}
bool Engine::is_started() { return the_engine.load() != nullptr; }

Engine::Engine()
    : timeout_(number_from_environment("GLUINO_DISTRIBUTED_TIMEOUT", kDefaultTimeout)),
      transport_(open_transport(timeout_)),
      emulated_gbit_(number_from_environment("GLUINO_DISTRIBUTED_GBIT", 0)) {
  the_engine = this;
  if (size() == 1) return;
  share_cores(transport_.local_size);
  set_random_rank(rank());
  write_status("has not come to any collective yet");
  what_ = "the beginning";
  set_deadline();
  // An emulated network is one between machines.
  shared_ = SharedMemory::open(transport_, emulated_gbit_ == 0, [this](Request r) { complete(r); });
  thread_ = std::thread([this] { serve(); });
  std::atexit([] { the_engine.load()->leave_at_exit(); });
}

Engine::Ticket Engine::submit(std::string what, std::function<void()> work, Notes notes) {
  Ticket ticket;
  ticket.state_ = std::make_shared<Ticket::State>();
  ticket.state_->what = std::move(what);
  ticket.state_->work = std::move(work);
  ticket.state_->notes = notes;
  if (is_forked())
    throw UserError("a process that was made by fork is no rank: let the process that started do what all ranks do together");
  {
    const std::lock_guard lock(mutex_);
    if (finished_) raise<UserError>("this rank has left the world by finish() and cannot take part in {}", ticket.state_->what);
    waiting_.push_back(ticket);
  }
  wake_.notify_one();
  return ticket;
}

void Engine::serve() {
  ::prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: sleeps are as short as they are asked to be
  for (;;) {
    Ticket next;
    {
      std::unique_lock lock(mutex_);
      while (waiting_.empty()) {
        wake_.wait_for(lock, kServePeriod);
        if (!waiting_.empty()) break;
        lock.unlock();
        answer_questions();
        lock.lock();
      }
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const bool is_end = next.state_->what == kEnd;
    std::exception_ptr error;
    try {
      if (!broken_.empty()) raise<SystemError>("{} cannot be done: {}", next.state_->what, broken_);
      agree(next.state_->what, next.state_->notes);
      next.state_->work();
      write_status("has done");
    } catch (const std::exception& e) {
      error = std::current_exception();
      const std::lock_guard lock(mutex_);
      if (broken_.empty()) broken_ = fmt::format("the ranks are no longer in step since this: {}", e.what());
    }
    {
      const std::lock_guard lock(next.state_->mutex);
      next.state_->error = error;
      next.state_->work = nullptr;  // lets go of what it holds
      next.state_->is_done = true;
    }
    next.state_->done_changed.notify_all();
    if (is_end) return;
  }
}

void Engine::write_status(const char* verb) {
  status_ = number_ == 0 ? verb : fmt::format("{} number {}, {}", verb, number_, what_);
  if (status_.size() >= kStatusBytes) status_.resize(kStatusBytes - 1);
}

void Engine::set_deadline() {
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout()));
}

// All ranks show each other a hash of what they are about to do; only where these differ do they show it in full.
void Engine::agree(const std::string& what, const Notes& notes) {
  what_ = what;
  ++number_;
  write_status("is at");
  set_deadline();
  const uint64_t hash = hash_of(fmt::format("{} {}", number_, what_));  // in full: the status may have been cut
  const SharedMemory::Words own = {hash, ~hash, notes[0], notes[1]};
  SharedMemory::Words largest = own;
  if (shared_) {
    shared_->post(own);
    meet();
    for (int r = 0; r < size(); ++r)
      for (size_t i = 0; i < own.size(); ++i) largest[i] = std::max(largest[i], shared_->posted(r)[i]);
  } else {
    complete(transport_.all_max(own.data(), largest.data(), static_cast<int>(own.size())));
  }
  largest_notes_ = {largest[2], largest[3]};
  if (largest[0] != ~largest[1]) raise_mismatch();
}

void Engine::raise_mismatch() {
  std::vector<char> own(kStatusBytes, '\0'), all(static_cast<size_t>(kStatusBytes) * size());
  std::memcpy(own.data(), status_.data(), status_.size());
  complete(transport_.all_gather(own.data(), kStatusBytes, all.data()));
  std::vector<std::string> statuses;
  for (int r = 0; r < size(); ++r) statuses.emplace_back(all.data() + static_cast<ptrdiff_t>(r) * kStatusBytes);
  raise<UserError>(
      "the ranks have come to different collectives. {}. All ranks must make the same calls in the same order, with the same shapes and "
      "dtypes; this is rank {}",
      grouped(statuses), rank());
}

void Engine::raise_timeout() {
  transport_.ask();
  std::vector<std::string> statuses(size());
  const auto end = Clock::now() + kAnswerPatience;
  // To the end, though all may have answered: others will ask soon, and this is the last time that they are served.
  for (; Clock::now() < end; std::this_thread::sleep_for(milliseconds(5))) {
    char text[kStatusBytes];
    for (int r = 0; r < size(); ++r)
      if (r != rank() && statuses[r].empty() && transport_.answer(r, text)) statuses[r] = text;
    transport_.serve(status_.c_str());
  }
  for (int r = 0; r < size(); ++r) {
    if (r == rank() || statuses[r] == status_)
      statuses[r] = "waits";
    else if (statuses[r].empty())
      statuses[r] = "does not answer: it has been stopped or cannot be reached";
  }
  raise<SystemError>(
      "number {}, {}, was not done within {} s. {}. set_timeout() or GLUINO_DISTRIBUTED_TIMEOUT sets how long to wait; this is rank {}",
      number_, what_, timeout(), grouped(statuses), rank());
}

void Engine::answer_questions() {
  // What was begun and never ended may be about memory that is gone: MPI must not be given the chance to go on with it.
  if (!broken_.empty()) return;
  last_served_ = Clock::now();
  transport_.serve(status_.c_str());
}

// News is a few microseconds away where the others are running; where they are not, because cores are fewer than threads, whoever sleeps
// is woken sooner than whoever has used up its time by looking. When the caller computes, the cores are its own.
bool Engine::may_look_again(int polls) const { return callers_.load() > 0 && polls < 100; }
void Engine::pause(int polls) {
  if (may_look_again(polls))
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(polls < 10000 ? 20 : 500));
}
void Engine::keep_limits() {
  const auto now = Clock::now();
  if (now >= deadline_) raise_timeout();
  if (now - last_served_ >= kServePeriod) answer_questions();
}

void Engine::complete(Request request) {
  for (int polls = 0; !transport_.test(request); ++polls) {
    keep_limits();
    pause(polls);
  }
}

void Engine::await(uint32_t mark) {
  for (int r = 0; r < size(); ++r)
    for (int polls = 0; !shared_->has_reached(r, mark); ++polls) {
      keep_limits();
      if (may_look_again(polls))
        std::this_thread::yield();
      else
        shared_->sleep_until(r, mark);
    }
}

void Engine::pace(Clock::time_point begin, int64_t bytes) const {
  if (emulated_gbit_ > 0)
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(
                                              std::chrono::duration<double>(8e-9 * static_cast<double>(bytes) / emulated_gbit_)));
}

void Engine::set_timeout(double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) raise<UserError>("set_timeout: {} seconds, a positive number is needed", seconds);
  timeout_ = seconds;
}

void Engine::finish() {
  if (size() == 1) return;
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
  }
  const Ticket end = submit(kEnd, [] {});
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  try {
    end.wait();
  } catch (const std::exception&) {
    thread_.join();
    throw;
  }
  thread_.join();
  transport_.finalize();
}

void Engine::leave_at_exit() {
  if (is_forked()) return;
  bool was_broken;
  {
    const std::lock_guard lock(mutex_);
    if (finished_ && broken_.empty()) return;
    was_broken = !broken_.empty();
  }
  if (!was_broken) {
    try {
      return finish();
    } catch (const std::exception& e) {
      fmt::print(stderr, "gluino: rank {} has ended before its time: {}\n", rank(), e.what());
    }
  }
  // The others have the same to say; they get the time to do so.
  std::fflush(nullptr);
  std::this_thread::sleep_for(milliseconds(500));
  transport_.abort(1);
}

void Engine::abort(int code) {
  std::fflush(nullptr);
  if (size() > 1 && !is_forked()) transport_.abort(code);
  ::_exit(code);
}

}  // namespace gluino::distributed
