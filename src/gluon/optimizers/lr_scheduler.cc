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
      : warm_up_{o.warmup_begin_lr, o.base_lr, o.warmup_steps, o.warmup_mode}, after_(std::move(after)) {
    if (o.warmup_steps < 0) raise<UserError>("lr_scheduler: warmup_steps is {}, it must not be negative", o.warmup_steps);
    if (o.warmup_begin_lr > o.base_lr)
      raise<UserError>("lr_scheduler: warmup_begin_lr {} is above base_lr {}, but a warm-up goes up", o.warmup_begin_lr, o.base_lr);
    if (o.warmup_mode != "linear" && o.warmup_mode != "constant")
      raise<UserError>("lr_scheduler: warmup_mode is '{}'; it must be linear or constant", o.warmup_mode);
  }
  double operator()(int64_t n) const override { return n < warm_up_.steps ? warm_up(warm_up_, n) : after_(n); }

 private:
  WarmUp warm_up_;
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

double warm_up(const WarmUp& w, int64_t n) {
  if (w.mode == "constant") return w.begin_lr;
  return w.begin_lr + (w.end_lr - w.begin_lr) * static_cast<double>(n) / static_cast<double>(w.steps);
}
Place after_factors(Place from, int64_t n, int64_t step, double factor, double stop_factor_lr) {
  const int64_t passed = (n - from.count - 1) / step;
  if (passed <= 0) return from;
  return {std::max(from.lr * std::pow(factor, static_cast<double>(passed)), stop_factor_lr), from.count + passed * step};
}
Place after_steps(Place from, int64_t n, const std::vector<int64_t>& steps, double factor) {
  while (from.count < static_cast<int64_t>(steps.size()) && n > steps[static_cast<size_t>(from.count)]) {
    ++from.count;
    from.lr *= factor;
  }
  return from;
}
double poly_descent(double base_lr, double final_lr, double done, double pwr) {
  return final_lr + (base_lr - final_lr) * std::pow(1 - done, pwr);
}
double cosine_descent(double base_lr, double final_lr, double done) {
  return final_lr + (base_lr - final_lr) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

LRSchedulerPtr factor(int64_t step, FactorOptions o) {
  if (step < 1) raise<UserError>("lr_scheduler: step is {}, at least 1 is needed", step);
  check_factor(o.factor);
  return std::make_shared<Schedule>(o, [=](int64_t n) { return after_factors({o.base_lr, 0}, n, step, o.factor, o.stop_factor_lr).lr; });
}

LRSchedulerPtr multi_factor(std::vector<int64_t> steps, MultiFactorOptions o) {
  if (steps.empty() || steps[0] < 1 || std::adjacent_find(steps.begin(), steps.end(), std::greater_equal<>()) != steps.end())
    raise<UserError>("lr_scheduler: steps ({}) must be positive and grow", fmt::join(steps, ", "));
  check_factor(o.factor);
  return std::make_shared<Schedule>(o, [=](int64_t n) { return after_steps({o.base_lr, 0}, n, steps, o.factor).lr; });
}

LRSchedulerPtr poly(int64_t max_update, PolyOptions o) {
  return std::make_shared<Schedule>(
      o, [o, done = progress(max_update, o)](int64_t n) { return poly_descent(o.base_lr, o.final_lr, done(n), o.pwr); });
}

LRSchedulerPtr cosine(int64_t max_update, CosineOptions o) {
  return std::make_shared<Schedule>(
      o, [o, done = progress(max_update, o)](int64_t n) { return cosine_descent(o.base_lr, o.final_lr, done(n)); });
}

}  // namespace gluino::lr_scheduler
