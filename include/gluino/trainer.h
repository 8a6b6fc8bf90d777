// Trainer: applies an optimizer to parameters after backward, on one device or several.
#pragma once
#include "gluino/optimizer.h"
#include "gluino/parameter.h"

namespace gluino {

namespace distributed {
class GradientExchange;
}

struct TrainerOptions {
  // "local" and "device": this process alone. "dist_sync", "dist_device_sync": gradients are summed over all ranks too
  // (gluino/distributed.h), and all begin with the values of rank 0. "dist_async" runs as "dist_sync".
  std::string kvstore = "device";
  // ---- for dist_sync
  std::string compression = {};        // of gradients on their way: "fp16", "bf16", "2bit" (with the error added to the next gradient)
  double compression_threshold = 0.5;  // of 2bit
  double bucket_megabytes = 4;         // small gradients travel together
  bool overlap = true;                 // gradients leave while backward() still computes others
  bool shard_states = false;  // each rank keeps the optimizer's states of a part of the parameters, and updates these (ZeRO, stage 1)
};

class Trainer {
 public:
  Trainer(const ParameterDict& parameters, optimizer::OptimizerPtr optimizer, TrainerOptions options = {});
  Trainer(const ParameterDict& parameters, const std::string& optimizer, const optimizer::NamedOptions& optimizer_options = {},
          TrainerOptions options = {});

  // allreduce_grads() and update(): gradients are summed over the devices and ranks and divided by batch_size, the number of samples of all
  // of them together. A parameter that backward() has not reached since the last step is an error, or is left as it is with
  // ignore_stale_grad.
  void step(double batch_size, bool ignore_stale_grad = false);
  void allreduce_grads();
  void update(double batch_size, bool ignore_stale_grad = false);

  double learning_rate() const { return optimizer_->learning_rate(num_update_); }
  void set_learning_rate(double lr) { optimizer_->set_learning_rate(lr); }
  optimizer::Optimizer& optimizer() { return *optimizer_; }
  int64_t num_update() const { return num_update_; }  // steps taken so far

  // What the optimizer has gathered: with the parameters' values, training goes on as if never interrupted. A file of another network or
  // of another optimizer is an error that names what differs. Files do not depend on the number of ranks. With shard_states all ranks call
  // save_states, and rank 0 writes.
  void save_states(const std::string& path) const;
  void load_states(const std::string& path);

  const TrainerOptions& options() const { return options_; }

 private:
  struct State {
    bool is_created = false;
    Tensors tensors;
  };
  void check_fresh(const Parameter& p) const;
  bool has_master(const Tensor& weight) const;
  State make_state(const Tensor& weight) const;
  void check_state(const std::string& path, const Parameter& p, const State& state, const Tensor& weight) const;
  optimizer::Update update_of(const Parameter& p, State& state, const Tensor& copy, double rescale_grad) const;
  bool is_distributed() const { return exchange_ != nullptr; }
  void share_first_values();
  bool is_own(size_t parameter) const;  // whether this rank updates it
  void share_updated_values();
  std::vector<std::vector<State>> gather_states() const;
  std::vector<ParameterPtr> parameters_;
  TrainerOptions options_;
  std::shared_ptr<distributed::GradientExchange> exchange_;  // null: there is one process
  std::vector<bool> is_shared_;                              // per parameter: all ranks have begun with the same value
  mutable std::vector<int> owners_;                          // with shard_states: the rank that updates each
  std::vector<std::vector<State>> states_;                   // by parameter and copy
  optimizer::OptimizerPtr optimizer_;
  int64_t num_update_ = 0;
};

// Cuts a batch into one part per device along batch_axis. With even_split the extent must be a multiple of the number of parts.
Tensors split_data(const Tensor& data, int64_t parts, int batch_axis = 0, bool even_split = true);
Tensors split_and_load(const Tensor& data, const std::vector<Device>& devices, int batch_axis = 0, bool even_split = true);

// Scales the tensors in place so that the norm of all their elements is at most max_norm; returns the norm before.
double clip_global_norm(const Tensors& tensors, double max_norm, bool check_isfinite = true);

}  // namespace gluino
