#include "graph/trace.h"

#include "base/format.h"
#include "dispatch/infer.h"
#include "dispatch/mode.h"

namespace gluino {
namespace {

thread_local Tracer* current_tracer = nullptr;
thread_local std::string next_call_name;

// A Tensor's link to the value it stands for.
class SymbolicNode final : public SymbolicValue {
 public:
  explicit SymbolicNode(Value v) : value(std::move(v)) {}
  std::string describe() const override {
    return has_shape ? fmt::format("<Symbol {} {} {}>", name(), shape, dtype) : fmt::format("<Symbol {}>", name());
  }
  void on_shape_read(int axis) override {
    if (!has_shape)
      raise<UserError>(
          "the shape of symbol '{}' is not known yet; give shapes to its variables (sym::var(name, {{.shape = ...}})) or call infer_shape",
          name());
    if (current_tracer) current_tracer->on_shape_read(value, axis, shape);
  }
  Tensor read_value() override {
    if (current_tracer) return current_tracer->read_value(tensor_of(value, shape, dtype, device));
    raise<UserError>("the value of symbol '{}' is not known before its graph runs; use eval() or bind()", name());
  }
  std::string name() const { return output_name(value.node->op, value.node->attrs, value.node->name, value.index); }

  Value value;
  Shape shape;
  DType dtype = DType::float32;
  Device device;
};

Value constant_value(const Tensor& concrete, std::string name) {
  auto node = make_ref<GraphNode>();
  node->name = std::move(name);
  node->constant = concrete;
  return {node, 0};
}

class GraphRecorder final : public TraceHook {
 public:
  GraphRecorder() { install_trace_hook(this); }

  Tensors record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) override {
    check_input_count(op, attrs, static_cast<int>(inputs.size()));
    auto node = make_ref<GraphNode>();
    node->op = &op;
    node->attrs = attrs;
    node->name = !next_call_name.empty() ? std::exchange(next_call_name, {})
                 : current_tracer        ? current_tracer->name_for_call(op)
                                         : unique_name(op.name);
    node->user_attrs = current_attr_scope();
    bool has_shapes = true;
    for (const Tensor& t : inputs) {
      const detail::TensorImpl& impl = impl_of(t);
      has_shapes &= !impl.symbolic || impl.symbolic->has_shape;
      if (impl.symbolic && current_tracer) current_tracer->on_use(t);
      node->inputs.push_back(impl.symbolic    ? value_of(t)
                             : current_tracer ? current_tracer->capture(t)
                                              : constant_value(t, unique_name("constant")));
    }
    if (current_tracer) current_tracer->on_call({node, 0});
    const Device device = inputs.empty() ? current_device() : impl_of(inputs[0]).device;
    if (op.is_dynamic_shape && current_tracer) return outputs_after_run(current_tracer->run_dynamic({node, 0}), op, attrs, node);
    return has_shapes && !op.is_dynamic_shape ? outputs_with_shapes(op, attrs, inputs, node, device)
                                              : outputs_without_shapes(op, attrs, node);
  }

 private:
  static Tensors outputs_with_shapes(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs, const Ref<GraphNode>& node,
                                     Device device) {
    std::vector<Shape> in, out;
    std::vector<DType> in_types, out_types;
    for (const Tensor& t : inputs) {
      in.push_back(impl_of(t).shape);
      in_types.push_back(impl_of(t).dtype);
    }
    infer_shapes(op, attrs, in, out);
    infer_dtypes(op, attrs, in_types, out_types);
    Tensors tensors;
    for (size_t i = 0; i < out.size(); ++i) tensors.push_back(tensor_of({node, static_cast<int>(i)}, out[i], out_types[i], device));
    return tensors;
  }
  void on_rebind(const Tensor& target) override {
    if (current_tracer) current_tracer->on_rebind(target);
  }

  static Tensors outputs_after_run(const Tensors& results, const OpDef& op, const Attrs& attrs, const Ref<GraphNode>& node) {
    if (results.empty()) return outputs_without_shapes(op, attrs, node);
    Tensors tensors;
    for (size_t i = 0; i < results.size(); ++i)
      tensors.push_back(tensor_of({node, static_cast<int>(i)}, results[i].shape(), results[i].dtype(), results[i].device()));
    return tensors;
  }
  static Tensors outputs_without_shapes(const OpDef& op, const Attrs& attrs, const Ref<GraphNode>& node) {
    Tensors tensors;
    for (int i = 0; i < op.num_outputs(attrs); ++i) tensors.push_back(tensor_of({node, i}));
    return tensors;
  }
};
const GraphRecorder recorder;

}  // namespace

void name_next_call(std::string name) { next_call_name = std::move(name); }

Value value_of(const Tensor& t) {
  if (t.defined() && impl_of(t).view) refresh_view(t);
  if (!t.is_symbolic()) throw UserError("a concrete tensor is not a symbol; make a variable with sym::var");
  return static_cast<SymbolicNode&>(*impl_of(t).symbolic).value;
}

static Tensor wrap(Ref<SymbolicNode> symbolic) {
  auto impl = make_ref<detail::TensorImpl>(symbolic->shape, symbolic->dtype, symbolic->device);
  impl->symbolic = symbolic;
  return Tensor(impl);
}
Tensor tensor_of(const Value& value) { return wrap(make_ref<SymbolicNode>(value)); }
Tensor tensor_of(const Value& value, const Shape& shape, DType dtype, Device device) {
  auto symbolic = make_ref<SymbolicNode>(value);
  symbolic->shape = shape;
  symbolic->dtype = dtype;
  symbolic->device = device;
  symbolic->has_shape = symbolic->has_dtype = true;
  return wrap(std::move(symbolic));
}

PauseTracing::PauseTracing() : tracer_(current_tracer), tracing_(mode().tracing) {
  current_tracer = nullptr;
  mode().tracing = false;
}
PauseTracing::~PauseTracing() {
  current_tracer = tracer_;
  mode().tracing = tracing_;
}

Tracer::Tracer() : previous_(current_tracer), previous_tracing_(mode().tracing) {
  current_tracer = this;
  mode().tracing = true;
}
Tracer::~Tracer() {
  restore_rebound();
  current_tracer = previous_;
  mode().tracing = previous_tracing_;
}
Tracer* Tracer::current() { return current_tracer; }

Tensor Tracer::add_input(const std::string& name, const Shape& shape, DType dtype, Device device) {
  auto node = make_ref<GraphNode>();
  node->name = name;
  return tensor_of({node, 0}, shape, dtype, device);
}

Value Tracer::capture(const Tensor& concrete) {
  for (const auto& [tensor, value] : captured_)
    if (tensor.is_same(concrete)) return value;
  captured_.emplace_back(concrete, constant_value(concrete, name_for(concrete)));
  return captured_.back().second;
}

void Tracer::on_shape_read(const Value& value, int axis, const Shape& shape) {
  const ShapeRead read{value, axis, shape};
  if (std::find(shape_reads_.begin(), shape_reads_.end(), read) == shape_reads_.end()) shape_reads_.push_back(read);
}
void Tracer::on_rebind(const Tensor& target) {
  const detail::TensorImpl& t = impl_of(target);
  rebound_.push_back({target, t.storage, t.data, t.autograd});
}
std::vector<std::pair<Tensor, Value>> Tracer::end_rebinding() {
  std::vector<std::pair<Tensor, Value>> finals;
  for (const Rebound& r : rebound_) finals.emplace_back(r.tensor, value_of(r.tensor));
  restore_rebound();
  return finals;
}
void Tracer::restore_rebound() {
  for (const Rebound& r : rebound_) {
    detail::TensorImpl& t = impl_of(r.tensor);
    t.symbolic = nullptr;
    t.storage = r.storage;
    t.data = r.data;
    t.autograd = r.autograd;
  }
  rebound_.clear();
}
Tensors Tracer::run_dynamic(const Value&) { return {}; }
Tensor Tracer::read_value(const Tensor&) { throw UserError("the value of a symbolic tensor is not known while a graph is being traced"); }
std::string Tracer::name_for(const Tensor&) { return fmt::format("constant{}", captured_.size()); }
std::string Tracer::name_for_call(const OpDef& op) { return unique_name(op.name); }

}  // namespace gluino
