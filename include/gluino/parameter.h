// Parameter: a named tensor that a block learns. Its shape may be completed by the first call. For data parallel training
// it has one copy per device.
#pragma once
#include <memory>
#include <unordered_map>

#include "gluino/init.h"
#include "gluino/tensor.h"

namespace gluino {

class Block;

struct ParameterOptions {
  Shape shape = {};  // extents of 0 are not known yet; no axes: nothing is
  DType dtype = DType::float32;
  init::InitializerPtr init = {};  // its own; otherwise the one given to initialize()
  GradReq grad_req = GradReq::write;
  double lr_mult = 1, wd_mult = 1;
  bool is_state = false;       // an auxiliary state: updated by the forward pass, not by a trainer
  bool differentiable = true;  // false: has no gradient
};

class Parameter {
 public:
  Parameter(std::string suffix, ParameterOptions options) : suffix_(std::move(suffix)), options_(std::move(options)) {}
  ~Parameter();
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;
  // Constants never get a gradient.
  static std::shared_ptr<Parameter> constant(std::string suffix, const Tensor& value);

  std::string name() const;  // with the prefix of the block it belongs to
  const std::string& suffix() const { return suffix_; }
  const Block* owner() const { return owner_; }         // the block it belongs to, or null
  static const Parameter* with_value(const Tensor& t);  // the one of which this tensor is a copy, or null
  const Shape& shape() const { return options_.shape; }
  DType dtype() const { return options_.dtype; }
  bool is_state() const { return options_.is_state; }

  void initialize(const init::InitializerPtr& default_init = nullptr, Device device = current_device(), bool force_reinit = false);
  void initialize(const init::InitializerPtr& default_init, const std::vector<Device>& devices, bool force_reinit = false);
  bool is_initialized() const { return !copies_.empty(); }
  bool is_deferred() const { return deferred_; }
  // The shape is known now: fills in unknown extents, and creates the value when initialize() waited for it.
  void complete(const Shape& shape);

  // The only copy, or the one on the current device (a block's call makes its input's device current).
  Tensor data() const;  // raises UserError that says what to do when there is none
  Tensor data(Device device) const;
  Tensor grad() const;
  const Tensors& list_data() const;  // one per device
  Tensors list_grad() const;
  const std::vector<Device>& list_devices() const { return devices_; }
  Tensor reduced() const;              // the mean of the copies
  void set_data(const Tensor& value);  // of all copies
  void take_data(Tensor value);        // the tensor itself becomes the first value: nobody else may have it
  void zero_grad();
  void cast(DType dtype);
  void reset_device(Device device);
  void reset_devices(const std::vector<Device>& devices);

  GradReq grad_req() const { return options_.grad_req; }
  void set_grad_req(GradReq req);
  double lr_mult() const { return options_.lr_mult; }
  double wd_mult() const { return options_.wd_mult; }
  void set_lr_mult(double v) { options_.lr_mult = v; }
  void set_wd_mult(double v) { options_.wd_mult = v; }
  std::string str() const;

  // Grows when the tensor behind the parameter is replaced by another (not when its value changes).
  uint64_t identity() const { return identity_; }

 private:
  friend class Block;
  void create(const Shape& shape);
  void fill(Tensor value) const;  // with what the initializer draws
  void replace_copies(Tensors copies);
  void set_copies(Tensors copies);
  std::string suffix_;
  ParameterOptions options_;
  const Block* owner_ = nullptr;
  Tensors copies_;  // in the order of devices_; empty before there is a value
  std::vector<Device> devices_;
  bool deferred_ = false;
  init::InitializerPtr default_init_;
  uint64_t identity_ = 0;
};
using ParameterPtr = std::shared_ptr<Parameter>;

// Parameters in the order of the blocks, with their full names.
class ParameterDict {
 public:
  void add(std::string name, ParameterPtr p) {
    places_.try_emplace(name, items_.size());
    items_.emplace_back(std::move(name), std::move(p));
  }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }
  const ParameterPtr& operator[](const std::string& name) const;  // raises UserError with the nearest name
  bool contains(const std::string& name) const { return places_.contains(name); }
  void initialize(const init::InitializerPtr& init = nullptr, Device device = current_device(), bool force_reinit = false) const;
  void initialize(const init::InitializerPtr& init, const std::vector<Device>& devices, bool force_reinit = false) const;
  void reset_devices(const std::vector<Device>& devices) const;
  void zero_grad() const;
  void set_grad_req(GradReq req) const;
  void save(const std::string& path, const std::string& strip_prefix = "") const;
  void load(const std::string& path, bool allow_missing = false, bool ignore_extra = false) const;
  std::string str() const;

 private:
  std::vector<std::pair<std::string, ParameterPtr>> items_;
  std::unordered_map<std::string, size_t> places_;  // in items_, the first of each name
};

}  // namespace gluino
