#include "base/format.h"
#include "dispatch/composition.h"
#include "dispatch/deferred_calls.h"
#include "dispatch/infer.h"
#include "dispatch/mode.h"
#include "dispatch/recording_as.h"
#include "dispatch/prepared_call.h"
#include "gluino/op.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/primitives.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

TapeHook* tape_hook = nullptr;
TraceHook* installed_trace_hook = nullptr;
thread_local Mode tls_mode;

constexpr size_t kMaxFastInputs = 8;

[[noreturn]] void missing_input(const OpDef& op, const Attrs& attrs, size_t count, size_t i) {
  check_input_count(op, attrs, static_cast<int>(count));  // one too many has no name
  raise<UserError>("input '{}' is a null tensor", op.input_spec(attrs, i).name);
}

// Checks the handles and tells whether any is symbolic.
bool any_symbolic(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) {
  bool symbolic = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) missing_input(op, attrs, inputs.size(), i);
    const detail::TensorImpl& t = impl_of(inputs[i]);
    if (t.view) refresh_view(inputs[i]);
    symbolic |= static_cast<bool>(t.symbolic);
    if (t.device != impl_of(inputs[0]).device)
      raise<UserError>("inputs are on {} and {}; move one with to(device)", impl_of(inputs[0]).device.str(), t.device.str());
  }
  return symbolic;
}

Device device_for(std::span<const Tensor> inputs) { return inputs.empty() ? current_device() : impl_of(inputs[0]).device; }

void run_expression(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs, DType promoted, const Tensor& out) {
  Program program(kernels::compute_type(promoted));
  std::array<kernels::Operand, kMaxFastInputs> few;
  std::vector<kernels::Operand> many(inputs.size() > kMaxFastInputs ? inputs.size() : 0);
  kernels::Operand* operands = many.empty() ? few.data() : many.data();
  std::vector<Expr> exprs;
  alignas(Expr) char space[sizeof(Expr) * kMaxFastInputs];
  Expr* x = reinterpret_cast<Expr*>(space);
  if (inputs.size() > kMaxFastInputs) {
    exprs.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) exprs.push_back(Expr::input(program, static_cast<int>(i)));
    x = exprs.data();
  } else {
    for (size_t i = 0; i < inputs.size(); ++i) new (x + i) Expr(Expr::input(program, static_cast<int>(i)));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const detail::TensorImpl& t = impl_of(inputs[i]);
    operands[i] = {bytes_of(inputs[i]), t.dtype, &t.shape};
  }
  op.expression(attrs.get(), {x, inputs.size()});
  const detail::TensorImpl& o = impl_of(out);
  kernels::run_elementwise(program, {operands, inputs.size()}, o.data, o.dtype, o.shape);
}

bool kernel_takes(const OpDef& op, DType dtype) {
  return op.kernel_dtypes.empty() || std::find(op.kernel_dtypes.begin(), op.kernel_dtypes.end(), dtype) != op.kernel_dtypes.end();
}

Tensor converted(const Tensor& t, DType dtype) {
  const detail::TensorImpl& from = impl_of(t);
  if (from.dtype == dtype) return t;
  Tensor out = make_tensor(from.shape, dtype, from.device);
  kernels::convert(bytes_of(t), from.dtype, impl_of(out).data, dtype, from.shape.elements());
  return out;
}

// Layers that behave differently in training write their states there alone; the bodies of loops have modes of their own.
bool writes_states(const OpDef& op, bool training) { return op.has_states && (training || !op.is_mode_dependent || op.is_state_if); }

bool is_training(const PreparedCall& call) { return call.training.value_or(tls_mode.training); }

// For kernels written for few dtypes: converts the promoting inputs, runs, converts the outputs back.
void run_converted(const PreparedCall& call, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const OpDef& op = *call.op;
  const Attrs& attrs = *call.attrs;
  const DType promoted = call.promoted;
  const DType compute = kernel_takes(op, promoted) ? promoted : DType::float32;
  Tensors in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& spec = op.input_spec(attrs, i);
    in.push_back(spec.own_dtype && !spec.is_state ? inputs[i] : converted(inputs[i], compute));
  }
  for (const Tensor& o : outputs) {
    const detail::TensorImpl& t = impl_of(o);
    // Whole numbers and truth values are what the kernel itself writes.
    const bool is_refused = t.dtype == promoted || (is_floating(t.dtype) && !kernel_takes(op, t.dtype));
    out.push_back(is_refused && t.dtype != compute ? make_tensor(t.shape, compute, t.device) : o);
  }
  const bool training = is_training(call);
  KernelContext context(op, in, out, training);
  op.kernel(attrs.get(), context);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!out[i].is_same(outputs[i])) {
      const detail::TensorImpl& t = impl_of(outputs[i]);
      kernels::convert(bytes_of(out[i]), impl_of(out[i]).dtype, t.data, t.dtype, t.shape.elements());
    }
  if (!writes_states(op, training)) return;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (op.input_spec(attrs, i).is_state && !in[i].is_same(inputs[i])) {
      const detail::TensorImpl& t = impl_of(inputs[i]);
      kernels::convert(bytes_of(in[i]), impl_of(in[i]).dtype, t.data, t.dtype, t.shape.elements());
    }
}

// Kernels write their outputs and the inputs that are states, nothing else.
void note_writes(const PreparedCall& call, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const OpDef& op = *call.op;
  for (const Tensor& t : outputs)
    if (t.defined() && impl_of(t).storage) impl_of(t).storage->note_write();
  if (!writes_states(op, is_training(call))) return;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (op.is_state_input(*call.attrs, i) && impl_of(inputs[i]).storage) impl_of(inputs[i]).storage->note_write();
}

bool must_convert(const OpDef& op, const Attrs& attrs, std::span<const DType> inputs, DType promoted) {
  if (op.kernel_dtypes.empty() || !op.kernel) return false;
  if (!kernel_takes(op, promoted)) return true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& spec = op.input_spec(attrs, i);
    if ((!spec.own_dtype || spec.is_state) && inputs[i] != promoted) return true;
  }
  return false;
}

// Loops over extents of which one is 0 would run for the others' sake. What a user's program or a body does may be more than to fill
// outputs, and an index out of range is one also where nothing is taken, as long as those loops are short.
bool has_nothing_to_do(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (op.has_states || op.has_subgraphs() || op.other_attrs_of) return false;
  const bool is_empty =
      std::ranges::all_of(outputs, [](const Tensor& t) { return std::ranges::find(impl_of(t).shape, 0) != impl_of(t).shape.end(); });
  if (!is_empty || !op.refuses_values(attrs)) return is_empty;
  constexpr double kShort = 1 << 16;
  const auto is_long = [](const Tensor& t) {
    double steps = 1;
    for (int64_t extent : impl_of(t).shape) steps *= static_cast<double>(std::max<int64_t>(extent, 1));
    return steps > kShort;
  };
  return std::ranges::any_of(inputs, is_long) || std::ranges::any_of(outputs, is_long);
}

// The calls that a composed one stands for. What they have to say of wrong input is about the one that the user made.
Tensors run_parts(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) {
  const DeviceScope scope(device_for(inputs));
  try {
    return composition_of(op)(attrs.get(), inputs);
  } catch (const UserError& e) {
    rethrow_as(fmt::format("{}: {}", op.name, e.what()), Located::in_operator);
  } catch (const SystemError& e) {
    throw SystemError(fmt::format("{}: {}", op.name, e.what()), Located::in_operator);
  }
}

void run_kernel(const PreparedCall& call, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  const OpDef& op = *call.op;
  if (has_nothing_to_do(op, *call.attrs, inputs, outputs)) return;
  note_writes(call, inputs, outputs);
  if (!op.kernel && op.is_elementwise()) return run_expression(op, *call.attrs, inputs, call.promoted, outputs[0]);
  if (op.is_view && !op.kernel) {
    const detail::TensorImpl &from = impl_of(inputs[0]), &to = impl_of(outputs[0]);
    if (to.data != from.data) std::memmove(to.data, bytes_of(inputs[0]), from.shape.elements() * dtype_bytes(from.dtype));
    return;
  }
  if (is_composed(op)) {  // a shape was not known when the call was recorded
    const Tensors results = run_parts(op, *call.attrs, inputs);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].assign(results.at(i));
    return;
  }
  if (call.is_converted) return run_converted(call, inputs, outputs);
  const DeviceScope scope(device_for(inputs));
  KernelContext context(op, inputs, outputs, is_training(call));
  op.kernel(call.attrs->get(), context);
}

PreparedCall decide(const OpDef& op, const Attrs& attrs, std::span<const DType> inputs) {
  const DType promoted = promote_inputs(op, attrs, inputs);
  return {&op, &attrs, promoted, must_convert(op, attrs, inputs, promoted)};
}

// Elementwise call with one output: no vectors on the way.
Tensor run_elementwise_eager(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  std::array<DType, kMaxFastInputs> types;
  bool same_shape = true;
  for (size_t i = 0; i < inputs.size(); ++i) {
    types[i] = impl_of(inputs[i]).dtype;
    same_shape &= impl_of(inputs[i]).shape == impl_of(inputs[0]).shape;
  }
  const DType promoted = promote_inputs(op, attrs, {types.data(), inputs.size()});
  DType out_type = promoted;
  if (op.infer_dtype) {
    std::vector<DType> out{promoted};
    op.infer_dtype(attrs.get(), {types.data(), inputs.size()}, promoted, out);
    out_type = out[0];
  }
  Tensor out;
  if (same_shape) {
    out = make_tensor(impl_of(inputs[0]).shape, out_type, impl_of(inputs[0]).device);
  } else {
    std::vector<Shape> shapes, result(1);
    for (const Tensor& t : inputs) shapes.push_back(impl_of(t).shape);
    op.infer_shape(attrs.get(), shapes, result);
    out = make_tensor(result[0], out_type, impl_of(inputs[0]).device);
  }
  run_expression(op, attrs, inputs, promoted, out);
  return out;
}

void run_eager(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, Tensors& outputs) {
  check_input_count(op, attrs, static_cast<int>(inputs.size()));
  std::vector<DType> in_types, out_types;
  std::vector<Shape> in_shapes, out_shapes;
  for (const Tensor& t : inputs) {
    in_types.push_back(impl_of(t).dtype);
    in_shapes.push_back(impl_of(t).shape);
  }
  if (!op.is_dynamic_shape) infer_shapes(op, attrs, in_shapes, out_shapes);
  infer_dtypes(op, attrs, in_types, out_types);
  outputs.resize(out_types.size());
  if (op.is_dynamic_shape) {
    KernelContext context(op, inputs, outputs, tls_mode.training);
    const DeviceScope scope(device_for(inputs));
    op.kernel(attrs.get(), context);
    return;
  }
  const Device device = device_for(inputs);
  if (op.is_view) {
    bytes_of(inputs[0]);
    outputs[0] = make_view(inputs[0], out_shapes[0], 0);
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = make_tensor(out_shapes[i], out_types[i], device);
  run_kernel(decide(op, attrs, in_types), inputs, outputs);
}

// Whether a composed call can be made as the calls that it stands for, which may ask for shapes.
bool knows_shapes(std::span<const Tensor> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const Tensor& t) {
    const detail::TensorImpl& i = impl_of(t);
    return !i.symbolic || i.symbolic->has_shape;
  });
}
Tensors run_composition(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  check_input_count(op, attrs, static_cast<int>(inputs.size()));
  std::vector<DType> in_types, out_types;
  for (const Tensor& t : inputs) in_types.push_back(impl_of(t).dtype);
  infer_dtypes(op, attrs, in_types, out_types);
  Tensors outputs = run_parts(op, attrs, inputs);
  if (outputs.size() != out_types.size())
    raise<AttrError>("the attributes tell of {} outputs, but the inputs give {}", out_types.size(), outputs.size());
  return outputs;
}

// A shape-only change shares its input's memory; where there is none to share, a link does the same.
class ReshapeLink final : public OperatorLink {
 public:
  ReshapeLink(const OpDef& op, const Attrs& attrs, const Tensor& base, Holds holds, std::span<const Tensor> rest)
      : OperatorLink(base, holds), op_(op), attrs_(attrs), rest_(rest.begin(), rest.end()) {}
  void set_shape(const Shape& shape) { shape_ = shape; }
  Tensor project(const Tensor& base) const override {
    const RecordingAs scope(follows_onto_tape());
    Tensors inputs{base};
    inputs.insert(inputs.end(), rest_.begin(), rest_.end());
    return apply(op_, inputs, attrs_)[0];
  }
  Tensor embed(const Tensor& base, const Tensor& value) const override { return call("reshape_like", {value, base}); }
  std::function<Tensor(const Tensor&)> replay() const override {
    if (!rest_.empty() && !shape_) return {};
    return [&op = op_, attrs = attrs_, shape = shape_, recorded = follows_onto_tape()](const Tensor& base) {
      const RecordingAs scope(recorded && mode().recording);
      return shape ? base.reshape(*shape) : apply(op, {&base, 1}, attrs)[0];
    };
  }
  bool depends_on_shape() const override { return shape_.has_value(); }

 private:
  const OpDef& op_;
  Attrs attrs_;
  Tensors rest_;
  std::optional<Shape> shape_;  // where it is the rest's, and known
};
void link_view(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs, Tensors& outputs) {
  if (!op.is_view) return;
  detail::TensorImpl& view = impl_of(outputs[0]);
  const bool is_recorded = view.autograd || view.symbolic;
  const Tensor base = is_recorded ? inputs[0] : base_off_tape(inputs[0]);
  if (!base.defined()) return;
  const auto link = make_ref<ReshapeLink>(op, attrs, base, holds_of(base, is_recorded), inputs.subspan(1));
  const bool has_shape = !view.symbolic || view.symbolic->has_shape;
  if (inputs.size() > 1 && has_shape && view.shape.elements() > 0) link->set_shape(view.shape);
  view.view = link;
}

// Inside a catch block: throws what a call raised with the operator's name before it.
[[noreturn]] void fail_call(const OpDef& op) {
  constexpr const char* kNoMemory = "{}: out of memory: the system has fewer bytes than the call needs for values of its own";
  try {
    throw;
  } catch (const Error&) {
    rethrow_located(op.name);
  } catch (const std::bad_alloc&) {
    throw SystemError(fmt::format(kNoMemory, op.name), Located::in_operator);
  } catch (const std::length_error&) {  // a container of more elements than addresses
    throw SystemError(fmt::format(kNoMemory, op.name), Located::in_operator);
  }
}

// A call on symbolic tensors: one that waits, or a node of a graph.
Tensors record_call(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) {
  return DeferredCalls::are_on() ? DeferredCalls::call(op, attrs, inputs) : installed_trace_hook->record(op, attrs, inputs);
}

bool should_record(std::span<const Tensor> inputs) { return tls_mode.recording && tape_hook->needs_record(inputs); }

}  // namespace

Mode& mode() { return tls_mode; }
int& pauses_under_way() {
  thread_local int count = 0;
  return count;
}
AskedModes& asked_modes() {
  thread_local AskedModes asked;
  return asked;
}
void install_tape_hook(TapeHook* hook) { tape_hook = hook; }
bool is_recorded(const Tensor& t) { return tape_hook->needs_record({&t, 1}); }
void install_trace_hook(TraceHook* hook) { installed_trace_hook = hook; }
TraceHook& trace_hook() { return *installed_trace_hook; }
void record_view(const OpDef& op, const Attrs& attrs, const Tensor& source, Tensor& view) {
  if (should_record({&source, 1})) tape_hook->record(op, attrs, {&source, 1}, {&view, 1});
}

Tensor apply_one(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  if (!op.is_elementwise() || op.kernel || inputs.size() > kMaxFastInputs || inputs.empty() || inputs.size() != op.inputs.size())
    return apply(op, inputs, attrs)[0];
  try {
    if (any_symbolic(op, attrs, inputs) || tls_mode.tracing) return record_call(op, attrs, inputs)[0];
    Tensor out = run_elementwise_eager(op, inputs, attrs);
    if (should_record(inputs)) tape_hook->record(op, attrs, inputs, {&out, 1});
    return out;
  } catch (...) {
    fail_call(op);
  }
}

Tensors apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  try {
    const bool recorded = any_symbolic(op, attrs, inputs) || tls_mode.tracing;
    if (is_composed(op) && knows_shapes(inputs)) return run_composition(op, inputs, attrs);
    Tensors outputs;
    if (recorded) {
      outputs = record_call(op, attrs, inputs);
      if (!DeferredCalls::are_on()) link_view(op, attrs, inputs, outputs);
      return outputs;
    }
    run_eager(op, inputs, attrs, outputs);
    if (should_record(inputs)) tape_hook->record(op, attrs, inputs, outputs);
    if (op.is_view && may_be_linked(inputs[0])) link_view(op, attrs, inputs, outputs);
    return outputs;
  } catch (...) {
    fail_call(op);
  }
}

void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, std::span<Tensor> outputs) {
  try {
    std::array<DType, kMaxFastInputs> few;
    std::vector<DType> many(inputs.size() > kMaxFastInputs ? inputs.size() : 0);
    DType* types = many.empty() ? few.data() : many.data();
    for (size_t i = 0; i < inputs.size(); ++i) types[i] = impl_of(inputs[i]).dtype;
    run_kernel(decide(op, attrs, {types, inputs.size()}), inputs, outputs);
  } catch (...) {
    fail_call(op);
  }
}

PreparedCall prepare_call(const OpDef& op, const Attrs& attrs, std::span<const DType> inputs) {
  try {
    return decide(op, attrs, inputs);
  } catch (...) {
    fail_call(op);
  }
}
void run_prepared(const PreparedCall& call, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  try {
    run_kernel(call, inputs, outputs);
  } catch (...) {
    fail_call(*call.op);
  }
}

Tensor call(std::string_view name, std::span<const Tensor> inputs, NamedAttrs attrs) {
  const OpDef& op = OpRegistry::global().get(name);
  return apply_one(op, inputs, op.make_attrs({attrs.begin(), attrs.size()}));
}
Tensor call(std::string_view name, std::initializer_list<Tensor> inputs, NamedAttrs attrs) {
  return call(name, std::span<const Tensor>(inputs.begin(), inputs.size()), attrs);
}
Tensors call_all(std::string_view name, std::span<const Tensor> inputs, NamedAttrs attrs) {
  const OpDef& op = OpRegistry::global().get(name);
  return apply(op, inputs, op.make_attrs({attrs.begin(), attrs.size()}));
}

const Tensor& Gradient::in(int i) const {
  const Tensor& t = inputs_[i];
  if (!t.defined()) throw InternalError(fmt::format("the gradient of {} reads input {}, which its Uses do not name", op_.name, i));
  return t;
}
const Tensor& Gradient::out(int i) const {
  const Tensor& t = outputs_[i];
  if (!t.defined()) throw InternalError(fmt::format("the gradient of {} reads output {}, which its Uses do not name", op_.name, i));
  return t;
}

}  // namespace gluino
