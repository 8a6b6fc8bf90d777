// Tensor's methods and operators that are operators of the registry: they run, record and trace like any other.
#include <array>
#include <cmath>
#include <cstring>

#include "base/format.h"
#include "dispatch/infer.h"
#include "dispatch/mode.h"
#include "dispatch/recording_as.h"
#include "dispatch/untraceable.h"
#include "gluino/functions.h"
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

// The operators of the registry that stand for C++'s.
struct Spelling {
  const char *of_two, *with_number, *number_first;
};
constexpr Spelling kSpellings[] = {
    {"broadcast_add", "_plus_scalar", "_plus_scalar"},
    {"broadcast_sub", "_minus_scalar", "_rminus_scalar"},
    {"broadcast_mul", "_mul_scalar", "_mul_scalar"},
    {"broadcast_div", "_div_scalar", "_rdiv_scalar"},
    {"broadcast_mod", "_mod_scalar", "_rmod_scalar"},
    {"_npi_equal", "_npi_equal_scalar", "_npi_equal_scalar"},
    {"_npi_not_equal", "_npi_not_equal_scalar", "_npi_not_equal_scalar"},
    {"_npi_less", "_npi_less_scalar", "_npi_greater_scalar"},
    {"_npi_less_equal", "_npi_less_equal_scalar", "_npi_greater_equal_scalar"},
    {"_npi_greater", "_npi_greater_scalar", "_npi_less_scalar"},
    {"_npi_greater_equal", "_npi_greater_equal_scalar", "_npi_less_equal_scalar"},
};
using detail::Operation;

// Looked up once.
struct Definitions {
  const OpDef *of_two, *with_number, *number_first;
};
const Definitions& definitions(Operation op) {
  static const auto all = [] {
    std::array<Definitions, std::size(kSpellings)> found{};
    const auto get = [](const char* name) { return &OpRegistry::global().get(name); };
    for (size_t i = 0; i < found.size(); ++i)
      found[i] = {get(kSpellings[i].of_two), get(kSpellings[i].with_number), get(kSpellings[i].number_first)};
    return found;
  }();
  return all[static_cast<size_t>(op)];
}

bool is_comparison(Operation op) { return op >= Operation::equal; }
// The dtype in which a tensor of whole numbers or truth values meets a number, by NumPy's rules with float32 as the default.
DType beside_number(Operation op, DType dtype, double number, bool is_whole_number) {
  if (is_comparison(op)) return std::floor(number) == number ? dtype : DType::float64;
  if (op == Operation::divide || !is_whole_number) return DType::float32;
  return dtype == DType::boolean ? DType::int64 : dtype;
}

Tensor of_two(Operation op, const Tensor& a, const Tensor& b) {
  const OpDef& definition = *definitions(op).of_two;
  if (op == Operation::divide && is_whole(a) && is_whole(b)) return of_two(op, a.astype(DType::float32), b.astype(DType::float32));
  const Tensor inputs[] = {a, b};
  return apply_one(definition, inputs, definition.default_attrs);
}
Attrs number_attrs(const OpDef& definition, double number) {
  const std::pair<std::string_view, AttrValue> attrs[] = {{"scalar", number}};
  return definition.make_attrs(attrs);
}

}  // namespace

bool is_whole(const Tensor& t) {
  if (!t.defined()) return false;
  const detail::TensorImpl& impl = impl_of(t);
  return !is_floating(impl.dtype) && (!impl.symbolic || impl.symbolic->has_dtype);
}

Tensor detail::with_number(Operation op, const Tensor& tensor, double number, bool is_whole_number, bool number_first) {
  if (is_whole(tensor)) {
    const DType dtype = beside_number(op, impl_of(tensor).dtype, number, is_whole_number);
    if (dtype != impl_of(tensor).dtype) return with_number(op, tensor.astype(dtype), number, is_whole_number, number_first);
  }
  const OpDef& definition = number_first ? *definitions(op).number_first : *definitions(op).with_number;
  return apply_one(definition, {&tensor, 1}, number_attrs(definition, number));
}

#define GLUINO_OPERATOR(symbol, name) \
  Tensor operator symbol(const Tensor& a, const Tensor& b) { return of_two(Operation::name, a, b); }
GLUINO_OPERATOR(+, add)
GLUINO_OPERATOR(-, subtract)
GLUINO_OPERATOR(*, multiply)
GLUINO_OPERATOR(/, divide)
GLUINO_OPERATOR(%, modulo)
GLUINO_OPERATOR(==, equal)
GLUINO_OPERATOR(!=, not_equal)
GLUINO_OPERATOR(<, less)
GLUINO_OPERATOR(<=, less_equal)
GLUINO_OPERATOR(>, greater)
GLUINO_OPERATOR(>=, greater_equal)
#undef GLUINO_OPERATOR
Tensor operator&(const Tensor& a, const Tensor& b) { return call("_npi_bitwise_and", {a, b}); }
Tensor operator|(const Tensor& a, const Tensor& b) { return call("_npi_bitwise_or", {a, b}); }
Tensor operator^(const Tensor& a, const Tensor& b) { return call("_npi_bitwise_xor", {a, b}); }
Tensor Tensor::operator~() const { return call("_npi_bitwise_not", {*this}); }
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

static AttrValue axis_value(const Axes& axes) { return axes.axes() ? AttrValue(*axes.axes()) : AttrValue(); }
Tensor Tensor::sum(const Axes& axes, bool keepdims) const {
  return call("sum", {detail::summands(*this)}, {{"axis", axis_value(axes)}, {"keepdims", keepdims}});
}
Tensor Tensor::mean(const Axes& axes, bool keepdims) const {
  return call("mean", {*this}, {{"axis", axis_value(axes)}, {"keepdims", keepdims}});
}
Tensor Tensor::max(const Axes& axes, bool keepdims) const {
  return call("max", {*this}, {{"axis", axis_value(axes)}, {"keepdims", keepdims}});
}
Tensor Tensor::min(const Axes& axes, bool keepdims) const {
  return call("min", {*this}, {{"axis", axis_value(axes)}, {"keepdims", keepdims}});
}

Tensor Tensor::prod(const Axes& axes, bool keepdims) const {
  return call("prod", {detail::summands(*this)}, {{"axis", axis_value(axes)}, {"keepdims", keepdims}});
}
Tensor Tensor::var(const Axes& axes, bool keepdims, int64_t ddof) const {
  const Tensor x = is_whole(*this) ? astype(DType::float32) : *this;
  const Tensor squares = call("square", {x - x.mean(axes, true)});
  if (ddof == 0) return squares.mean(axes, keepdims);
  const Tensor sums = squares.sum(axes, keepdims);
  const int64_t summands = size() / std::max<int64_t>(sums.size(), 1);
  return sums / static_cast<double>(summands - ddof);
}
Tensor Tensor::std(const Axes& axes, bool keepdims, int64_t ddof) const { return call("sqrt", {var(axes, keepdims, ddof)}); }
Tensor Tensor::pow(double exponent) const { return gluino::pow(*this, exponent); }
Tensor Tensor::matmul(const Tensor& other) const { return gluino::matmul(*this, other); }
Tensor Tensor::maximum(const Tensor& other) const { return gluino::maximum(*this, other); }
Tensor Tensor::maximum(double other) const { return gluino::maximum(*this, other); }
Tensor Tensor::minimum(const Tensor& other) const { return gluino::minimum(*this, other); }
Tensor Tensor::minimum(double other) const { return gluino::minimum(*this, other); }
Tensor Tensor::tril(int64_t diagonal) const { return gluino::tril(*this, diagonal); }
Tensor Tensor::triu(int64_t diagonal) const { return gluino::triu(*this, diagonal); }
Tensor Tensor::roll(int64_t shift, std::optional<int64_t> axis) const { return gluino::roll(*this, shift, axis); }
Tensor Tensor::isnan() const { return gluino::isnan(*this); }
Tensor Tensor::nonzero() const { return gluino::nonzero(*this); }
Tensor Tensor::unique() const { return gluino::unique(*this); }

static void check_view_update(const ViewLink& link) {
  const auto* view = dynamic_cast<const OperatorLink*>(&link);
  const bool is_recorded = mode().recording && !(mode().tracing && trace_hook().is_paused());
  if (view && view->is_made_under_pause() && is_recorded)
    throw UserError(
        "a view that was made inside autograd::pause() is changed in place outside it, where operators are recorded; make the view "
        "where it is changed, or change it inside autograd::pause()");
}

// The base of a view takes the view's new value. In memory the two stay one: what is written there later reaches both.
static void replace_base(detail::TensorImpl& view, const Tensor& value) {
  ViewLink& link = *view.view;
  Tensor base = link.base();
  if (!base.defined()) return;
  replace_value(base, link.embed(base, value));
  link.set_current();
  if (view.symbolic) return;
  const RecordingAs scope(false);
  const Tensor place = link.project(base);
  view.storage = impl_of(place).storage;
  view.data = impl_of(place).data;
}

// In place: a concrete tensor is overwritten in its memory, by a leaf or a recorded value too where nothing is recorded: it must not share
// theirs. A symbolic one, or one on the tape, becomes the name of the new value, because the old one may still be needed.
void replace_value(Tensor& target, const Tensor& value) {
  detail::TensorImpl& t = impl_of(target);
  const detail::TensorImpl& v = impl_of(value);
  if (!(v.shape == t.shape)) raise<ShapeError>("a value of shape {} cannot be stored in place into shape {}", v.shape, t.shape);
  if (t.view) check_view_update(*t.view);
  const Tensor typed = v.dtype == t.dtype ? value : value.astype(t.dtype);
  const detail::TensorImpl& n = impl_of(typed);
  const bool leaves_the_tape = mode().recording && t.autograd && !t.autograd->has_own_gradient();
  if (t.symbolic || n.symbolic || (n.autograd && mode().recording) || leaves_the_tape) {
    if (mode().recording && !t.symbolic && t.autograd && t.autograd->has_own_gradient())
      throw UserError(
          "a tensor with attach_grad() is changed in place while its operators are recorded, so it would lose its gradient; make the "
          "change "
          "inside autograd::pause(), or store the result in another tensor");
    Tensor taken = typed;
    if (mode().tracing && trace_hook().is_paused()) {  // eager code writes into memory here: the tensor keeps its place on the tape
      const RecordingAs scope(true);
      taken = call("_overwrite", {target, typed});
    }
    if (n.symbolic || t.symbolic) trace_hook().on_rebind(target, typed);
    rebind(t, impl_of(taken));
    if (t.view) replace_base(t, typed);
    return;
  }
  std::memcpy(bytes_of(target), bytes_of(typed), t.shape.elements() * dtype_bytes(t.dtype));
  t.storage->note_write();
}

// NumPy's rule: what an operator in place gives must fit what it is stored into.
static void check_in_place(const Tensor& target, bool gives_fractions) {
  if (gives_fractions && is_whole(target))
    raise<DTypeError>(
        "an operator in place gives fractions, but the tensor's dtype is {}; write x = x * 2.5, or call astype(float32) first",
        target.dtype());
}

Tensor& Tensor::update(detail::Operation op, const Tensor& rhs) {
  const OpDef& definition = *definitions(op).of_two;
  check_in_place(*this, op == Operation::divide || (rhs.defined() && is_floating(impl_of(rhs).dtype)));
  const Tensor inputs[] = {*this, rhs};
  const bool plain = impl_ && !impl_->symbolic && !rhs.is_symbolic() && !mode().recording && !mode().tracing;
  if (plain && impl_->shape == rhs.shape() && impl_->dtype == rhs.dtype()) {
    Tensor out[] = {*this};
    apply_into(definition, inputs, definition.default_attrs, out);
  } else {
    replace_value(*this, apply_one(definition, inputs, definition.default_attrs));
  }
  return *this;
}
Tensor& Tensor::operator+=(const Tensor& rhs) { return update(Operation::add, rhs); }
Tensor& Tensor::operator-=(const Tensor& rhs) { return update(Operation::subtract, rhs); }
Tensor& Tensor::operator*=(const Tensor& rhs) { return update(Operation::multiply, rhs); }
Tensor& Tensor::operator/=(const Tensor& rhs) { return update(Operation::divide, rhs); }

Tensor& Tensor::update(detail::Operation op, double rhs, bool is_whole_number) {
  check_in_place(*this, op == Operation::divide || !is_whole_number);
  const OpDef& definition = *definitions(op).with_number;
  const Attrs attrs = number_attrs(definition, rhs);
  if (impl_ && !impl_->symbolic && !mode().recording && !mode().tracing && impl_->dtype != DType::boolean) {
    Tensor out[] = {*this};
    apply_into(definition, {this, 1}, attrs, out);
  } else {
    replace_value(*this, apply_one(definition, {this, 1}, attrs));
  }
  return *this;
}

static Tensor fit(const Tensor& value, const Tensor& like) {
  Tensor typed = value.dtype() == like.dtype() ? value : value.astype(like.dtype());
  if (impl_of(typed).shape == impl_of(like).shape) return typed;
  return call("broadcast_like", {typed, like});
}
void Tensor::assign(const Tensor& value) {
  const DeviceScope scope(device());
  const Tensor fitted = fit(value.to(device()), *this);
  replace_value(*this, fitted.is_symbolic() || mode().recording || mode().tracing ? call("_copy", {fitted}) : fitted);
}
void Tensor::assign(double value) { assign(full({}, value, {dtype(), device()})); }
const Tensor& Tensor::copy_to(Tensor& destination) const {
  destination.assign(device() == destination.device() ? *this : to(destination.device()));
  return *this;
}

void IndexedTensor::operator=(double value) && { source_.assign(index_, full({}, value, {dtype(), device()})); }
void IndexedTensor::operator+=(const Tensor& rhs) && { std::move(*this).store(*this + rhs); }
void IndexedTensor::operator-=(const Tensor& rhs) && { std::move(*this).store(*this - rhs); }
void IndexedTensor::operator*=(const Tensor& rhs) && { std::move(*this).store(*this * rhs); }
void IndexedTensor::operator/=(const Tensor& rhs) && { std::move(*this).store(*this / rhs); }
void IndexedTensor::store(const Tensor& changed) && {
  check_in_place(source_, !is_whole(changed));
  source_.assign(index_, changed);
}

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
Tensor full_like(const Tensor& like, double value) {
  return detail::with_number(Operation::multiply, ones_like(like), value, false).astype(like.dtype());
}

}  // namespace gluino
