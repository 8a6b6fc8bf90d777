#include "dispatch/run_log.h"

#include <utility>

namespace gluino {

static thread_local RunLog::Scope* current = nullptr;

RunLog::Scope::Scope(RunLog& log, Use use) : log_(log), use_(use), outer_(current) { current = this; }
RunLog::Scope::~Scope() { current = outer_; }

RunLog::Pause::Pause() : paused_(std::exchange(current, nullptr)) {}
RunLog::Pause::~Pause() { current = paused_; }

void RunLog::add(std::shared_ptr<void> run) {
  if (current && current->use_ == Scope::Use::write) current->log_.runs_.push_back(std::move(run));
}
std::shared_ptr<void> RunLog::next() {
  if (!current || current->use_ != Scope::Use::read || current->next_ == current->log_.runs_.size()) return nullptr;
  return current->log_.runs_[current->next_++];
}

}  // namespace gluino
