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

}  // namespace gluino::lr_scheduler
