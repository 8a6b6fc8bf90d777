#include "gluino/parameter.h"

#include <unordered_set>

#include "autograd/tape.h"
#include "base/fork.h"
#include "base/format.h"
#include "dispatch/overwrite.h"
#include "gluino/autograd.h"
#include "gluino/block.h"
#include "graph/trace.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

// No axes at all: nothing is known, not even how many there are.
bool is_known(const Shape& s) {
  return !s.empty() && std::none_of(s.begin(), s.end(), [](int64_t e) { return e <= 0; });
}

// Which parameter a tensor is the value of. A trace asks for every tensor that it meets.
struct Values {
  NoForkMutex mutex;
  std::unordered_map<const detail::TensorImpl*, const Parameter*> parameters;
};
Values& values() {
  static auto* v = new Values;  // parameters may end after static objects
  return *v;
}

}  // namespace

const Parameter* Parameter::with_value(const Tensor& t) {
  const std::lock_guard lock(values().mutex);
  const auto known = values().parameters.find(t.impl().get());
  return known == values().parameters.end() ? nullptr : known->second;
}
void Parameter::set_copies(Tensors copies) {
  {
    const std::lock_guard lock(values().mutex);
    for (const Tensor& t : copies_) values().parameters.erase(t.impl().get());
    for (const Tensor& t : copies) values().parameters[t.impl().get()] = this;
  }
  copies_ = std::move(copies);
}
Parameter::~Parameter() { set_copies({}); }

std::shared_ptr<Parameter> Parameter::constant(std::string suffix, const Tensor& value) {
  auto p = std::make_shared<Parameter>(
      std::move(suffix),
      ParameterOptions{.shape = value.shape(), .dtype = value.dtype(), .grad_req = GradReq::null, .differentiable = false});
  p->set_copies({value.copy()});
  p->devices_ = {value.device()};
  return p;
}

std::string Parameter::name() const { return owner_ ? owner_->parameter_name(suffix_) : suffix_; }

void Parameter::initialize(const init::InitializerPtr& default_init, Device device, bool force_reinit) {
  initialize(default_init, std::vector{device}, force_reinit);
}
void Parameter::initialize(const init::InitializerPtr& default_init, const std::vector<Device>& devices, bool force_reinit) {
  if (devices.empty()) throw UserError("initialize: the list of devices is empty");
  if (is_initialized() && (!force_reinit || !options_.differentiable)) return;
  default_init_ = default_init;
  devices_ = devices;
  set_copies({});
  deferred_ = false;
  if (is_known(options_.shape))
    create(options_.shape);
  else
    deferred_ = true;
}

void Parameter::complete(const Shape& shape) {
  if (is_initialized()) return;
  if (options_.shape.ndim() != 0 && options_.shape.ndim() != shape.ndim())
    raise<ShapeError>("parameter '{}' has shape {}, but {} is needed", name(), options_.shape, shape);
  for (int i = 0; i < options_.shape.ndim(); ++i)
    if (options_.shape[i] > 0 && options_.shape[i] != shape[i])
      raise<ShapeError>("parameter '{}' has shape {}, but the input asks for {}", name(), options_.shape, shape);
  const Shape before = std::exchange(options_.shape, shape);
  if (!deferred_) return;
  if (Tracer* tracer = Tracer::current())
    tracer->outermost().on_given_up([this, before] {
      set_copies({});
      options_.shape = before;
      deferred_ = true;
    });
  create(shape);
}

void Parameter::create(const Shape& shape) {
  if (devices_.empty()) devices_ = {current_device()};
  if (Tracer* tracer = Tracer::current())
    tracer->outermost().on_initialised(devices_[0], [this] {
      fill(copies_[0]);
      for (size_t i = 1; i < copies_.size(); ++i) copies_[i].assign(copies_[0].detach().to(devices_[i]));
      for (const Tensor& t : copies_) impl_of(t).storage->note_initialised();
    });
  // Runs for real even inside a trace, and off the tape.
  const PauseTracing pause;
  const MakesForOthers for_the_network;
  const autograd::Scope scope(false, std::nullopt);
  Tensor value = empty(shape, {options_.dtype, devices_[0]});
  fill(value);
  deferred_ = false;
  Tensors copies{value};
  for (size_t i = 1; i < devices_.size(); ++i) copies.push_back(value.to(devices_[i]));
  for (const Tensor& t : copies) impl_of(t).storage->note_initialised();
  replace_copies(std::move(copies));
}

void Parameter::fill(Tensor value) const {
  const autograd::Scope scope(false, std::nullopt);
  static const init::InitializerPtr fallback = init::uniform();
  const init::InitializerPtr& chosen = options_.init ? options_.init : default_init_ ? default_init_ : fallback;
  if (options_.init)
    options_.init->fill(name(), value);
  else
    (*chosen)(name(), value);
}

void Parameter::replace_copies(Tensors copies) {
  set_copies(std::move(copies));
  ++identity_;
  if (options_.grad_req == GradReq::null || !options_.differentiable || !is_floating(options_.dtype)) return;
  for (Tensor& t : copies_) t.attach_grad(options_.grad_req);
}

const Tensors& Parameter::list_data() const {
  if (is_initialized()) return copies_;
  if (deferred_)
    raise<UserError>(
        "parameter '{}' has shape {}, which is not complete yet: call the network once, or build(shapes), before its value is used", name(),
        options_.shape);
  raise<UserError>("parameter '{}' has not been initialised; call initialize() on the network first", name());
}
Tensor Parameter::data(Device device) const {
  const Tensors& copies = list_data();
  for (size_t i = 0; i < copies.size(); ++i)
    if (devices_[i] == device) return copies[i];
  raise<UserError>("parameter '{}' has no copy on {}; name all devices in initialize()", name(), device.str());
}
Tensor Parameter::data() const {
  if (copies_.size() == 1) return copies_[0];
  if (!is_initialized() && deferred_ && Tracer::current()) return tensor_of({make_ref<GraphNode>(NodeOf<Value>{.name = name()}), 0});
  return data(current_device());
}

static Tensor gradient_of(const Parameter& p, const Tensor& value) {
  const Tensor g = value.grad();
  if (!g.defined()) raise<UserError>("parameter '{}' has no gradient: its grad_req is null", p.name());
  return g;
}
Tensor Parameter::grad() const { return gradient_of(*this, data()); }
Tensors Parameter::list_grad() const {
  Tensors gradients;
  for (const Tensor& t : list_data()) gradients.push_back(gradient_of(*this, t));
  return gradients;
}

Tensor Parameter::reduced() const {
  const autograd::Scope scope(false, std::nullopt);
  const Tensors& copies = list_data();
  if (copies.size() == 1) return copies[0].detach();
  Tensor sum = copies[0].detach().copy();
  for (size_t i = 1; i < copies.size(); ++i) sum += copies[i].detach().to(sum.device());
  return sum / static_cast<double>(copies.size());
}

void Parameter::set_data(const Tensor& value) {
  complete(value.shape());
  if (!is_initialized()) {
    options_.shape = value.shape();
    default_init_ = init::zero();
    create(value.shape());
  }
  const autograd::Scope scope(false, std::nullopt);
  for (Tensor& copy : copies_) {
    if (!(value.shape() == copy.shape()))
      raise<ShapeError>("parameter '{}' has shape {}, the value {}", name(), copy.shape(), value.shape());
    overwrite(copy, value.detach().to(copy.device()));
  }
}

void Parameter::take_data(Tensor value) {
  if (is_initialized() || deferred_) return set_data(value);
  complete(value.shape());  // checks it
  devices_ = {value.device()};
  replace_copies({std::move(value)});
}

void Parameter::zero_grad() {
  for (Tensor& copy : copies_) copy.zero_grad();
}

void Parameter::cast(DType dtype) {
  options_.dtype = dtype;
  if (!is_initialized() || copies_[0].dtype() == dtype) return;
  const autograd::Scope scope(false, std::nullopt);
  Tensors copies;
  for (const Tensor& t : copies_) copies.push_back(t.detach().astype(dtype));
  replace_copies(std::move(copies));
}

void Parameter::reset_device(Device device) { reset_devices({device}); }
void Parameter::reset_devices(const std::vector<Device>& devices) {
  if (devices.empty()) throw UserError("reset_devices: the list of devices is empty");
  const Tensor value = is_initialized() ? reduced() : Tensor();
  devices_ = devices;
  if (!value.defined()) return;
  const autograd::Scope scope(false, std::nullopt);
  Tensors copies;
  for (const Device& d : devices) copies.push_back(value.device() == d ? value.copy() : value.to(d));
  replace_copies(std::move(copies));
}

void Parameter::set_grad_req(GradReq req) {
  if (!options_.differentiable) return;
  options_.grad_req = req;
  if (!is_floating(options_.dtype)) return;
  for (Tensor& copy : copies_) copy.attach_grad(req);
}

std::string Parameter::str() const { return fmt::format("Parameter {} (shape={}, dtype={})", name(), options_.shape, options_.dtype); }

// ---- ParameterDict

const ParameterPtr& ParameterDict::operator[](const std::string& name) const {
  if (const auto known = places_.find(name); known != places_.end()) return items_[known->second].second;
  std::vector<std::string> names;
  for (const auto& [n, p] : items_) names.push_back(n);
  raise<UserError>("no parameter is named '{}'{}", name, did_you_mean(name, names));
}
void ParameterDict::initialize(const init::InitializerPtr& init, Device device, bool force_reinit) const {
  for (const auto& [name, p] : items_) p->initialize(init, device, force_reinit);
}
void ParameterDict::initialize(const init::InitializerPtr& init, const std::vector<Device>& devices, bool force_reinit) const {
  for (const auto& [name, p] : items_) p->initialize(init, devices, force_reinit);
}
void ParameterDict::reset_devices(const std::vector<Device>& devices) const {
  for (const auto& [name, p] : items_) p->reset_devices(devices);
}
void ParameterDict::zero_grad() const {
  for (const auto& [name, p] : items_) p->zero_grad();
}
void ParameterDict::set_grad_req(GradReq req) const {
  for (const auto& [name, p] : items_) p->set_grad_req(req);
}
void ParameterDict::save(const std::string& path, const std::string& strip_prefix) const {
  NamedTensors tensors;
  for (const auto& [name, p] : items_)
    tensors.emplace_back(name.starts_with(strip_prefix) ? name.substr(strip_prefix.size()) : name, p->reduced());
  save_tensors(path, tensors);
}
void ParameterDict::load(const std::string& path, bool allow_missing, bool ignore_extra) const {
  const NamedTensors file = load_tensors(path);
  std::vector<std::string> known, given;
  for (const auto& [name, p] : items_) known.push_back(name);
  for (const auto& [full, t] : file) {
    const std::string name = full.starts_with("arg:") || full.starts_with("aux:") ? full.substr(4) : full;
    given.push_back(name);
    if (contains(name)) {
      if (t.defined()) (*this)[name]->set_data(t);
    } else if (!ignore_extra) {
      raise<UserError>("'{}' holds '{}', which the network does not have{}; pass ignore_extra to skip it", path, name,
                       did_you_mean(name, known));
    }
  }
  const std::unordered_set<std::string_view> has(given.begin(), given.end());
  for (const std::string& name : known)
    if (!allow_missing && !has.contains(name))
      raise<UserError>("'{}' does not hold parameter '{}'{}; pass allow_missing to keep its value", path, name, did_you_mean(name, given));
}
std::string ParameterDict::str() const {
  std::string text;
  for (const auto& [name, p] : items_) text += "  " + p->str() + "\n";
  return "(\n" + text + ")";
}

}  // namespace gluino
