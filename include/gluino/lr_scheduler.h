// Learning rates as functions of the number of updates, with warm-up.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gluino::lr_scheduler {

class LRScheduler {
 public:
  virtual ~LRScheduler() = default;
  virtual double operator()(int64_t num_update) const = 0;
};
using LRSchedulerPtr = std::shared_ptr<const LRScheduler>;

// Every schedule warms up from warmup_begin_lr to base_lr in warmup_steps updates: "linear", or "constant" until then.
#define GLUINO_SCHEDULE_FIELDS \
  double base_lr = 0.01;       \
  int64_t warmup_steps = 0;    \
  double warmup_begin_lr = 0;  \
  std::string warmup_mode = "linear";

// base_lr * factor^k, where k counts the full steps so far; not below stop_factor_lr.
struct FactorOptions {
  double factor = 1, stop_factor_lr = 1e-8;
  GLUINO_SCHEDULE_FIELDS
};
LRSchedulerPtr factor(int64_t step, FactorOptions options = {});

// base_lr * factor^k, where k counts the numbers in `steps` that have been passed.
struct MultiFactorOptions {
  double factor = 1;
  GLUINO_SCHEDULE_FIELDS
};
LRSchedulerPtr multi_factor(std::vector<int64_t> steps, MultiFactorOptions options = {});

// From base_lr to final_lr along (1 - t)^pwr, t going from 0 to 1 at max_update.
struct PolyOptions {
  double pwr = 2, final_lr = 0;
  GLUINO_SCHEDULE_FIELDS
};
LRSchedulerPtr poly(int64_t max_update, PolyOptions options = {});

// From base_lr to final_lr along half a cosine.
struct CosineOptions {
  double final_lr = 0;
  GLUINO_SCHEDULE_FIELDS
};
LRSchedulerPtr cosine(int64_t max_update, CosineOptions options = {});
#undef GLUINO_SCHEDULE_FIELDS

// What these are made of, for schedules that remember their place, as Python's do.
struct WarmUp {
  double begin_lr = 0, end_lr = 0.01;
  int64_t steps = 0;
  std::string mode = "linear";
};
double warm_up(const WarmUp& w, int64_t num_update);  // before its end
struct Place {
  double lr;      // until
  int64_t count;  // updates, or steps of a list
};
Place after_factors(Place from, int64_t num_update, int64_t step, double factor, double stop_factor_lr);
Place after_steps(Place from, int64_t num_update, const std::vector<int64_t>& steps, double factor);
// From base_lr to final_lr, of which the share `done` is behind: along (1 - done)^pwr, or half a cosine.
double poly_descent(double base_lr, double final_lr, double done, double pwr);
double cosine_descent(double base_lr, double final_lr, double done);

}  // namespace gluino::lr_scheduler
