#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace gluino::cli {

Progress::Progress(std::string what) : what_(std::move(what)), is_shown_(isatty(STDERR_FILENO) == 1) { show(0); }

Progress::~Progress() { end(); }

void Progress::end() {
  if (!is_shown_) return;
  is_shown_ = false;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

void Progress::show(double fraction) {
  const int percent = static_cast<int>(100 * std::clamp(fraction, 0.0, 1.0));
  if (!is_shown_ || percent == percent_) return;
  percent_ = percent;
  fmt::print(stderr, "\r\033[K{} {}%", what_, percent);
  std::fflush(stderr);
}

}  // namespace gluino::cli
