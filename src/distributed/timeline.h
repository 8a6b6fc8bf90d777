// What happened when, for Chrome's about:tracing: collectives on the engine's thread beside what the caller marks.
#pragma once
#include <cstdint>
#include <string>

namespace gluino::distributed {

// While it lives, one bar of the timeline. Costs nothing while no timeline is kept.
class TimelineScope {
 public:
  explicit TimelineScope(std::string what, int64_t bytes = -1);
  ~TimelineScope();
  TimelineScope(const TimelineScope&) = delete;
  TimelineScope& operator=(const TimelineScope&) = delete;

 private:
  std::string what_;
  int64_t bytes_;
  double begin_ = -1;
};

}  // namespace gluino::distributed
