#include "gluino/trainer.h"

#include <cmath>
#include <utility>

#include "base/format.h"
#include "dispatch/mode.h"
#include "distributed/gradient_exchange.h"
#include "gluino/autograd.h"
#include "gluino/ops.h"
#include "tensor/impl.h"

namespace gluino {

std::shared_ptr<distributed::GradientExchange> make_exchange(const TrainerOptions& options);  // trainer_ranks.cc

Trainer::Trainer(const ParameterDict& parameters, optimizer::OptimizerPtr optimizer, TrainerOptions options)
    : options_(std::move(options)), exchange_(make_exchange(options_)), optimizer_(std::move(optimizer)) {
  if (!optimizer_) throw UserError("Trainer: the optimizer is null");
  for (const auto& [name, p] : parameters)
    if (p->grad_req() != GradReq::null) parameters_.push_back(p);
  states_.resize(parameters_.size());
  if (is_distributed()) share_first_values();
}
Trainer::Trainer(const ParameterDict& parameters, const std::string& name, const optimizer::NamedOptions& optimizer_options,
                 TrainerOptions options)
    : Trainer(parameters, optimizer::create(name, optimizer_options), std::move(options)) {}

void Trainer::step(double batch_size, bool ignore_stale_grad) {
  allreduce_grads();
  update(batch_size, ignore_stale_grad);
}

void Trainer::allreduce_grads() {
  const autograd::Scope scope(false, std::nullopt);
  for (const ParameterPtr& p : parameters_) {
    if (p->list_data().size() == 1) continue;
    Tensors gradients = p->list_grad();
    Tensor sum = gradients[0].copy();
    for (size_t i = 1; i < gradients.size(); ++i) sum += gradients[i].to(sum.device());
    for (Tensor& g : gradients) g.assign(sum.to(g.device()));
  }
  if (!is_distributed()) return;
  share_first_values();
  Tensors first_copies;
  for (const ParameterPtr& p : parameters_) first_copies.push_back(p->list_data()[0]);
  exchange_->sum_over_ranks(first_copies);
  for (const ParameterPtr& p : parameters_)
    for (size_t c = 1; c < p->list_data().size(); ++c) {
      const Tensor &first = p->list_data()[0], &copy = p->list_data()[c];
      copy.grad().assign(first.grad().to(copy.device()));
      autograd::set_fresh_grad(copy, autograd::has_fresh_grad(first));
    }
}

void Trainer::check_fresh(const Parameter& p) const {
  for (const Tensor& copy : p.list_data())
    if (!autograd::has_fresh_grad(copy))
      raise<UserError>(
          "Trainer: backward() has not reached parameter '{}' on {} since the last step; if this step uses only some of the parameters, "
          "pass "
          "ignore_stale_grad = true, which leaves the others as they are",
          p.name(), copy.device().str());
}

// Converts all tensors in one call.
static void convert_all(const Tensors& from, Tensors to) {
  if (from.empty()) return;
  const OpDef& op = OpRegistry::global().get("amp_multicast");
  const std::pair<std::string_view, AttrValue> attrs[] = {{"num_outputs", static_cast<int64_t>(from.size())}};
  apply_into(op, from, op.make_attrs(attrs), to);
}

void Trainer::update(double batch_size, bool ignore_stale_grad) {
  if (!(batch_size > 0)) raise<UserError>("Trainer: batch_size is {}, a positive number is needed", batch_size);
  if (!ignore_stale_grad)
    for (const ParameterPtr& p : parameters_) check_fresh(*p);
  const autograd::Scope scope(false, std::nullopt);
  ++num_update_;
  std::vector<optimizer::Update> updates;
  Tensors narrow, wide, narrow_grads, wide_grads;  // 16-bit weights, and the float32 copies that the updates are about
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_own(i)) continue;
    const Tensors& copies = parameters_[i]->list_data();
    states_[i].resize(copies.size());
    for (size_t c = 0; c < copies.size(); ++c) {
      if (!autograd::has_fresh_grad(copies[c])) continue;
      optimizer::Update& u =
          updates.emplace_back(update_of(*parameters_[i], states_[i][c], copies[c], optimizer_->rescale_grad() / batch_size));
      if (!has_master(copies[c])) continue;
      narrow.push_back(copies[c].detach());
      wide.push_back(u.weight);
      narrow_grads.push_back(std::exchange(u.grad, make_tensor(u.grad.shape(), DType::float32, u.grad.device())));
      wide_grads.push_back(u.grad);
    }
  }
  convert_all(narrow_grads, wide_grads);
  optimizer_->update(updates);
  convert_all(wide, narrow);
  if (options_.shard_states) share_updated_values();
  for (const ParameterPtr& p : parameters_)
    for (const Tensor& copy : p->list_data()) autograd::set_fresh_grad(copy, false);
}

bool Trainer::has_master(const Tensor& weight) const {
  return optimizer_->multi_precision() && (weight.dtype() == DType::float16 || weight.dtype() == DType::bfloat16);
}

Trainer::State Trainer::make_state(const Tensor& weight) const {
  const bool from_master = has_master(weight);
  const Tensor wide = from_master ? weight.astype(DType::float32) : weight;
  State state{.is_created = true, .tensors = optimizer_->create_state(wide)};
  if (from_master) state.tensors.push_back(wide);  // the copy that is updated, after the optimizer's own states
  return state;
}

optimizer::Update Trainer::update_of(const Parameter& p, State& state, const Tensor& copy, double rescale_grad) const {
  // Off the tape, and without detach()'s link to the parameter: nobody updates either in place while the step runs.
  const Tensor weight = mode().tracing ? copy.detach() : make_view(copy, copy.shape(), 0), grad = copy.grad();
  if (!grad.defined()) raise<UserError>("Trainer: parameter '{}' has no gradient; call backward() before step()", p.name());
  const DeviceScope device(weight.device());
  const bool from_master = has_master(weight);
  if (!state.is_created) state = make_state(weight);
  return {p.name(),
          from_master ? state.tensors.back() : weight,
          grad,
          std::span(state.tensors).first(state.tensors.size() - from_master),
          optimizer_->learning_rate(num_update_) * p.lr_mult(),
          optimizer_->wd() * p.wd_mult(),
          rescale_grad,
          num_update_};
}

// ---- batches over devices, norms

Tensors split_data(const Tensor& data, int64_t parts, int batch_axis, bool even_split) {
  const int axis = normalize_axis(batch_axis, data.shape());
  const int64_t extent = data.extent(axis);
  if (parts < 1 || parts > extent) raise<UserError>("split_data: {} rows cannot be cut into {} parts", extent, parts);
  if (even_split && extent % parts != 0)
    raise<UserError>("split_data: {} rows cannot be cut evenly into {} parts; use a batch size that is a multiple, or even_split = false",
                     extent, parts);
  Tensors out;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t begin = extent * i / parts, end = extent * (i + 1) / parts;
    out.push_back(slice_axis(data, {.axis = axis, .begin = begin, .end = end}));
  }
  return out;
}
Tensors split_and_load(const Tensor& data, const std::vector<Device>& devices, int batch_axis, bool even_split) {
  Tensors parts = split_data(data, static_cast<int64_t>(devices.size()), batch_axis, even_split);
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i].to(devices[i]);
  return parts;
}

double clip_global_norm(const Tensors& tensors, double max_norm, bool check_isfinite) {
  const autograd::Scope scope(false, std::nullopt);
  double sum = 0;
  for (const Tensor& t : tensors) {
    const double norm = gluino::norm(t.astype(DType::float64)).item<double>();
    sum += norm * norm;
  }
  const double norm = std::sqrt(sum);
  if (check_isfinite && !std::isfinite(norm)) raise<UserError>("clip_global_norm: the norm is {}; lower the learning rate", norm);
  if (const double scale = max_norm / (norm + 1e-8); scale < 1)
    for (Tensor t : tensors) t *= scale;
  return norm;
}

}  // namespace gluino
