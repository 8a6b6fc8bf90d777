// Trainer: applies an optimizer to parameters after backward, on one device or several.
#pragma once
#include "gluino/optimizer.h"
#include "gluino/parameter.h"

namespace gluino {

class Trainer {
 public:
  Trainer(const ParameterDict& parameters, optimizer::OptimizerPtr optimizer);
  Trainer(const ParameterDict& parameters, const std::string& optimizer, const optimizer::NamedOptions& options = {});

  // allreduce_grads() and update(): gradients are summed over the devices and divided by batch_size. A parameter that backward()
  // has not reached since the last step is an error, or is left as it is with ignore_stale_grad.
  void step(double batch_size, bool ignore_stale_grad = false);
  void allreduce_grads();
  void update(double batch_size, bool ignore_stale_grad = false);

  double learning_rate() const { return optimizer_->learning_rate(num_update_); }
  void set_learning_rate(double lr) { optimizer_->set_learning_rate(lr); }
  optimizer::Optimizer& optimizer() { return *optimizer_; }
  int64_t num_update() const { return num_update_; }  // steps taken so far

  // What the optimizer has gathered: with the parameters' values, training goes on as if never interrupted. A file of another network or
  // of another optimizer is an error that names what differs.
  void save_states(const std::string& path) const;
  void load_states(const std::string& path);

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
  std::vector<ParameterPtr> parameters_;
  std::vector<std::vector<State>> states_;  // by parameter and copy
  optimizer::OptimizerPtr optimizer_;
  int64_t num_update_ = 0;
};

// Cuts a batch into one part per device along batch_axis. With even_split the extent must be a multiple of the number of parts.
Tensors split_data(const Tensor& data, int64_t parts, int batch_axis = 0, bool even_split = true);
Tensors split_and_load(const Tensor& data, const std::vector<Device>& devices, int batch_axis = 0, bool even_split = true);

// Scales the tensors in place so that the norm of all their elements is at most max_norm; returns the norm before.
double clip_global_norm(const Tensors& tensors, double max_norm, bool check_isfinite = true);

}  // namespace gluino
