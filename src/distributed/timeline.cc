#include "distributed/timeline.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "gluino/distributed.h"

namespace gluino::distributed {
namespace {

struct Bar {
  std::string what;
  int64_t bytes;
  double begin, end;  // microseconds since the clock's beginning, which is the same for all ranks of a machine
  int thread;
};

std::atomic<bool> is_kept{false};
std::mutex mutex;
std::vector<Bar> bars;
std::atomic<int> threads{0};

double now() { return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
int thread_number() {
  static thread_local const int number = threads++;
  return number;
}

}  // namespace

TimelineScope::TimelineScope(std::string what, int64_t bytes) : what_(std::move(what)), bytes_(bytes) {
  if (is_kept) begin_ = now();
}
TimelineScope::~TimelineScope() {
  if (begin_ < 0) return;
  const int thread = thread_number();
  const std::lock_guard lock(mutex);
  bars.push_back({std::move(what_), bytes_, begin_, now(), thread});
}

void start_timeline() {
  const std::lock_guard lock(mutex);
  bars.clear();
  is_kept = true;
}
void mark_timeline(const std::string& what, const std::function<void()>& f) {
  const TimelineScope scope(what);
  f();
}
void write_timeline(const std::string& path) {
  std::string text = "[";
  {
    const std::lock_guard lock(mutex);
    is_kept = false;
    for (const Bar& b : bars) {
      std::string name;
      for (const char c : b.what)
        if (c != '"' && c != '\\' && c >= ' ') name += c;
      text += fmt::format(R"({}{{"name": "{}", "ph": "X", "ts": {:.1f}, "dur": {:.1f}, "pid": {}, "tid": {}{}}})",
                          text.size() > 1 ? ",\n" : "\n", name, b.begin, b.end - b.begin, rank(), b.thread,
                          b.bytes >= 0 ? fmt::format(R"(, "args": {{"bytes": {}}})", b.bytes) : "");
    }
    bars.clear();
  }
  text += "\n]\n";
  write_file(path, text);
}

}  // namespace gluino::distributed
