#include "exec/runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "exec/captured.h"
#include "tensor/impl.h"
#include "tensor/pool.h"

namespace gluino {

struct PlanRunner::Run::State {
  std::vector<Tensor> tensors;                   // by slot
  std::vector<Tensor> arguments;                 // of all steps: handles on the same
  std::vector<std::vector<SourceStamp>> stamps;  // of the derived values that are bound
  Ref<Storage> borrowed;                         // gives arena tensors a storage; the memory is the run's
  char* arena = nullptr;
  char* patched = nullptr;  // the arena that the tensors point into
  std::string saved;        // the arena as backward found it, when it may be asked again
};

PlanRunner::PlanRunner(Plan plan, bool keep_arena)
    : plan_(std::move(plan)), keep_arena_(keep_arena), first_place_(plan_.slots.size() + 2, 0), views_(plan_.slots.size()) {
  const auto each_argument = [&](const auto& visit) {
    for (const Step& step : plan_.steps)
      for (const auto* slots : {&step.inputs, &step.outputs})
        for (const int s : *slots) visit(static_cast<size_t>(s));
  };
  // Counted first: place s + 2 counts those of slot s, then s + 1 is where the next of them goes.
  each_argument([&](size_t s) { ++first_place_[s + 2]; });
  std::partial_sum(first_place_.begin(), first_place_.end(), first_place_.begin());
  places_.resize(first_place_.back());
  size_t argument = 0;
  each_argument([&](size_t s) { places_[first_place_[s + 1]++] = argument++; });
  first_place_.pop_back();
  last_use_.assign(plan_.slots.size(), -1);
  for (size_t k = 0; k < plan_.steps.size(); ++k)
    for (const auto* slots : {&plan_.steps[k].inputs, &plan_.steps[k].outputs})
      for (const int s : *slots) last_use_[plan_.slots[s].root] = static_cast<int>(k);
  std::vector<DType> types;
  calls_.reserve(plan_.steps.size());
  argument = 0;
  for (const Step& step : plan_.steps) {
    types.clear();
    for (int s : step.inputs) types.push_back(plan_.slots[s].dtype);
    calls_.push_back({prepare_call(*step.op, step.attrs, types), argument, static_cast<uint32_t>(step.inputs.size()),
                      static_cast<uint32_t>(step.outputs.size())});
    calls_.back().prepared.training = step.training;
    argument += step.inputs.size() + step.outputs.size();
  }
  for (size_t i = 0; i < plan_.slots.size(); ++i) {
    const Slot& slot = plan_.slots[i];
    const auto s = static_cast<int>(i);
    if (slot.root != s) views_[slot.root].push_back(s);
    if (slot.kind == Slot::Kind::variable || slot.kind == Slot::Kind::output) callers_.push_back(s);
    if (slot.kind == Slot::Kind::output && slot.root == s) results_.push_back(s);
  }
  for (size_t i = 0; i < plan_.slots.size(); ++i)
    if (plan_.slots[i].kind == Slot::Kind::constant && !views_[i].empty()) viewed_constants_.push_back(static_cast<int>(i));
  std::vector<std::vector<int>> readers(plan_.slots.size());  // parts, by root
  std::vector<int> makers(plan_.slots.size(), -1);            // the same of whoever wrote last
  for (size_t k = plan_.forward_steps; k < plan_.steps.size(); ++k) {
    const Step& step = plan_.steps[k];
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (std::vector<int>& parts = readers[plan_.slots[step.inputs[i]].root];
          !step.op->input_spec(step.attrs, i).shape_only && std::ranges::find(parts, step.part) == parts.end())
        parts.push_back(step.part);
    for (int o : step.outputs) makers[plan_.slots[o].root] = step.part;
  }
  for (int o : plan_.outputs) output_parts_.push_back(makers[plan_.slots[o].root]);
  for (const Step& step : plan_.steps)
    for (size_t i = 0; step.op->has_states && i < step.inputs.size(); ++i)
      if (step.op->is_state_input(step.attrs, i)) readers[plan_.slots[step.inputs[i]].root].clear();
  for (size_t i = 0; i < plan_.slots.size(); ++i) {
    const Slot& slot = plan_.slots[i];
    const bool is_made_by_forward = slot.kind != Slot::Kind::output || slot.first_step < plan_.forward_steps;
    if (!readers[i].empty() && slot.kind != Slot::Kind::arena && slot.kind != Slot::Kind::derived && is_made_by_forward)
      backward_reads_.emplace_back(static_cast<int>(i), std::move(readers[i]));
  }
  for (const Derived& d : plan_.derived) derived_.push_back(find_derived_value(d.key));
}

PlanRunner::~PlanRunner() {
  for (auto& state : idle_)
    if (state->arena) pool_free(state->arena, plan_.arena_bytes, device_);
}

namespace {

// Puts a tensor into a slot: its list entry and every step that uses it.
struct Binder {
  const Plan& plan;
  std::vector<Tensor>&tensors, &arguments;
  const std::vector<size_t>&first_place, &places;
  const std::vector<std::vector<int>>& views;

  void bind(int slot, Tensor t) {
    const auto s = static_cast<size_t>(slot);
    for (size_t i = first_place[s]; i < first_place[s + 1]; ++i) arguments[places[i]] = t;
    tensors[s] = std::move(t);
  }
  // A root and the views on its memory.
  void bind_root(int root, const Tensor& t) {
    bind(root, t);
    for (int v : views[root]) bind(v, t.defined() ? make_view(t, plan.slots[v].shape, 0) : Tensor());
  }
};

}  // namespace

PlanRunner::Run::Run(PlanRunner& runner) : runner_(runner) {
  const Plan& plan = runner.plan_;
  {
    const std::lock_guard lock(runner.mutex_);
    if (!runner.idle_.empty()) {
      state_ = std::move(runner.idle_.back());
      runner.idle_.pop_back();
    }
  }
  if (!state_) {
    state_ = std::make_unique<State>();
    State& s = *state_;
    s.tensors.resize(plan.slots.size());
    s.arguments.resize(runner.places_.size());
    s.stamps.resize(plan.derived.size());
    s.borrowed = make_ref<Storage>(nullptr, 0, runner.device_, [] {});
    Binder binder{plan, s.tensors, s.arguments, runner.first_place_, runner.places_, runner.views_};
    for (size_t i = 0; i < plan.slots.size(); ++i) {
      const Slot& slot = plan.slots[i];
      if (slot.kind == Slot::Kind::constant && slot.root == static_cast<int>(i)) {
        binder.bind_root(static_cast<int>(i), plan.constants[i]);
      } else if (slot.kind == Slot::Kind::arena) {
        Tensor t = make_shape_only(slot.shape, slot.dtype, runner.device_);
        impl_of(t).storage = s.borrowed;
        binder.bind(static_cast<int>(i), t);
      }
    }
  }
  State& s = *state_;
  // A captured tensor may have got other memory since its views were made.
  for (int root : runner.viewed_constants_)
    if (const Tensor& t = s.tensors[root]; impl_of(s.tensors[runner.views_[root][0]]).data != impl_of(t).data)
      Binder{plan, s.tensors, s.arguments, runner.first_place_, runner.places_, runner.views_}.bind_root(root, Tensor(t));
  if (!s.arena && plan.arena_bytes > 0) s.arena = static_cast<char*>(pool_allocate(plan.arena_bytes, runner.device_));
  if (s.arena != s.patched) {
    for (size_t i = 0; i < plan.slots.size(); ++i)
      if (plan.slots[i].kind == Slot::Kind::arena) impl_of(s.tensors[i]).data = s.arena + plan.slots[i].offset;
    s.patched = s.arena;
  }
}

std::vector<PlanRunner::Run::Read> PlanRunner::Run::read_by_backward() const {
  std::vector<Read> reads;
  for (const auto& [slot, parts] : runner_.backward_reads_)
    if (const Tensor& t = state_->tensors[slot]; t.defined())
      reads.push_back({t, impl_of(t).storage->writes(), runner_.plan_.slots[slot].node, parts});
  return reads;
}

PlanRunner::Run::~Run() {
  State& s = *state_;
  const Plan& plan = runner_.plan_;
  // Only what belongs to the caller is let go; the rest is ready for the next run.
  Binder binder{plan, s.tensors, s.arguments, runner_.first_place_, runner_.places_, runner_.views_};
  for (int slot : runner_.callers_)
    if (s.tensors[slot].defined()) binder.bind(slot, Tensor());
  s.saved.clear();
  if (s.arena && !runner_.keep_arena_) {
    pool_free(s.arena, plan.arena_bytes, runner_.device_);
    s.arena = nullptr;
  }
  const std::lock_guard lock(runner_.mutex_);
  runner_.idle_.push_back(std::move(state_));
}

// What the steps of a long plan read, tensors and then their memory, has left the cache since the last run: it is asked for some steps
// ahead.
void PlanRunner::fetch_ahead(const Run::State& state, int step, int last) const {
  constexpr int kAhead = 4;
  const auto arguments = [&](int k) {
    const Call& call = calls_[k];
    return std::span(state.arguments).subspan(call.first, call.inputs + call.outputs);
  };
  if (step + 2 * kAhead < last)
    for (const Tensor& t : arguments(step + 2 * kAhead)) prefetch_tensor(t);
  if (step + kAhead < last)
    for (const Tensor& t : arguments(step + kAhead))
      if (t.defined()) prefetch_values(t);
}

std::vector<bool> PlanRunner::left_out(const std::vector<bool>& given_heads) const {
  if (std::ranges::find(given_heads, false) == given_heads.end()) return {};
  std::vector<bool> is_left_out;
  for (const std::vector<int>& heads : plan_.parts)
    is_left_out.push_back(!heads.empty() && std::ranges::none_of(heads, [&](int h) { return given_heads[h]; }));
  return is_left_out;
}

static void fill_zeros(Tensor& t) {
  std::memset(bytes_of(t), 0, t.nbytes());
  impl_of(t).storage->note_write();
}

// left_out: by part; what such a step gives is zeros. `times`: where to put what each step took, or null.
void PlanRunner::run_steps(Run::State& state, int first, int last, const std::vector<bool>& left_out, std::vector<double>* times) const {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kManySteps = 256;
  const bool is_long = calls_.size() >= kManySteps;
  for (int k = first; k < last; ++k) {
    if (is_long) fetch_ahead(state, k, last);
    const Call& call = calls_[k];
    Tensor* arguments = state.arguments.data() + call.first;
    if (const int part = plan_.steps[k].part; part >= 0 && !left_out.empty() && left_out[part]) {
      for (Tensor& t : std::span(arguments + call.inputs, call.outputs)) fill_zeros(t);
      continue;
    }
    const Clock::time_point start = times ? Clock::now() : Clock::time_point();
    run_prepared(call.prepared, {arguments, call.inputs}, {arguments + call.inputs, call.outputs});
    if (times) (*times)[k] = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
}

std::vector<double> PlanRunner::step_microseconds() const {
  const std::lock_guard lock(mutex_);
  return step_microseconds_;
}

// Fresh memory for those of `results` that steps in [first, last) define and that have none yet.
static void bind_outputs(const std::vector<int>& results, Device device, Binder& binder, int first, int last) {
  for (int i : results) {
    const Slot& slot = binder.plan.slots[i];
    if (slot.first_step >= first && slot.first_step < last && !binder.tensors[i].defined())
      binder.bind_root(i, make_tensor(slot.shape, slot.dtype, device));
  }
}

// A value of a slot's shape in the memory of another tensor; null where the memory is too small or not aligned for it.
static Tensor placed_in(const Tensor& destination, const Slot& slot) {
  const detail::TensorImpl& d = impl_of(destination);
  const int64_t width = dtype_bytes(slot.dtype);
  if (slot.shape.elements() * width > d.shape.elements() * dtype_bytes(d.dtype) || reinterpret_cast<uintptr_t>(d.data) % width != 0)
    return {};
  Tensor t = make_shape_only(slot.shape, slot.dtype, d.device);
  impl_of(t).storage = d.storage;
  impl_of(t).data = d.data;
  return t;
}

Tensors PlanRunner::Run::forward(std::span<const Tensor> variables, int num_outputs, std::span<const Tensor> destinations) {
  const Plan& plan = runner_.plan_;
  State& s = *state_;
  Binder binder{plan, s.tensors, s.arguments, runner_.first_place_, runner_.places_, runner_.views_};
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].defined()) binder.bind_root(plan.variables[i], variables[i]);
  for (size_t i = 0; i < plan.derived.size(); ++i)
    if (const Derived& d = plan.derived[i]; !is_current(plan, d, s.stamps[i]))
      binder.bind_root(d.slot, runner_.derived_[i]->current(plan, d, s.stamps[i]));
  for (size_t i = 0; i < destinations.size(); ++i) {
    const int slot = plan.outputs[i];
    const Slot& wanted = plan.slots[slot];
    if (!destinations[i].defined() || wanted.kind != Slot::Kind::output || wanted.root != slot || s.tensors[slot].defined()) continue;
    if (const Tensor t = placed_in(destinations[i], wanted); t.defined()) binder.bind_root(slot, t);
  }
  bind_outputs(runner_.results_, runner_.device_, binder, 0, plan.forward_steps);
  constexpr int kTimedRuns = 2;  // the first one touches new memory, the second is like the others
  if (runner_.runs_.load(std::memory_order_relaxed) < kTimedRuns && runner_.runs_.fetch_add(1, std::memory_order_relaxed) < kTimedRuns) {
    std::vector<double> times(plan.steps.size(), 0.0);
    runner_.run_steps(s, 0, plan.forward_steps, {}, &times);
    const std::lock_guard lock(runner_.mutex_);
    runner_.step_microseconds_ = std::move(times);
  } else {
    runner_.run_steps(s, 0, plan.forward_steps, {}, nullptr);
  }
  Tensors out;
  for (int i = 0; i < num_outputs; ++i) out.push_back(s.tensors[plan.outputs[i]]);
  return out;
}

Tensors PlanRunner::Run::backward(std::span<const Tensor> heads, const std::vector<bool>& given, int first, int first_output, bool retain,
                                  std::span<const Tensor> destinations, const std::function<void(size_t)>& ready) {
  const Plan& plan = runner_.plan_;
  State& s = *state_;
  if (retain) s.saved.assign(s.arena, static_cast<size_t>(plan.arena_bytes));
  Binder binder{plan, s.tensors, s.arguments, runner_.first_place_, runner_.places_, runner_.views_};
  for (size_t i = 0; i < heads.size(); ++i) {
    const int slot = plan.variables[first + i];
    binder.bind_root(slot, heads[i]);
  }
  for (int i : runner_.results_)  // what an earlier backward pass has given belongs to whoever asked for it
    if (plan.slots[i].first_step >= plan.forward_steps && s.tensors[i].defined()) binder.bind_root(i, Tensor());
  const int steps = static_cast<int>(plan.steps.size());
  std::vector<std::pair<int, size_t>> told;  // after which step which output is whole
  for (size_t i = 0; i < destinations.size(); ++i) {
    const int slot = plan.outputs[first_output + i];
    const Slot& wanted = plan.slots[slot];
    const bool fits =
        destinations[i].defined() && wanted.kind == Slot::Kind::output && wanted.root == slot && wanted.first_step >= plan.forward_steps;
    if (!fits) continue;
    binder.bind_root(slot, make_view(destinations[i], wanted.shape, 0));
    if (ready) told.emplace_back(runner_.last_use_[slot], i);
  }
  std::stable_sort(told.begin(), told.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  bind_outputs(runner_.results_, runner_.device_, binder, plan.forward_steps, steps);
  const std::vector<bool> left_out = runner_.left_out(given);
  int next = plan.forward_steps;
  for (const auto& [last_step, output] : told) {
    runner_.run_steps(s, next, last_step + 1, left_out, nullptr);
    next = std::max(next, last_step + 1);
    ready(output);
  }
  runner_.run_steps(s, next, steps, left_out, nullptr);
  Tensors out;
  for (size_t i = static_cast<size_t>(first_output); i < plan.outputs.size(); ++i) out.push_back(s.tensors[plan.outputs[i]]);
  if (retain && plan.arena_bytes > 0) std::memcpy(s.arena, s.saved.data(), s.saved.size());
  return out;
}

}  // namespace gluino
