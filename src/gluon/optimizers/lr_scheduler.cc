#include "gluino/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/format.h"

namespace gluino::lr_scheduler {
namespace {

// The warm-up that all schedules share; `after` is the rate from then on.
class Schedule final : public LRScheduler {
 public:
  template <class O>
  Schedule(const O& o, std::function<double(int64_t)> after)
      : base_lr_(o.base_lr),
        begin_(o.warmup_begin_lr),
        steps_(o.warmup_steps),
        constant_(o.warmup_mode == "constant"),
        after_(std::move(after)) {
    if (o.warmup_steps < 0) raise<UserError>("lr_scheduler: warmup_steps is {}, it must not be negative", o.warmup_steps);
    if (o.warmup_begin_lr > o.base_lr)
      raise<UserError>("lr_scheduler: warmup_begin_lr {} is above base_lr {}, but a warm-up goes up", o.warmup_begin_lr, o.base_lr);
    if (o.warmup_mode != "linear" && o.warmup_mode != "constant")
      raise<UserError>("lr_scheduler: warmup_mode is '{}'; it must be linear or constant", o.warmup_mode);
  }
  double operator()(int64_t n) const override {
    if (n >= steps_) return after_(n);
    return constant_ ? begin_ : begin_ + (base_lr_ - begin_) * static_cast<double>(n) / static_cast<double>(steps_);
  }

 private:
  double base_lr_, begin_;
  int64_t steps_;
  bool constant_;
  std::function<double(int64_t)> after_;
};

void check_factor(double factor) {
  if (factor > 1) raise<UserError>("lr_scheduler: factor is {}; above 1 the learning rate would grow", factor);
}

// How much of the way from the end of the warm-up to max_update is done: 0 to 1.
template <class O>
std::function<double(int64_t)> progress(int64_t max_update, const O& o) {
  if (max_update < 1) raise<UserError>("lr_scheduler: max_update is {}, at least 1 is needed", max_update);
  const auto warmup = static_cast<double>(o.warmup_steps), span = std::max(1.0, static_cast<double>(max_update) - warmup);
  return [=](int64_t n) { return std::clamp((static_cast<double>(n) - warmup) / span, 0.0, 1.0); };
}

}  // namespace

LRSchedulerPtr factor(int64_t step, FactorOptions o) {
  if (step < 1) raise<UserError>("lr_scheduler: step is {}, at least 1 is needed", step);
  check_factor(o.factor);
  return std::make_shared<Schedule>(o, [=](int64_t n) {
    const auto passed = static_cast<double>(std::max<int64_t>(0, (n - 1) / step));
    return std::max(o.base_lr * std::pow(o.factor, passed), std::min(o.stop_factor_lr, o.base_lr));
  });
}

LRSchedulerPtr multi_factor(std::vector<int64_t> steps, MultiFactorOptions o) {
  if (steps.empty() || steps[0] < 1 || std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end())
    raise<UserError>("lr_scheduler: steps ({}) must be positive and grow", fmt::join(steps, ", "));
  check_factor(o.factor);
  return std::make_shared<Schedule>(o, [=](int64_t n) {
    return o.base_lr * std::pow(o.factor, static_cast<double>(std::count_if(steps.begin(), steps.end(), [n](int64_t s) { return n > s; })));
  });
}

LRSchedulerPtr poly(int64_t max_update, PolyOptions o) {
  return std::make_shared<Schedule>(
      o, [o, done = progress(max_update, o)](int64_t n) { return o.final_lr + (o.base_lr - o.final_lr) * std::pow(1 - done(n), o.pwr); });
}

LRSchedulerPtr cosine(int64_t max_update, CosineOptions o) {
  return std::make_shared<Schedule>(o, [o, done = progress(max_update, o)](int64_t n) {
    return o.final_lr + (o.base_lr - o.final_lr) * (1 + std::cos(std::numbers::pi * done(n))) / 2;
  });
}

}  // namespace gluino::lr_scheduler
