#include "autograd/tape.h"

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "base/format.h"
#include "dispatch/dependent_outputs.h"
#include "dispatch/mode.h"
#include "dispatch/recording_as.h"
#include "gluino/autograd.h"

namespace gluino::autograd {
namespace {

std::atomic<uint64_t> next_sequence{1};

// A second handle on the same memory that later in-place rebinding of the first does not reach.
Tensor snapshot(const Tensor& t, Ref<AutogradEntry> entry) {
  const detail::TensorImpl& from = impl_of(t);
  auto impl = make_ref<detail::TensorImpl>(from.shape, from.dtype, from.device);
  impl->storage = from.storage;
  impl->data = from.data;
  impl->symbolic = from.symbolic;
  impl->autograd = std::move(entry);
  return Tensor(std::move(impl));
}

Tensor copy_off_tape(const Tensor& t) {
  const Scope paused(false, std::nullopt);
  return t.detach().copy();
}

constexpr uint64_t kMayBeWritten = ~uint64_t{0};  // a state: operators update it as they run
uint64_t writes_of(const Tensor& t) { return impl_of(t).storage ? impl_of(t).storage->writes() : 0; }

TracedFunction traced_function = nullptr;

Ref<TapeNode> make_node(std::span<const Tensor> inputs) {
  auto node = make_ref<TapeNode>();
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  node->inputs.reserve(inputs.size());
  for (const Tensor& t : inputs) node->inputs.emplace_back(is_on_tape(t) ? entry_of(t) : nullptr);
  return node;
}

void take_metas(TapeNode& node, std::span<const Tensor> inputs) {
  node.own_input_metas.reserve(inputs.size());
  for (const Tensor& t : inputs) node.own_input_metas.push_back(meta_of(t));
  node.input_metas = node.own_input_metas;
}

void attach_outputs(const Ref<TapeNode>& node, std::span<Tensor> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto entry = make_ref<TapeEntry>();
    entry->node = node;
    entry->index = static_cast<int>(i);
    impl_of(outputs[i]).autograd = entry;
  }
}

class Tape final : public TapeHook {
 public:
  Tape() { install_tape_hook(this); }

  bool needs_record(std::span<const Tensor> inputs) const override { return std::any_of(inputs.begin(), inputs.end(), is_on_tape); }

  void record(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    if (is_overwrite(&op) && is_on_tape(inputs[0])) {
      impl_of(outputs[0]).autograd = impl_of(inputs[0]).autograd;
      return;
    }
    Ref<TapeNode> node = make_node(inputs);
    node->op = &op;
    node->attrs = attrs;
    take_metas(*node, inputs);
    node->output_metas.reserve(outputs.size());
    for (const Tensor& t : outputs) node->output_metas.push_back(meta_of(t));
    if (op.uses.all_inputs || !op.uses.inputs.empty()) {
      node->saved_inputs.resize(inputs.size());
      node->input_writes.resize(inputs.size());
      auto save = [&](size_t i) {
        if (i >= inputs.size()) return;
        node->saved_inputs[i] = snapshot(inputs[i], is_on_tape(inputs[i]) ? impl_of(inputs[i]).autograd : Ref<AutogradEntry>());
        node->input_writes[i] = op.has_states && op.is_state_input(attrs, i) ? kMayBeWritten : writes_of(inputs[i]);
      };
      for (size_t i = 0; op.uses.all_inputs && i < inputs.size(); ++i) save(i);
      for (int i : op.uses.inputs) save(static_cast<size_t>(i));
    }
    if (!op.uses.outputs.empty() || op.uses.last_output) {
      node->saved_outputs.resize(outputs.size());
      node->output_writes.resize(outputs.size());
      // Without the entry: it would keep the node alive for ever. backward() puts a new one on.
      auto save = [&](size_t i) {
        if (i >= outputs.size()) return;
        node->saved_outputs[i] = snapshot(outputs[i], nullptr);
        node->output_writes[i] = writes_of(outputs[i]);
      };
      if (op.uses.last_output) save(outputs.size() - 1);
      for (int i : op.uses.outputs) save(static_cast<size_t>(i));
    }
    attach_outputs(node, outputs);
    if (const DependenceRule* rule = dependence_rule_of(op)) leave_out(*rule, attrs, inputs, outputs);
  }

 private:
  static void leave_out(const DependenceRule& rule, const Attrs& attrs, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
    std::vector<Shape> shapes;
    std::vector<bool> is_on;
    for (const Tensor& t : inputs) {
      shapes.push_back(impl_of(t).shape);
      is_on.push_back(is_on_tape(t));
    }
    const Dependence d = rule(attrs.get(), shapes, outputs.back());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (i >= d.num_outputs() || !d.depends_on_any(i, is_on)) impl_of(outputs[i]).autograd = nullptr;
  }
};
const Tape tape;

}  // namespace

TensorMeta meta_of(const Tensor& t) { return {impl_of(t).shape, impl_of(t).dtype, impl_of(t).device}; }

TapeEntry* entry_of(const Tensor& t) {
  if (impl_of(t).view) refresh_view(t);
  return static_cast<TapeEntry*>(impl_of(t).autograd.get());
}
// A view leaves the tape with its base, and that one with the one it is a view of, wherever they were last looked at.
static bool is_released(const Tensor& t) {
  const auto* e = static_cast<const TapeEntry*>(impl_of(t).autograd.get());
  if (!e || e->is_leaf()) return false;
  if (e->node->is_released(e->index)) return true;
  const auto* link = dynamic_cast<const OperatorLink*>(impl_of(t).view.get());
  const Tensor base = link ? link->base() : Tensor();
  return base.defined() && is_released(base);
}
bool is_on_tape(const Tensor& t) { return entry_of(t) && !is_released(t); }
bool is_overwrite(const OpDef* op) {
  static const OpDef& overwrite = OpRegistry::global().get("_overwrite");
  return op == &overwrite;
}
void check_unchanged(const Tensor& saved, uint64_t writes, std::string_view what) {
  if (writes != kMayBeWritten && writes_of(saved) != writes) raise_changed(what);
}
void raise_changed(std::string_view what) {
  raise<UserError>(
      "{} was changed in place after it was recorded, and its gradient needs the old values; call backward before the change, or change a "
      "copy",
      what);
}
void install_traced_function(TracedFunction traced) { traced_function = traced; }

void record_custom(std::string name, std::span<const Tensor> inputs, std::span<Tensor> outputs, BackwardFn backward,
                   std::function<bool()> gives_own_gradient, std::shared_ptr<const RecordedWhole> whole, Tensors left_by_loops) {
  Ref<TapeNode> node = make_node(inputs);
  node->name = std::move(name);
  node->custom = std::move(backward);
  node->gives_own_gradient = std::move(gives_own_gradient);
  node->whole = std::move(whole);
  node->left_by_loops = std::move(left_by_loops);
  if (node->whole)
    node->input_metas = node->whole->input_metas;
  else
    take_metas(*node, inputs);
  for (const Tensor& t : outputs) node->output_metas.push_back(meta_of(t));
  attach_outputs(node, outputs);
}

void TapeNode::drop_saved() {
  released = true;
  saved_inputs.clear();
  saved_outputs.clear();
  custom = nullptr;
  gives_own_gradient = nullptr;
}

// Those that somebody has, each once.
static std::vector<Ref<TapeEntry>> leaves_behind(const std::vector<Ref<TapeEntry>>& inputs) {
  std::vector<Ref<TapeEntry>> leaves;
  std::unordered_set<const void*> seen;
  std::vector<TapeEntry*> open;
  for (const Ref<TapeEntry>& e : inputs) open.push_back(e.get());
  while (!open.empty()) {
    TapeEntry* e = open.back();
    open.pop_back();
    if (!e || !seen.insert(e->is_leaf() ? static_cast<const void*>(e) : e->node.get()).second) continue;
    if (!e->is_leaf())
      for (const Ref<TapeEntry>& before : e->node->inputs) open.push_back(before.get());
    else if (e->use_count() > 1)
      leaves.emplace_back(e);
  }
  return leaves;
}
void TapeNode::drop_saved_except(const std::vector<bool>& unvisited, const std::vector<bool>& cut) {
  bool is_any_left = false, is_any_cut = false;
  released_outputs.resize(unvisited.size(), false);
  for (size_t i = 0; i < unvisited.size(); ++i) {
    released_outputs[i] = released_outputs[i] || !unvisited[i];
    if (released_outputs[i] || is_gone(static_cast<int>(i))) continue;
    (cut[i] ? is_any_cut : is_any_left) = true;
  }
  if (is_any_left) return;
  drop_saved();
  if (!is_any_cut) return;
  released = false;
  is_cut = true;
  // A state that is carried on would keep every call before: what is left of these are the leaves, to which zeros may still flow.
  inputs = leaves_behind(inputs);
  whole = nullptr;
}

// A long tape is a long chain of nodes: unlinked one by one, so that the stack does not grow with its length.
TapeNode::~TapeNode() {
  thread_local std::vector<Ref<TapeEntry>>* pending = nullptr;
  auto take = [&](std::vector<Ref<TapeEntry>>& into) {
    for (Ref<TapeEntry>& e : inputs)
      if (e) into.push_back(std::move(e));
    for (Tensor& t : saved_inputs)
      if (t.defined() && t.impl()->use_count() == 1 && t.impl()->autograd)
        into.push_back(Ref<TapeEntry>(entry_of(t))), t.impl()->autograd = nullptr;
  };
  if (pending) {
    take(*pending);
    return;
  }
  std::vector<Ref<TapeEntry>> list;
  pending = &list;
  take(list);
  while (!list.empty()) {
    Ref<TapeEntry> last = std::move(list.back());
    list.pop_back();
    last = nullptr;  // may add to the list
  }
  pending = nullptr;
}

static thread_local std::vector<std::pair<const Scope*, AskedModes>> asked_before;  // by the scopes that have changed it

Scope::Scope(std::optional<bool> recording, std::optional<bool> training)
    : previous_recording_(mode().recording), previous_training_(mode().training) {
  if (mode().tracing && training) {
    asked_before.emplace_back(this, asked_modes());
    asked_modes().training = true;
    if (recording) asked_modes().pause = !*recording;
  }
  if (recording) mode().recording = *recording;
  if (training) mode().training = *training;
  if (previous_recording_ && !mode().recording) ++pauses_under_way();
}
Scope::~Scope() {
  if (!asked_before.empty() && asked_before.back().first == this) {
    asked_modes() = asked_before.back().second;
    asked_before.pop_back();
  }
  if (previous_recording_ && !mode().recording) --pauses_under_way();
  mode().recording = previous_recording_;
  mode().training = previous_training_;
}
static thread_local uint64_t mode_reads = 0;
uint64_t count_mode_reads() { return mode_reads; }
bool is_recording() { return ++mode_reads, mode().recording; }
bool is_training() { return ++mode_reads, mode().training; }

Tensor handle_of_its_own(const Tensor& t) { return snapshot(t, impl_of(t).autograd); }
Tensor in_memory_of_its_own(const Tensor& t) {
  Tensor own = copy_off_tape(t);
  impl_of(own).autograd = impl_of(t).autograd;
  return own;
}

void check_results(const Tensors& results) {
  if (results.empty()) throw UserError("autograd::Function: forward returns no tensor");
  for (const Tensor& t : results)
    if (!t.defined()) throw UserError("autograd::Function: forward returns a null tensor");
}
Tensors checked_gradients(Tensors gradients, const std::vector<Shape>& shapes) {
  if (gradients.size() != shapes.size())
    raise<UserError>("autograd::Function: backward returns {} gradients for {} inputs", gradients.size(), shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i)
    if (gradients[i].defined() && !(impl_of(gradients[i]).shape == shapes[i]))
      raise<ShapeError>("autograd::Function: backward returns a gradient of shape {} for input {} of shape {}", impl_of(gradients[i]).shape,
                        i, shapes[i]);
  return gradients;
}

static bool is_shared(const Tensor& t) { return t.impl()->use_count() > 1 || impl_of(t).storage->use_count() > 1; }

// What a user's Function keeps of what it was given and gives, in whatever way, and how often its memory had been written.
class KeptByFunction {
 public:
  KeptByFunction(const Tensors& given, const Tensors& outputs) {
    Tensors all = given;
    all.insert(all.end(), outputs.begin(), outputs.end());
    for (const Tensor& t : all) {
      const auto ours = std::ranges::count_if(all, [&](const Tensor& other) { return other.is_same(t); }) * 2;  // here, and there
      if (t.impl()->use_count() > ours) kept_.emplace_back(t, writes_of(t));
    }
  }
  void check() const {
    for (const auto& [tensor, writes] : kept_) check_unchanged(tensor, writes, "what a user's Function keeps");
  }

 private:
  std::vector<std::pair<Tensor, uint64_t>> kept_;
};

Tensors call(const std::shared_ptr<Function>& function, const Tensors& inputs) {
  for (const Tensor& t : inputs)
    if (!t.defined()) throw UserError("autograd::call: an input is a null tensor");
  if (mode().tracing) return traced_function(function, inputs);
  // Handles of its own: what it keeps of them for backward stays when the caller's are updated in place.
  Tensors given, outputs;
  for (const Tensor& t : inputs) {
    if (impl_of(t).view) refresh_view(t);
    given.push_back(handle_of_its_own(t));
  }
  {
    const Scope paused(false, std::nullopt);
    outputs = function->forward(given);
  }
  check_results(outputs);
  KeptByFunction kept(given, outputs);
  for (Tensor& t : outputs)  // what it gives is its own, as in a program, also where it is an input, or kept
    if (is_shared(t)) t = copy_off_tape(t);
  if (!mode().recording || std::none_of(inputs.begin(), inputs.end(), is_on_tape)) return outputs;
  std::vector<Shape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(impl_of(t).shape);
  record_custom(
      "a user's Function", inputs, outputs,
      [function, shapes = std::move(shapes), kept = std::move(kept)](const BackwardCall& call) {
        kept.check();
        Tensors gradients = checked_gradients(function->backward(call.heads), shapes);
        for (Tensor& g : gradients)
          if (g.defined() && is_shared(g)) g = in_memory_of_its_own(g);
        return gradients;
      },
      [] { return true; });
  return outputs;
}

}  // namespace gluino::autograd
