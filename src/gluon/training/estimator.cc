#include "gluino/estimator.h"

#include <chrono>

#include "base/format.h"
#include "gluino/autograd.h"
#include "gluino/distributed.h"
#include "gluino/random.h"

namespace gluino::estimator {

Estimator::Estimator(Block& net, std::shared_ptr<loss::Loss> loss, EstimatorOptions options)
    : net_(net), loss_(std::move(loss)), options_(std::move(options)) {
  if (!loss_) throw UserError("Estimator: the loss is null");
  if (options_.metrics.empty()) options_.metrics.push_back(metric::create("accuracy"));
  if (options_.devices.size() > 1) net_.reset_devices(options_.devices);
  trainer_ =
      std::make_unique<Trainer>(net_.collect_params(), options_.optimizer ? options_.optimizer : optimizer::adam(), options_.trainer);
}

bool Estimator::is_distributed() const { return options_.trainer.kvstore.starts_with("dist") && distributed::size() > 1; }
bool Estimator::is_first_rank() const { return !is_distributed() || distributed::rank() == 0; }
double Estimator::of_first_rank(double v) const {
  return is_distributed() ? distributed::broadcast(full({1}, v, DType::float64)).item<double>() : v;
}

void Estimator::run_batch(const Tensors& batch) {
  if (batch.size() < 2) throw UserError("Estimator: a batch needs the network's inputs and, last, the label");
  const size_t parts = std::max<size_t>(1, options_.devices.size());
  std::vector<Tensors> by_part(parts);
  for (const Tensor& t : batch) {
    const Tensors pieces = parts > 1 ? split_and_load(t, options_.devices, 0, false) : Tensors{t};
    for (size_t i = 0; i < parts; ++i) by_part[i].push_back(pieces[i]);
  }
  Tensors losses, predictions;
  for (const Tensors& part : by_part) {
    const auto record = autograd::record();
    predictions.push_back(net_(Tensors(part.begin(), part.end() - 1)).at(0));
    losses.push_back((*loss_)(predictions.back(), part.back()));
  }
  autograd::backward(losses);
  const int64_t size = batch[0].extent(0);
  trainer_->step(static_cast<double>(size * (is_distributed() ? distributed::size() : 1)));
  for (size_t i = 0; i < parts; ++i) {
    loss_value_.update({}, losses[i]);
    for (const metric::MetricPtr& m : options_.metrics) m->update(by_part[i].back(), predictions[i]);
  }
  samples_ += size;
  ++batch_;
}

void Estimator::fit(data::DataLoader& train_data, FitOptions options) {
  if (options.epochs < 1) raise<UserError>("fit: epochs is {}, at least 1 is needed", options.epochs);
  epoch_ = 0;
  epochs_ = options.epochs;
  batches_ = train_data.size();
  is_stopped_ = false;
  auto tell = [&](void (Handler::*event)(Estimator&)) {
    for (const HandlerPtr& h : options.handlers) (*h.*event)(*this);
  };
  tell(&Handler::train_begin);
  for (; epoch_ < epochs_ && !is_stopped_; ++epoch_) {
    if (options.seed) seed(*options.seed + static_cast<uint64_t>(epoch_));
    train_data.set_epoch(static_cast<uint64_t>(epoch_));
    batch_ = samples_ = 0;
    seconds_ = 0;
    loss_value_.reset();
    for (const metric::MetricPtr& m : options_.metrics) m->reset();
    tell(&Handler::epoch_begin);
    const auto start = std::chrono::steady_clock::now();
    for (const Tensors& batch : train_data) {
      run_batch(batch);
      seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      tell(&Handler::batch_end);
      if (is_stopped_) break;
    }
    if (options.val_data) {
      val_values_.clear();
      for (auto& [name, v] : evaluate(*options.val_data)) val_values_.emplace_back("val_" + name, v);
    }
    tell(&Handler::epoch_end);
  }
  tell(&Handler::train_end);
}

Values Estimator::evaluate(data::DataLoader& data) {
  metric::Loss loss;
  std::vector<metric::MetricPtr> metrics;
  for (const metric::MetricPtr& m : options_.metrics) metrics.push_back(m->fresh());
  for (const Tensors& batch : data) {
    const Device device = options_.devices.empty() ? batch[0].device() : options_.devices[0];
    Tensors inputs;
    for (const Tensor& t : batch) inputs.push_back(t.to(device));
    const Tensor label = inputs.back();
    inputs.pop_back();
    const Tensor prediction = net_(inputs).at(0);
    loss.update({}, (*loss_)(prediction, label));
    for (const metric::MetricPtr& m : metrics) m->update(label, prediction);
  }
  Values values = loss.get();
  for (const metric::MetricPtr& m : metrics)
    for (auto& entry : m->get()) values.push_back(std::move(entry));
  return values;
}

Values Estimator::train_values() const {
  Values values = loss_value_.get();
  for (const metric::MetricPtr& m : options_.metrics)
    for (auto& entry : m->get()) values.push_back(std::move(entry));
  return values;
}
double Estimator::value(const std::string& name) const {
  std::vector<std::string> known;
  for (const Values& list : {train_values(), val_values_})
    for (const auto& [n, v] : list) {
      if (n == name) return v;
      known.push_back(n);
    }
  raise<UserError>("estimator: no value is named '{}'{}; there are {}", name, did_you_mean(name, known), fmt::join(known, ", "));
}

}  // namespace gluino::estimator
