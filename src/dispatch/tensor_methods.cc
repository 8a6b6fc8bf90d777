// Tensor's methods and operators that are operators of the registry: they run, record and trace like any other.
#include <cmath>
#include <cstring>

#include "base/format.h"
#include "dispatch/mode.h"
#include "gluino/op.h"
#include "kernels/isa/primitives.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

// Looked up once per place of use.
#define GLUINO_FIXED_OP(name)                                \
  ([]() -> const OpDef& {                                    \
    static const OpDef& op = OpRegistry::global().get(name); \
    return op;                                               \
  }())

Tensor binary(const OpDef& op, const Tensor& a, const Tensor& b) {
  const Tensor inputs[] = {a, b};
  return apply_one(op, inputs, op.default_attrs);
}
Tensor with_scalar(const OpDef& op, const Tensor& a, double scalar) {
  const std::pair<std::string_view, AttrValue> attrs[] = {{"scalar", scalar}};
  return apply_one(op, {&a, 1}, op.make_attrs(attrs));
}

}  // namespace

#define GLUINO_OPERATOR(symbol, op, scalar_op)                                                           \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { return binary(GLUINO_FIXED_OP(op), a, b); } \
  Tensor operator symbol(const Tensor& a, double b) { return with_scalar(GLUINO_FIXED_OP(scalar_op), a, b); }
GLUINO_OPERATOR(+, "broadcast_add", "_plus_scalar")
GLUINO_OPERATOR(-, "broadcast_sub", "_minus_scalar")
GLUINO_OPERATOR(*, "broadcast_mul", "_mul_scalar")
GLUINO_OPERATOR(/, "broadcast_div", "_div_scalar")
GLUINO_OPERATOR(%, "broadcast_mod", "_mod_scalar")
GLUINO_OPERATOR(==, "broadcast_equal", "_equal_scalar")
GLUINO_OPERATOR(!=, "broadcast_not_equal", "_not_equal_scalar")
GLUINO_OPERATOR(<, "broadcast_lesser", "_lesser_scalar")
GLUINO_OPERATOR(<=, "broadcast_lesser_equal", "_lesser_equal_scalar")
GLUINO_OPERATOR(>, "broadcast_greater", "_greater_scalar")
GLUINO_OPERATOR(>=, "broadcast_greater_equal", "_greater_equal_scalar")
#undef GLUINO_OPERATOR
Tensor operator+(double a, const Tensor& b) { return b + a; }
Tensor operator*(double a, const Tensor& b) { return b * a; }
Tensor operator-(double a, const Tensor& b) { return with_scalar(GLUINO_FIXED_OP("_rminus_scalar"), b, a); }
Tensor operator/(double a, const Tensor& b) { return with_scalar(GLUINO_FIXED_OP("_rdiv_scalar"), b, a); }
Tensor Tensor::operator-() const { return apply_one(GLUINO_FIXED_OP("negative"), {this, 1}, nullptr); }

Tensor Tensor::copy() const { return call("_copy", {*this}); }
Tensor Tensor::astype(DType dtype) const { return call("Cast", {*this}, {{"dtype", dtype}}); }
Tensor Tensor::reshape(const Shape& shape, bool reverse) const {
  return call("Reshape", {*this}, {{"shape", shape}, {"reverse", reverse}});
}
Tensor Tensor::transpose(const Shape& axes) const { return call("transpose", {*this}, {{"axes", axes}}); }

namespace detail {
Tensor summands(const Tensor& t);  // declared for C++ functions of operators, too
Tensor summands(const Tensor& t) { return is_floating(t.dtype()) || t.dtype() == DType::int64 ? t : t.astype(DType::int64); }
}  // namespace detail

static AttrValue axis_value(const std::optional<Shape>& axis) { return axis ? AttrValue(*axis) : AttrValue(); }
Tensor Tensor::sum(std::optional<Shape> axis, bool keepdims) const {
  return call("sum", {detail::summands(*this)}, {{"axis", axis_value(axis)}, {"keepdims", keepdims}});
}
Tensor Tensor::mean(std::optional<Shape> axis, bool keepdims) const {
  return call("mean", {*this}, {{"axis", axis_value(axis)}, {"keepdims", keepdims}});
}
Tensor Tensor::max(std::optional<Shape> axis, bool keepdims) const {
  return call("max", {*this}, {{"axis", axis_value(axis)}, {"keepdims", keepdims}});
}
Tensor Tensor::min(std::optional<Shape> axis, bool keepdims) const {
  return call("min", {*this}, {{"axis", axis_value(axis)}, {"keepdims", keepdims}});
}

Tensor Tensor::to(Device device) const {
  if (this->device() == device) return *this;
  if (is_symbolic()) throw UserError("to(device) cannot be traced: a hybridized program runs on the device of its inputs");
  Tensor out = make_tensor(impl_->shape, impl_->dtype, device);
  std::memcpy(impl_of(out).data, bytes_of(*this), nbytes());
  return out;
}

// In place: a concrete tensor is overwritten in its memory. A symbolic one, or one on the tape, becomes the name of
// the new value, because the old one may still be needed.
static void rebind(detail::TensorImpl& t, const detail::TensorImpl& n) {
  t.symbolic = n.symbolic;
  t.autograd = n.autograd;
  t.storage = n.storage;
  t.data = n.data;
  ++t.version;
}
void refresh_view(const Tensor& view) {
  detail::TensorImpl& t = impl_of(view);
  if (impl_of(t.view->base).view) refresh_view(t.view->base);
  const uint64_t version = impl_of(t.view->base).version;
  if (t.view->seen == version) return;
  t.view->seen = version;
  rebind(t, impl_of(t.view->project(t.view->base)));
}
void replace_value(Tensor& target, const Tensor& value) {
  detail::TensorImpl& t = impl_of(target);
  const detail::TensorImpl& v = impl_of(value);
  if (!(v.shape == t.shape)) raise<ShapeError>("a value of shape {} cannot be stored in place into shape {}", v.shape, t.shape);
  const Tensor typed = v.dtype == t.dtype ? value : value.astype(t.dtype);
  const detail::TensorImpl& n = impl_of(typed);
  if (t.symbolic || n.symbolic || n.autograd) {
    if (mode().recording && !t.symbolic && t.autograd && t.autograd->has_own_gradient())
      throw UserError(
          "a tensor with attach_grad() is changed in place while its operators are recorded, so it would lose its gradient; make the "
          "change "
          "inside autograd::pause(), or store the result in another tensor");
    if (n.symbolic && !t.symbolic) trace_hook().on_rebind(target);
    rebind(t, n);
    if (t.view) {
      replace_value(t.view->base, t.view->embed(t.view->base, typed));
      t.view->seen = impl_of(t.view->base).version;
    }
    return;
  }
  std::memcpy(bytes_of(target), bytes_of(typed), t.shape.elements() * dtype_bytes(t.dtype));
  t.storage->note_write();
}

Tensor& Tensor::update(std::string_view name, const Tensor& rhs) {
  const OpDef& op = OpRegistry::global().get(name);
  const Tensor inputs[] = {*this, rhs};
  const bool plain = impl_ && !impl_->symbolic && !rhs.is_symbolic() && !mode().recording && !mode().tracing;
  if (plain && impl_->shape == rhs.shape() && impl_->dtype == rhs.dtype()) {
    Tensor out[] = {*this};
    apply_into(op, inputs, op.default_attrs, out);
  } else {
    replace_value(*this, apply_one(op, inputs, op.default_attrs));
  }
  return *this;
}
Tensor& Tensor::operator+=(const Tensor& rhs) { return update("broadcast_add", rhs); }
Tensor& Tensor::operator-=(const Tensor& rhs) { return update("broadcast_sub", rhs); }
Tensor& Tensor::operator*=(const Tensor& rhs) { return update("broadcast_mul", rhs); }
Tensor& Tensor::operator/=(const Tensor& rhs) { return update("broadcast_div", rhs); }

Tensor& Tensor::update(std::string_view name, double rhs) {
  const OpDef& op = OpRegistry::global().get(name);
  const std::pair<std::string_view, AttrValue> values[] = {{"scalar", rhs}};
  const Attrs attrs = op.make_attrs(values);
  if (impl_ && !impl_->symbolic && !mode().recording && !mode().tracing && is_floating(impl_->dtype)) {
    Tensor out[] = {*this};
    apply_into(op, {this, 1}, attrs, out);
  } else {
    replace_value(*this, apply_one(op, {this, 1}, attrs));
  }
  return *this;
}
Tensor& Tensor::operator+=(double rhs) { return update("_plus_scalar", rhs); }
Tensor& Tensor::operator-=(double rhs) { return update("_minus_scalar", rhs); }
Tensor& Tensor::operator*=(double rhs) { return update("_mul_scalar", rhs); }
Tensor& Tensor::operator/=(double rhs) { return update("_div_scalar", rhs); }

static Tensor fit(const Tensor& value, const Tensor& like) {
  const Tensor typed = value.dtype() == like.dtype() ? value : value.astype(like.dtype());
  if (impl_of(typed).shape == impl_of(like).shape) return typed;
  return call("broadcast_like", {typed, like});
}
void Tensor::assign(const Tensor& value) {
  const Tensor fitted = fit(value, *this);
  replace_value(*this, fitted.is_symbolic() || mode().recording || mode().tracing ? call("_copy", {fitted}) : fitted);
}
void Tensor::assign(double value) { assign(full({}, value, {dtype(), device()})); }
const Tensor& Tensor::copy_to(Tensor& destination) const {
  destination.assign(device() == destination.device() ? *this : to(destination.device()));
  return *this;
}

void IndexedTensor::operator+=(const Tensor& rhs) && { source_.assign(index_, *this + rhs); }
void IndexedTensor::operator-=(const Tensor& rhs) && { source_.assign(index_, *this - rhs); }
void IndexedTensor::operator*=(const Tensor& rhs) && { source_.assign(index_, *this * rhs); }
void IndexedTensor::operator/=(const Tensor& rhs) && { source_.assign(index_, *this / rhs); }
void IndexedTensor::operator=(double value) && { source_.assign(index_, full({}, value, {dtype(), device()})); }
void IndexedTensor::operator+=(double rhs) && { source_.assign(index_, *this + rhs); }
void IndexedTensor::operator-=(double rhs) && { source_.assign(index_, *this - rhs); }
void IndexedTensor::operator*=(double rhs) && { source_.assign(index_, *this * rhs); }
void IndexedTensor::operator/=(double rhs) && { source_.assign(index_, *this / rhs); }

// ---- creation: operators without inputs, so that a trace records them
static Tensor create(std::string_view name, const TensorOptions& options, std::vector<std::pair<std::string_view, AttrValue>> attrs) {
  const DeviceScope scope(options.device.value_or(current_device()));
  attrs.emplace_back("dtype", options.dtype.value_or(DType::float32));
  const OpDef& op = OpRegistry::global().get(name);
  return apply_one(op, {}, op.make_attrs(attrs));
}
Tensor zeros(const Shape& shape, TensorOptions options) { return create("_zeros", options, {{"shape", shape}}); }
Tensor ones(const Shape& shape, TensorOptions options) { return create("_ones", options, {{"shape", shape}}); }
Tensor full(const Shape& shape, double value, TensorOptions options) {
  return create("_full", options, {{"shape", shape}, {"value", value}});
}
Tensor arange(double stop, TensorOptions options) { return arange(0, stop, 1, options); }
Tensor arange(double start, double stop, double step, TensorOptions options) {
  return create("_arange", options, {{"start", start}, {"stop", stop}, {"step", step}});
}
Tensor linspace(double start, double stop, int64_t count, bool endpoint, TensorOptions options) {
  return create("_linspace", options, {{"start", start}, {"stop", stop}, {"num", count}, {"endpoint", endpoint}});
}
Tensor eye(int64_t rows, int64_t columns, int64_t k, TensorOptions options) {
  return create("_eye", options, {{"N", rows}, {"M", columns}, {"k", k}});
}
Tensor zeros_like(const Tensor& like) { return call("zeros_like", {like}); }
Tensor ones_like(const Tensor& like) { return call("ones_like", {like}); }
Tensor full_like(const Tensor& like, double value) { return ones_like(like) * value; }

}  // namespace gluino
