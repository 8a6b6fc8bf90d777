#include "exec/trace_program.h"

#include <set>
#include <unordered_map>
#include <unordered_set>

#include "autograd/tape.h"
#include "base/format.h"
#include "dispatch/compiler_rules.h"
#include "dispatch/mode.h"
#include "dispatch/random.h"
#include "dispatch/recording_as.h"
#include "exec/trace_results.h"
#include "gluino/autograd.h"

namespace gluino {
namespace {

Tensor snapshot(const Tensor& t) {
  const PauseTracing pause;
  const autograd::Scope scope(false, std::nullopt);
  return t.copy();
}

class ProgramTracer final : public Tracer {
 public:
  ProgramTracer(const Tensors& inputs, const HybridCache::NameOf& name_of, bool strict, std::vector<Tensors> memo)
      : inputs_(inputs), name_of_(name_of), strict_(strict), memo_(std::move(memo)) {
    const std::vector<std::string> names = input_names(inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t first = inputs[i].defined() ? first_inputs_.try_emplace(key(inputs[i]), i).first->second : i;
      if (!inputs[i].defined() || first < i) {
        symbolic_.push_back(inputs[i].defined() ? symbolic_[first] : Tensor());
        continue;
      }
      const detail::TensorImpl& t = impl_of(inputs[i]);
      symbolic_.push_back(add_input(names[i], t.shape, t.dtype, t.device));
      if (autograd::is_on_tape(inputs[i])) impl_of(symbolic_.back()).autograd = t.autograd;
      places_[value_of(symbolic_.back()).node.get()] = {TracedValue::Kind::input, static_cast<int>(i)};
    }
  }
  const Tensors& symbolic() const { return symbolic_; }

  std::string name_for(const Tensor& concrete) override {
    std::string name = name_of_ ? name_of_(concrete) : "";
    if (name.empty()) name = fmt::format("captured{}", captured().size());
    return name;
  }
  std::string name_for_call(const OpDef& op) override {
    std::string hint;
    for (char c : op.name) hint += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    while (hint.starts_with('_')) hint.erase(0, 1);
    return fmt::format("{}{}", hint, counters_[hint]++);
  }
  // Of the thread, whatever the mode outside: grad() in traced code asks.
  CallMode mode_for_call() const override {
    CallMode m = Tracer::mode_for_call();
    m.is_paused = !mode().recording;
    if (asked_modes().training) m.training = mode().training;
    const auto next = static_cast<int>(calls().size());
    if (asked_modes().pause)
      paused_inside_.insert(next);
    else
      paused_inside_.erase(next);
    return m;
  }
  Tensors inputs_on_tape() const override {
    Tensors found;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].defined() && autograd::is_on_tape(inputs_[i])) found.push_back(symbolic_[i]);
    return found;
  }
  std::optional<Value> input_for(const Tensor& concrete) override {
    const auto known = first_inputs_.find(key(concrete));
    if (known == first_inputs_.end()) return {};
    captured_inputs_[static_cast<int>(known->second)] = concrete;
    return value_of(symbolic_[known->second]);
  }
  bool has_run_updates() const override {
    return std::any_of(calls().begin(), calls().begin() + static_cast<ptrdiff_t>(std::min(memo_.size(), calls().size())),
                       [](const Value& c) { return c.node->may_update_states(); });
  }
  void give_up() {
    for (auto it = undo_.rbegin(); it != undo_.rend(); ++it) (*it)();
    undo_.clear();
    mode().recording = mode_at_start().recording;
    mode().training = mode_at_start().training;
  }
  bool is_program() const override { return !strict_; }
  void refuse(const std::string& why) override { throw Untraceable(why); }
  std::optional<Device> device_of_program() const override { return device_; }
  // Only this thread's calls are seen.
  void on_use(const Tensor& t) override {
    if (is_made_elsewhere(value_of(t).node.get())) refuse("it calls operators in another thread");
  }
  void on_setting(std::shared_ptr<const detail::SettingState> setting) override {
    if (!known_settings_.insert(setting.get()).second) return;
    settings_.push_back({setting, setting->key()});
  }

  std::string why_not_a_program(const Tensors& results) override {
    const Mode& before = mode_at_start();
    if (mode().recording != before.recording || mode().training != before.training) return "it leaves another mode of autograd behind";
    for (const Tensor& t : results)
      if (t.defined() && t.is_symbolic() && is_made_elsewhere(value_of(t).node.get())) return "it calls operators in another thread";
    for (const Tensor& t : attached())
      if (is_argument(t)) {
        impl_of(t).autograd = nullptr;  // which holds a tensor of the trace
        return "it gives an argument a gradient";
      }
    if (flows_to_leaves_inside(results)) return "what it gives flows back to a tensor that it has given a gradient itself";
    return TraceResults::why_not(*this, results);
  }
  // Eager code writes their gradients, and the tape has one call alone for a program.
  bool flows_to_leaves_inside(const Tensors& results) const {
    if (!mode_at_start().recording || attached().empty()) return false;
    std::unordered_set<const GraphNode*> reached;
    for (const Tensor& t : attached()) reached.insert(value_of(t).node.get());
    for (const Value& c : calls())
      if (!c.node->mode.is_paused && std::ranges::any_of(c.node->inputs, [&](const Value& v) { return reached.contains(v.node.get()); }))
        reached.insert(c.node.get());
    return std::ranges::any_of(results,
                               [&](const Tensor& t) { return t.defined() && t.is_symbolic() && reached.contains(value_of(t).node.get()); });
  }

  Tensor read_value(const Tensor& symbolic) override {
    const Value v = value_of(symbolic);
    if (strict_)
      raise<NotInATrace>(
          "the value of '{}' is read while the function is being traced, and strict was asked for; keep the decision in the graph "
          "with where, cond, foreach or while_loop, or hybridize without strict",
          output_name(v.node->op, v.node->attrs, v.node->name, v.index));
    run_pending();
    const TracedValue place = locate(v);
    Tensor value = concrete(place);
    reads_.push_back({static_cast<int>(calls().size()), place, snapshot(value), false});
    return value;
  }
  Tensors run_dynamic(const Value& call) override {
    if (strict_)
      raise<NotInATrace>("{}: the shape of its result depends on values, which a strict trace cannot express", call.node->op->name);
    run_pending();
    const TracedValue place = locate(call);
    Tensors results = memo_[place.index];
    reads_.push_back({static_cast<int>(calls().size()), place, snapshot(results[0]), true});
    return results;
  }

  // It fails where it stands, before what user code does next. A call that failed is none, and with other values user code would not
  // have come this way.
  void check_last_call() override {
    if (has_rebound_views()) refuse("it updates a view of a tensor from outside, and then calls an operator that refuses some values");
    try {
      run_pending();
    } catch (...) {
      if (memo_.size() + 1 == calls().size()) {
        places_.erase(calls().back().node.get());
        drop_last_call();
        indexed_ = std::min(indexed_, calls().size());
        has_failed_ = true;
      }
      throw;
    }
  }

  // With an error of user code: what it did before is done now, as in eager code.
  Trace finish(HybridCache::Result returned, std::exception_ptr error = {}) {
    Trace t;
    t.error = std::move(error);
    collect(std::move(returned), t);
    return run_and_close(std::move(t));
  }
  // With an error of ours. Nothing has happened yet: the function can run as it is, and does better, or fails by itself. Nothing is
  // given then.
  std::optional<Trace> finish_failed(std::exception_ptr error) {
    Trace t;
    t.error = std::move(error);
    collect({}, t);
    if (!strict_ && memo_.empty() && t.ending.escaped.empty()) return {};
    return run_and_close(std::move(t));
  }
  // User code has caught an error: with other values or shapes there would have been none.
  void note_caught_error() { has_failed_ = true; }
  // The function is to run as it is, from the start. That cannot be where it has put tensors of the trace somewhere; then it ends here,
  // with an error.
  std::optional<Trace> finish_refused(const Untraceable& why) {
    Trace t;
    actions_.clear();  // which hold tensors
    collect({}, t);
    if (why.is_undone() || t.ending.escaped.empty()) return {};
    t.error = std::make_exception_ptr(NotInATrace(fmt::format(
        "the function binds a variable from outside to another tensor, and then cannot be compiled because {}: it cannot be made "
        "to run again from the start; use assign() instead, or do not hybridize it",
        why.what())));
    return run_and_close(std::move(t));
  }

 private:
  bool is_argument(const Tensor& symbolic) const {
    return std::ranges::any_of(symbolic_, [&](const Tensor& s) { return s.defined() && s.is_same(symbolic); });
  }
  void collect(HybridCache::Result returned, Trace& t) {
    t.reads = reads_;
    t.settings = settings_;
    t.ending.rest = std::move(returned.rest);
    t.ending.actions = std::move(actions_);
    TraceResults(*this, symbolic_, inputs_, [this](const Value& v) { return locate(v); }).put(std::move(returned.tensors), t.ending);
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].defined() && first_inputs_.at(key(inputs_[i])) == i)
        add_write_back(t, {TracedValue::Kind::input, static_cast<int>(i)}, value_of(symbolic_[i]));
    std::unordered_map<Key, TracedValue> targets;
    for (size_t i = 0; i < symbolic_.size(); ++i)
      if (symbolic_[i].defined()) targets.try_emplace(key(symbolic_[i]), TracedValue{TracedValue::Kind::input, static_cast<int>(i)});
    for (auto& [tensor, value] : end_rebinding()) {
      const TracedValue target = locate(capture(tensor));
      targets.try_emplace(key(tensor), target);
      add_write_back(t, target, value);
    }
    for (const Update& u : updates())
      if (const auto target = targets.find(u.tensor); target != targets.end())
        t.updates.push_back({write_back(target->second, u.value), u.calls_before, u.is_recorded});
    add_escaped(t);
    add_calls(t);
    for (const ShapeRead& r : shape_reads())
      t.guards.push_back({locate(r.value), r.axis, r.shape, r.like ? std::optional(locate(*r.like)) : std::nullopt});
  }
  Trace run_and_close(Trace t) {
    {
      const PauseTracing pause;  // views among them follow their bases in memory
      for (const auto& [tensor, value] : captured()) {
        // What user code made and keeps it may change; the next call would have made another.
        const bool may_be_kept = !t.ending.escaped.empty() || tensor.impl()->use_count() > 2 || impl_of(tensor).storage->use_count() > 1;
        const bool is_copied = impl_of(tensor).is_made_in_trace() && may_be_kept;
        t.captured.push_back(CapturedTensor::of(is_copied ? autograd::in_memory_of_its_own(tensor) : tensor));
        t.captured.back()->follow();
        t.captured_names.push_back(value.node->name);
      }
    }
    for (const auto& [i, tensor] : captured_inputs_) t.captured_inputs.emplace_back(i, CapturedTensor::of(tensor));
    t.serves_once = has_failed_;
    t.has_run = must_run(t);
    if (t.has_run) {
      try {
        run_pending();
      } catch (...) {  // before what user code saw
        t.error = std::current_exception();
        t.ending = t.ending_before(static_cast<int>(memo_.size()));
      }
      for (const TracedValue& v : t.ending.values()) t.values.push_back(concrete(v));
      t.memo = memo_;
    }
    return t;
  }

  // Whether the calls of this trace are this call's run. Else its program makes them, all of them again.
  bool must_run(const Trace& t) const {
    if (!reads_.empty() || t.error || has_failed_ || !t.ending.escaped.empty() || replayed_ > 0) return true;
    const auto draws = [](const Value& c) { return c.node->op->draws_random(c.node->attrs); };
    if (!initialised_.empty() && std::any_of(calls().begin(), calls().end(), draws)) return true;  // in the order of eager code
    return std::any_of(calls().begin(), calls().begin() + static_cast<ptrdiff_t>(memo_.size()), [&](const Value& c) {
      return draws(c) || c.node->may_update_states() || rules_of(c.node->op).has_effect || c.node->op->has_subgraphs();
    });
  }

  using Key = const detail::TensorImpl*;  // of a tensor that somebody here holds
  static Key key(const Tensor& t) { return t.impl().get(); }

  bool owns_what_is_made() const override { return true; }
  // A tensor from outside whose value user code looks at decides as an input's does.
  void read_concrete(const Tensor& t) override {
    for (; indexed_results_ < memo_.size(); ++indexed_results_)
      for (const Tensor& r : memo_[indexed_results_]) results_.insert(key(r));
    if (results_.contains(key(t))) return;  // what a read gave is known already
    const Value v = capture(t);
    run_pending();
    const TracedValue place = locate(v);
    for (size_t k = reads_.size(); k-- > 0 && reads_[k].calls_before == static_cast<int>(calls().size());)
      if (reads_[k].value == place) return;
    reads_.push_back({static_cast<int>(calls().size()), place, snapshot(t), false});
  }

  Ending::WriteBack write_back(TracedValue target, const Value& value) {
    const OpDef* op = value.node->op;
    return {target, locate(value), op && !value.node->mode.is_paused, autograd::is_overwrite(op)};
  }
  void add_write_back(Trace& t, TracedValue target, const Value& value) {
    if (!(locate(value) == target)) t.ending.write_backs.push_back(write_back(target, value));
  }
  // Symbolic tensors that user code has put somewhere.
  void add_escaped(Trace& t) {
    std::unordered_map<Key, int> given;  // how often a tensor stands among the inputs
    for (const Tensor& s : symbolic_)
      if (s.defined()) ++given[key(s)];
    for (const Tensor& e : escaped()) {
      const auto found = given.find(key(e));
      const int own = 1 + (found == given.end() ? 0 : found->second);
      if (e.is_symbolic() && e.impl()->use_count() > own) {
        const bool is_made = impl_of(e).is_made_in_trace();
        t.ending.escaped.push_back({is_made ? e : Tensor(), is_made ? nullptr : CapturedTensor::of(e), locate(value_of(e))});
      }
    }
    symbolic_.clear();
  }

  // ---- calls and values by their places

  void add_calls(Trace& t) {
    for (const Value& c : calls()) {
      // A write under pause() is one whatever its caller records.
      t.records |= !c.node->mode.is_paused && (mode_at_start().recording || !autograd::is_overwrite(c.node->op));
      t.calls.push_back(renamed<TracedValue>(*c.node, [this](const Value& v) { return locate(v); }));
    }
    t.paused_inside = paused_inside_;
  }
  TracedValue locate(const Value& v) {
    index_new_calls();
    TracedValue place;
    if (v.node->constant.defined() && !v.node->op) {
      for (; indexed_captured_ < captured().size(); ++indexed_captured_)
        places_[captured()[indexed_captured_].second.node.get()] = {TracedValue::Kind::captured, static_cast<int>(indexed_captured_)};
    }
    const auto it = places_.find(v.node.get());
    if (it == places_.end())
      raise<NotInATrace>(
          "'{}' was computed in an earlier trace, or inside the body of foreach, while_loop or cond, and is used outside; let the body "
          "return it",
          v.node->name);
    place = it->second;
    place.output = v.index;
    return place;
  }
  // From values of this trace, though not among its calls.
  bool is_made_elsewhere(const GraphNode* node) {
    index_new_calls();
    const auto is_known = [&](const Value& v) { return places_.contains(v.node.get()); };
    return node->op && !places_.contains(node) &&
           std::ranges::any_of(node->inputs, [&](const Value& v) { return is_known(v) || is_made_elsewhere(v.node.get()); });
  }
  void index_new_calls() {
    for (; indexed_ < calls().size(); ++indexed_)
      places_[calls()[indexed_].node.get()] = {TracedValue::Kind::call, static_cast<int>(indexed_)};
  }
  Tensor concrete(const TracedValue& v) const {
    switch (v.kind) {
      case TracedValue::Kind::input: return inputs_[v.index];
      case TracedValue::Kind::captured: return before_rebinding(captured()[v.index].first);
      case TracedValue::Kind::call: break;
    }
    return memo_[v.index][v.output];
  }
  // Runs, exactly once each and in order, the calls recorded so far. Parameters that were initialised meanwhile are initialised again
  // between them, so that random numbers are drawn in the order of eager code.
  void run_pending() {
    const PauseTracing pause;
    const DeviceScope scope_of_program(device_);
    std::optional<ReplayRandom> random;
    const bool replays = replayed_ < initialised_.size();
    if (replays) random.emplace(device_, next_stream_);
    std::exception_ptr error;
    try {
      while (memo_.size() < calls().size()) {
        initialise_before(memo_.size());
        const GraphNode& node = *calls()[memo_.size()].node;
        const autograd::Scope scope(!node.mode.is_paused, node.mode.training.value_or(mode_at_start().training));
        std::vector<TracedValue> places;
        Tensors in;
        for (const Value& v : node.inputs) in.push_back(concrete(places.emplace_back(locate(v))));
        memo_.push_back(run_call(*node.op, node.attrs, places, std::move(in)));
      }
      initialise_before(memo_.size());
    } catch (...) {
      error = std::current_exception();
    }
    next_stream_ = replays ? random->next() : peek_random_stream(device_);
    random.reset();
    if (replays) advance_random_stream(device_, next_stream_);
    if (error) std::rethrow_exception(error);
  }
  void initialise_before(size_t call) {
    for (; replayed_ < initialised_.size() && initialised_[replayed_].calls_before <= static_cast<int>(call); ++replayed_)
      initialised_[replayed_].again();
  }

  const Tensors& inputs_;
  const Device device_ = current_device();  // of the program; user code may ask for another
  const HybridCache::NameOf& name_of_;
  bool strict_;
  // What is asked for outside of the function is none of its own.
  struct ForgetAskedModes {
    const AskedModes before = std::exchange(asked_modes(), {});
    ForgetAskedModes() = default;
    ~ForgetAskedModes() { asked_modes() = before; }
    ForgetAskedModes(const ForgetAskedModes&) = delete;
    ForgetAskedModes& operator=(const ForgetAskedModes&) = delete;
  } forget_asked_modes_;
  mutable std::set<int> paused_inside_;  // calls
  bool has_failed_ = false;              // a call that user code made, in this trace
  std::vector<Tensors> memo_;
  Tensors symbolic_;
  std::unordered_map<Key, size_t> first_inputs_;  // of the inputs that are not null: the first that is this tensor
  std::unordered_map<const GraphNode*, TracedValue> places_;
  std::unordered_set<Key> results_;  // of the calls that have run
  size_t indexed_ = 0, indexed_captured_ = 0, indexed_results_ = 0, replayed_ = 0;
  RandomStream next_stream_ = peek_random_stream(device_);  // that eager code would draw from next
  std::vector<TracedRead> reads_;
  std::vector<SettingRead> settings_;
  std::unordered_set<const detail::SettingState*> known_settings_;
  std::map<int, Tensor> captured_inputs_;
  std::map<std::string, int> counters_;
};

}  // namespace

Trace trace(const HybridCache::Function& function, const Tensors& inputs, const HybridCache::NameOf& name_of, bool strict,
            std::vector<Tensors> memo) {
  ProgramTracer tracer(inputs, name_of, strict, std::move(memo));
  try {
    const uint64_t reads_before = autograd::count_mode_reads();
    HybridCache::Result result = function(tracer.symbolic());
    const bool reads_mode = autograd::count_mode_reads() != reads_before;
    if (tracer.failed_calls > 0) tracer.note_caught_error();
    if (const std::string why = tracer.why_not_a_program(result.tensors); !why.empty()) throw Untraceable(why);
    Trace t = tracer.finish(std::move(result));
    t.reads_mode = reads_mode;
    if (tracer.looks_at_tape()) t.tape_places = TapePlaces::of(inputs, t.captured);
    return t;
  } catch (const Untraceable& e) {
    if (auto ended = tracer.finish_refused(e)) return *std::move(ended);
    tracer.give_up();
    throw;
  } catch (const NotInATrace&) {
    tracer.give_up();
    throw;
  } catch (const InternalError&) {
    return tracer.finish({}, std::current_exception());
  } catch (const Error& e) {
    if (auto ended = tracer.finish_failed(std::current_exception())) return *std::move(ended);
    tracer.give_up();
    throw Untraceable(e.what(), Untraceable::Lasts::no, Untraceable::Undone::yes);
  } catch (...) {
    return tracer.finish({}, std::current_exception());
  }
}

}  // namespace gluino
