// Optimizers: how a weight follows its gradient. optimizer::adam({.learning_rate = 1e-3}), or by name.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gluino/lr_scheduler.h"
#include "gluino/named_options.h"
#include "gluino/tensor.h"

namespace gluino::optimizer {

using lr_scheduler::LRSchedulerPtr;

// One step of one weight.
struct Update {
  std::string name;  // of the parameter
  Tensor weight, grad;
  std::span<Tensor> state;
  double lr, wd;        // of this weight, at this step
  double rescale_grad;  // factor of the gradient
  int64_t t;            // number of this step, from 1 on
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string name() const = 0;
  virtual Tensors create_state(const Tensor& weight) const = 0;
  // One step of many weights, in any order.
  virtual void update(std::span<Update> updates) const = 0;

  double learning_rate(int64_t num_update) const { return scheduler_ ? (*scheduler_)(num_update) : learning_rate_; }
  void set_learning_rate(double lr);  // raises UserError when a scheduler decides
  const LRSchedulerPtr& lr_scheduler() const { return scheduler_; }
  void set_lr_scheduler(LRSchedulerPtr s) { scheduler_ = std::move(s); }
  double wd() const { return wd_; }
  double rescale_grad() const { return rescale_grad_; }
  bool multi_precision() const { return multi_precision_; }

 protected:
  double learning_rate_ = 0.01, wd_ = 0, rescale_grad_ = 1;
  bool multi_precision_ = false;
  LRSchedulerPtr scheduler_;
};
using OptimizerPtr = std::shared_ptr<Optimizer>;

// What all optimizers take. A negative clip_gradient clips nothing; lr_scheduler, if given, decides instead of
// learning_rate; multi_precision keeps a float32 copy of 16-bit weights.
#define GLUINO_OPTIMIZER_FIELDS                        \
  double wd = 0, clip_gradient = -1, rescale_grad = 1; \
  LRSchedulerPtr lr_scheduler = {};                    \
  bool multi_precision = false;

struct SGDOptions {
  double learning_rate = 0.01, momentum = 0;
  GLUINO_OPTIMIZER_FIELDS
};
struct NAGOptions {
  double learning_rate = 0.01, momentum = 0;
  GLUINO_OPTIMIZER_FIELDS
};
struct AdamOptions {
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  GLUINO_OPTIMIZER_FIELDS
};
struct AdamWOptions {
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  bool correct_bias = true;
  GLUINO_OPTIMIZER_FIELDS
};
struct AdaGradOptions {
  double learning_rate = 0.01, eps = 1e-7;
  GLUINO_OPTIMIZER_FIELDS
};
struct AdaDeltaOptions {
  double learning_rate = 1, rho = 0.9, epsilon = 1e-5;
  GLUINO_OPTIMIZER_FIELDS
};
struct RMSPropOptions {
  double learning_rate = 0.001, gamma1 = 0.9, gamma2 = 0.9, epsilon = 1e-8;
  bool centered = false;
  double clip_weights = -1;  // negative: none
  GLUINO_OPTIMIZER_FIELDS
};
struct FtrlOptions {
  double learning_rate = 0.1, lamda1 = 0.01, beta = 1;
  GLUINO_OPTIMIZER_FIELDS
};
struct AdamaxOptions {
  double learning_rate = 0.002, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  GLUINO_OPTIMIZER_FIELDS
};
struct NadamOptions {
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, schedule_decay = 0.004;
  GLUINO_OPTIMIZER_FIELDS
};
struct FTMLOptions {
  double learning_rate = 0.01, beta1 = 0.6, beta2 = 0.999, epsilon = 1e-8;
  GLUINO_OPTIMIZER_FIELDS
};
struct LAMBOptions {
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  double lower_bound = -1, upper_bound = -1;  // of the weight's norm; negative: none
  bool bias_correction = true;
  GLUINO_OPTIMIZER_FIELDS
};
struct LARSOptions {
  double learning_rate = 0.01, momentum = 0, eta = 0.001, eps = 0;
  bool momentum_correction = true;  // a new learning rate also scales the momentum gathered so far
  GLUINO_OPTIMIZER_FIELDS
};
struct SignumOptions {
  double learning_rate = 0.01, momentum = 0.9, wd_lh = 0;
  GLUINO_OPTIMIZER_FIELDS
};
struct DCASGDOptions {
  double learning_rate = 0.01, momentum = 0, lamda = 0.04;
  GLUINO_OPTIMIZER_FIELDS
};
struct SGLDOptions {
  double learning_rate = 0.01;
  GLUINO_OPTIMIZER_FIELDS
};
#undef GLUINO_OPTIMIZER_FIELDS

OptimizerPtr sgd(SGDOptions options = {});
OptimizerPtr nag(NAGOptions options = {});
OptimizerPtr adam(AdamOptions options = {});
OptimizerPtr adamw(AdamWOptions options = {});
OptimizerPtr adagrad(AdaGradOptions options = {});
OptimizerPtr adadelta(AdaDeltaOptions options = {});
OptimizerPtr rmsprop(RMSPropOptions options = {});
OptimizerPtr ftrl(FtrlOptions options = {});
OptimizerPtr adamax(AdamaxOptions options = {});
OptimizerPtr nadam(NadamOptions options = {});
OptimizerPtr ftml(FTMLOptions options = {});
OptimizerPtr lamb(LAMBOptions options = {});
OptimizerPtr lars(LARSOptions options = {});
OptimizerPtr signum(SignumOptions options = {});
OptimizerPtr dcasgd(DCASGDOptions options = {});
OptimizerPtr sgld(SGLDOptions options = {});

// create("adam", {{"learning_rate", 0.001}}): names as above, options as in the structs.
using gluino::NamedOptions;
OptimizerPtr create(const std::string& name, const NamedOptions& options = {});
std::vector<std::string> names();  // of all optimizers
std::vector<Option> options_of(const std::string& name);

}  // namespace gluino::optimizer
