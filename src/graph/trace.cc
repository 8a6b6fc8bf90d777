#include "graph/trace.h"

#include <algorithm>
#include <unordered_set>

#include "base/format.h"
#include "dispatch/composition.h"
#include "dispatch/infer.h"
#include "dispatch/own_gradient.h"
#include "dispatch/recording_as.h"
#include "dispatch/untraceable.h"
#include "gluino/autograd.h"
#include "graph/gradient.h"

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
  const detail::TensorImpl& t = impl_of(concrete);
  return {make_ref<GraphNode>(NodeOf<Value>{.name = std::move(name), .constant = concrete, .outputs = {{t.shape, t.dtype}}}), 0};
}

// Calls are recorded only to learn their shapes: no names are used up.
class ShapeTracer final : public Tracer {
  std::string name_for_call(const OpDef& op) override { return op.name; }
  std::string name_for(const Tensor&) override { return "constant"; }
};
std::vector<Shape> shapes_of_composition(const OpDef& op, const void* attrs, std::span<const Shape> inputs) {
  ShapeTracer tracer;
  Tensors given;
  for (const Shape& s : inputs) given.push_back(tracer.add_input("input", s, DType::float32, current_device()));
  std::vector<Shape> shapes;
  for (const Tensor& t : composition_of(op)(attrs, given)) shapes.push_back(impl_of(t).shape);
  return shapes;
}

thread_local int part_of_nodes = -1;

class GraphRecorder final : public TraceHook {
 public:
  GraphRecorder() {
    install_trace_hook(this);
    install_composed_shapes(shapes_of_composition);
  }

  Tensors record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs) override {
    check_input_count(op, attrs, static_cast<int>(inputs.size()));
    std::string name = !next_call_name.empty() ? std::exchange(next_call_name, {})
                       : current_tracer        ? current_tracer->name_for_call(op)
                                               : unique_name(op.name);
    auto node = make_ref<GraphNode>(NodeOf<Value>{.op = &op, .name = std::move(name), .attrs = attrs, .user_attrs = current_attr_scope()});
    if (current_tracer) node->mode = current_tracer->mode_for_call();
    node->part = part_of_nodes;
    bool has_shapes = true;
    for (const Tensor& t : inputs) {
      const detail::TensorImpl& impl = impl_of(t);
      has_shapes &= !impl.symbolic || impl.symbolic->has_shape;
      if (impl.symbolic && current_tracer) current_tracer->on_use(t);
      node->inputs.push_back(impl.symbolic    ? value_of(t)
                             : current_tracer ? current_tracer->capture(t)
                                              : constant_value(t, unique_name("constant")));
    }
    const Device device = inputs.empty() ? current_device() : impl_of(inputs[0]).device;
    if (const auto own = current_tracer ? current_tracer->outermost().device_of_program() : std::nullopt; own && *own != device)
      current_tracer->refuse(fmt::format("it computes on {}, and its arguments are on {}", device.str(), own->str()));
    if (op.is_dynamic_shape && current_tracer) {
      current_tracer->on_call({node, 0});
      return outputs_after_run(current_tracer->run_dynamic({node, 0}), op, attrs, node);
    }
    Tensors outputs;
    try {
      outputs = has_shapes && !op.is_dynamic_shape ? outputs_with_shapes(op, attrs, inputs, node, device)
                                                   : outputs_without_shapes(op, attrs, node);
    } catch (const UserError&) {
      if (current_tracer) ++current_tracer->outermost().failed_calls;
      throw;
    }
    if (current_tracer) {
      current_tracer->on_call({node, 0});  // one that fails has not been made
      if (refuses_values(op, attrs)) current_tracer->check_last_call();
    }
    return outputs;
  }

  Tensors gradients(const Tensors& heads, const Tensors& head_grads, const Tensors& variables, bool retain) override {
    current_tracer->note_look_at_tape();
    GradientRequest request;
    for (const Tensor& t : heads) request.heads.push_back(t.is_symbolic() ? value_of(t) : current_tracer->capture(t));
    for (const Tensor& t : variables) request.wanted.push_back(t.is_symbolic() ? value_of(t) : current_tracer->capture(t));
    request.nodes = nodes_in_order(request.heads);
    check_on_tape(request);
    for (size_t i = 0; i < heads.size(); ++i)
      request.head_grads.push_back(i < head_grads.size() && head_grads[i].defined() ? head_grads[i] : constant_like("ones_like", heads[i]));
    Tensors gradients = symbolic_gradients(request);
    // As on the tape: what backward has released is a value like any other.
    if (!retain) release(request);
    return gradients;
  }
  Tensors tensors_with_gradients() override {
    Tensors all = current_tracer->attached();
    for (const Tensor& t : current_tracer->inputs_on_tape()) all.push_back(t);
    for (const auto& [tensor, value] : current_tracer->captured()) all.push_back(tensor);
    return all;
  }
  // What it was computed from does not matter from now on.
  void on_attach_grad(const Tensor& symbolic) override {
    const autograd::Scope paused(false, std::nullopt);
    if (value_of(symbolic).node->op) rebind(impl_of(symbolic), impl_of(call("BlockGrad", {symbolic})));
    current_tracer->on_attach_grad(symbolic);
  }
  void after_each_run(std::function<void()> action) override { current_tracer->after_each_run(std::move(action)); }

 private:
  static void release(const GradientRequest& request) {
    std::unordered_set<GraphNode*> visited, released;
    for (const Value& v : request.heads) visited.insert(v.node.get());
    for (auto n = request.nodes.rbegin(); n != request.nodes.rend(); ++n) {
      if (!visited.contains(*n) || !(*n)->op || (*n)->mode.is_paused) continue;
      if (passes_gradients(*(*n)->op))
        for (const Value& v : (*n)->inputs) visited.insert(v.node.get());
      (*n)->mode.is_paused = true;
      released.insert(*n);
    }
    for (const Value& c : current_tracer->calls())  // to go back from there later is an error
      if (passes_gradients(*c.node->op) && !c.node->mode.is_paused &&
          std::ranges::any_of(c.node->inputs, [&](const Value& v) { return released.contains(v.node.get()); }))
        current_tracer->refuse("a backward pass in it releases what other values were computed from");
  }
  // As eager code does: a variable was attached a gradient, or computed from one that was while recording.
  static void check_on_tape(const GradientRequest& request) {
    std::unordered_set<const GraphNode*> on_tape;
    for (const Tensor& t : current_tracer->attached()) on_tape.insert(value_of(t).node.get());
    for (const Tensor& t : current_tracer->inputs_on_tape()) on_tape.insert(value_of(t).node.get());
    for (const auto& [tensor, value] : current_tracer->captured())
      if (impl_of(tensor).autograd) on_tape.insert(value.node.get());
    for (const GraphNode* n : request.nodes)
      if (n->op && !n->mode.is_paused &&
          std::any_of(n->inputs.begin(), n->inputs.end(), [&](const Value& v) { return on_tape.contains(v.node.get()); }))
        on_tape.insert(n);
    for (size_t i = 0; i < request.wanted.size(); ++i)
      if (!on_tape.contains(request.wanted[i].node.get()))
        raise<UserError>("grad: variable {} was neither recorded nor given attach_grad()", i);
    for (const Value& v : request.heads)
      if (!on_tape.contains(v.node.get()))
        raise<UserError>("backward: '{}' was not computed inside autograd::record() from a tensor with attach_grad()", v.node->name);
  }

  static Tensors outputs_with_shapes(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs, const Ref<GraphNode>& node,
                                     Device device) {
    const auto [shapes, dtypes] = infer_results(op, attrs, inputs);
    Tensors tensors;
    for (size_t i = 0; i < shapes.size(); ++i) {
      node->outputs.push_back({shapes[i], dtypes[i]});
      tensors.push_back(tensor_of({node, static_cast<int>(i)}, shapes[i], dtypes[i], device));
    }
    return tensors;
  }
  bool is_paused() const override { return current_tracer && current_tracer->mode_for_call().is_paused; }
  void on_rebind(const Tensor& target, const Tensor& value) override {
    if (!current_tracer) return;
    current_tracer->before_update(target);
    if (const auto* place = impl_of(target).autograd.get(); place && place->has_own_gradient() && mode().recording)
      current_tracer->refuse("a tensor with attach_grad() is updated in place while its operators are recorded");
    if (current_tracer->has_possible_alias(target))
      current_tracer->refuse("a tensor is updated in place that a branch or a loop may have passed on as its result");
    if (const SymbolicValue* v = impl_of(value).symbolic.get(); v && v->has_shape) current_tracer->on_shape_needed(value_of(value), target);
    if (impl_of(target).symbolic) return;
    if (current_tracer->input_for(target))
      current_tracer->refuse("a tensor that is given to the function and also known from outside is updated in place");
    current_tracer->on_rebind(target);
  }

  static Tensors outputs_after_run(const Tensors& results, const OpDef& op, const Attrs& attrs, const Ref<GraphNode>& node) {
    if (results.empty()) return outputs_without_shapes(op, attrs, node);
    Tensors tensors;
    for (size_t i = 0; i < results.size(); ++i) {
      node->outputs.push_back({results[i].shape(), results[i].dtype()});
      tensors.push_back(tensor_of({node, static_cast<int>(i)}, results[i].shape(), results[i].dtype(), results[i].device()));
    }
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

void detail::note_setting_read(const std::shared_ptr<const SettingState>& setting) {
  if (current_tracer) current_tracer->outermost().on_setting(setting);
}
void detail::note_setting_write() {
  if (current_tracer) current_tracer->outermost().refuse("it writes a Setting, which a program does not do again");
}
void name_next_call(std::string name) { next_call_name = std::move(name); }

Value value_of(const Tensor& t) {
  if (t.defined() && impl_of(t).view) refresh_view(t);
  if (!t.is_symbolic()) throw UserError("a concrete tensor is not a symbol; make a variable with sym::var");
  return static_cast<SymbolicNode&>(*impl_of(t).symbolic).value;
}

static Tensor wrap(Ref<SymbolicNode> symbolic) {
  auto impl = make_ref<detail::TensorImpl>(symbolic->shape, symbolic->dtype, symbolic->device);
  impl->symbolic = symbolic;
  Tensor tensor(impl);
  if (current_tracer) current_tracer->on_symbolic(tensor);
  return tensor;
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

MakesNodesOfPart::MakesNodesOfPart(int part) : before_(std::exchange(part_of_nodes, part)) {}
MakesNodesOfPart::~MakesNodesOfPart() { part_of_nodes = before_; }

PauseTracing::PauseTracing() : tracer_(current_tracer), tracing_(mode().tracing), watch_(trace_watch) {
  current_tracer = nullptr;
  mode().tracing = false;
  trace_watch = nullptr;
}
PauseTracing::~PauseTracing() {
  current_tracer = tracer_;
  mode().tracing = tracing_;
  trace_watch = watch_;
}

Tracer::Tracer() : previous_(current_tracer), mode_at_start_(mode()), previous_watch_(trace_watch) {
  current_tracer = this;
  mode().tracing = true;
  trace_watch = this;
  static std::atomic<uint64_t> traces{0};
  if (traces_under_way++ == 0) outermost_trace = ++traces;
}
Tracer::~Tracer() {
  restore_rebound();
  current_tracer = previous_;
  mode().tracing = mode_at_start_.tracing;
  trace_watch = previous_watch_;
  if (--traces_under_way == 0) outermost_trace = 0;
}
Tracer* Tracer::current() { return current_tracer; }

Tensor Tracer::add_input(const std::string& name, const Shape& shape, DType dtype, Device device) {
  return tensor_of({make_ref<GraphNode>(NodeOf<Value>{.name = name, .outputs = {{shape, dtype}}}), 0}, shape, dtype, device);
}

Value Tracer::capture(const Tensor& concrete) {
  if (const auto input = input_for(concrete)) return *input;
  if (const auto known = place_in_captured(concrete)) return captured_[*known].second;
  const detail::TensorImpl& impl = impl_of(concrete);
  if (impl.view && impl.autograd && !is_recorded(concrete)) released_views_.insert(&impl);
  captured_.emplace_back(concrete, constant_value(concrete, name_for(concrete)));
  captured_places_[concrete.impl().get()] = captured_.size() - 1;
  return captured_.back().second;
}

std::optional<size_t> Tracer::place_in_captured(const Tensor& concrete) const {
  const auto known = captured_places_.find(concrete.impl().get());
  return known == captured_places_.end() ? std::nullopt : std::optional(known->second);
}

void Tracer::on_shape_read(const Value& value, int axis, const Shape& shape) {
  if (known_shape_reads_.emplace(value.node.get(), value.index, axis).second) shape_reads_.push_back({value, axis, shape, {}});
}
void Tracer::on_shape_needed(const Value& value, const Tensor& target) {
  const detail::TensorImpl& t = impl_of(target);
  if (!t.symbolic) return on_shape_read(value, -1, t.shape);
  const Value before = value_of(target);
  const OpDef* op = value.node->op;
  if (op && op->is_same_shape && std::ranges::find(value.node->inputs, before) != value.node->inputs.end()) return;
  shape_reads_.push_back({value, -1, t.shape, before});
}
// What was captured of it so far stays what it was.
void Tracer::keep_captured(const Tensor& made) {
  const auto known = captured_places_.find(made.impl().get());
  if (known == captured_places_.end()) return;
  const detail::TensorImpl& now = impl_of(made);
  auto impl = make_ref<detail::TensorImpl>(now.shape, now.dtype, now.device);
  impl->storage = now.storage;
  impl->data = now.data;
  if (!released_views_.contains(&now)) impl->autograd = now.autograd;
  auto& [tensor, value] = captured_[known->second];
  captured_places_.erase(known);
  tensor = value.node->constant = Tensor(std::move(impl));
}
void Tracer::on_rebind(const Tensor& target) {
  if (is_program()) capture(target);  // a result may be it, though nothing reads what it was
  const detail::TensorImpl& t = impl_of(target);
  if (t.is_made_in_trace() && owns_what_is_made()) {  // it becomes a value of the trace
    keep_captured(target);
    return on_symbolic(target);
  }
  rebound_places_.try_emplace(&t, rebound_.size());
  rebound_.push_back({target, t.storage, t.data, t.autograd});
}
void Tracer::on_possible_alias(const Tensor& result, PossibleAlias alias, bool is_likely) {
  const detail::TensorImpl* impl = result.impl().get();
  if (is_likely) not_to_update_.insert({impl, alias.root.impl().get()});
  possible_aliases_[impl].push_back(std::move(alias));
}
bool Tracer::has_possible_alias(const Tensor& t) const {
  return not_to_update_.contains(t.impl().get()) || (previous_ && previous_->has_possible_alias(t));
}
std::span<const Tracer::PossibleAlias> Tracer::possible_aliases(const Tensor& result) const {
  const auto found = possible_aliases_.find(result.impl().get());
  return found == possible_aliases_.end() ? std::span<const PossibleAlias>() : found->second;
}
void Tracer::on_symbolic_refresh(const Tensor& view) {
  const detail::TensorImpl& t = impl_of(view);
  if (t.is_made_in_trace() && owns_what_is_made()) {
    keep_captured(view);
    return on_symbolic(view);
  }
  refreshed_.push_back({view, t.storage, t.data, t.autograd});
}
void Tracer::on_symbolic_rebind(const detail::TensorImpl& t, const SymbolicValue& value) {
  updates_.push_back({&t, static_cast<const SymbolicNode&>(value).value, static_cast<int>(calls_.size()), mode().recording});
}
// A view whose base was updated with it gets its value from there.
bool Tracer::follows_rebound_base(const Tensor& t) const {
  const auto* link = dynamic_cast<const OperatorLink*>(impl_of(t).view.get());
  const Tensor base = link ? link->base() : Tensor();
  return base.defined() && rebound_places_.contains(base.impl().get());
}
std::vector<std::pair<Tensor, Value>> Tracer::end_rebinding() {
  std::vector<std::pair<Tensor, Value>> finals;
  for (const Rebound& r : rebound_)
    if (!follows_rebound_base(r.tensor)) finals.emplace_back(r.tensor, value_of(r.tensor));
  restore_rebound();
  return finals;
}
Tensor Tracer::before_rebinding(const Tensor& concrete) const {
  const detail::TensorImpl& now = impl_of(concrete);
  const auto rebound = rebound_places_.find(&now);
  const auto refreshed = std::ranges::find_if(refreshed_, [&](const Rebound& r) { return r.tensor.is_same(concrete); });
  if (rebound == rebound_places_.end() && !now.view) return concrete;
  // A view, too, must not look at its base, which may have a value of the trace.
  const Rebound r = rebound != rebound_places_.end() ? rebound_[rebound->second]
                    : refreshed != refreshed_.end()  ? *refreshed
                                                     : Rebound{concrete, now.storage, now.data, now.autograd};
  auto impl = make_ref<detail::TensorImpl>(impl_of(concrete).shape, impl_of(concrete).dtype, impl_of(concrete).device);
  impl->storage = r.storage;
  impl->data = r.data;
  if (!released_views_.contains(&now)) impl->autograd = r.autograd;
  return Tensor(impl);
}
bool Tracer::has_rebound_views() const {
  return !refreshed_.empty() || std::ranges::any_of(rebound_, [](const Rebound& r) { return static_cast<bool>(impl_of(r.tensor).view); });
}
void Tracer::restore_rebound() {
  rebound_.insert(rebound_.end(), refreshed_.begin(), refreshed_.end());
  refreshed_.clear();
  for (const Rebound& r : rebound_) {
    detail::TensorImpl& t = impl_of(r.tensor);
    t.symbolic = nullptr;
    t.storage = r.storage;
    t.data = r.data;
    t.autograd = r.autograd;
    if (t.view) t.view->set_outdated();  // it looks at its base again, which will have another value
  }
  rebound_.clear();
  rebound_places_.clear();
}
CallMode Tracer::mode_for_call() const {
  const Mode& now = mode();
  CallMode m;
  m.is_paused = mode_at_start_.recording && !now.recording;
  if (now.training != mode_at_start_.training) m.training = now.training;
  return m;
}
// Later tensors may hold earlier ones (views their bases), so the last ones are let go first.
Tensors Tracer::escaped() {
  attached_.clear();
  possible_aliases_.clear();
  Tensors held;
  while (!symbolic_tensors_.empty()) {
    const Tensor t = std::move(symbolic_tensors_.back());
    symbolic_tensors_.pop_back();
    if (t.impl()->use_count() > 1) held.push_back(t);
  }
  return held;
}
void Tracer::on_memory_write(const Tensor&) {
  throw NotInATrace(
      "the memory of a tensor is asked for, to be written, while the function is being traced; a compiled program could not repeat that: "
      "use "
      "assign(), x[...] = y or an operator");
}
Tensors Tracer::run_dynamic(const Value&) { return {}; }
Tensor Tracer::read_value(const Tensor&) { throw NotInATrace("the value of a symbolic tensor is not known while a graph is being traced"); }
std::string Tracer::name_for(const Tensor&) { return fmt::format("constant{}", captured_.size()); }
std::string Tracer::name_for_call(const OpDef& op) { return unique_name(op.name); }

}  // namespace gluino
