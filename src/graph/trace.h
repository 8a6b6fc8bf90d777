// Symbolic Tensors: how calls on them become nodes, and what a trace learns while user code runs.
#pragma once
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "gluino/setting.h"
#include "graph/graph.h"

namespace gluino {

Value value_of(const Tensor& symbolic);  // raises UserError for a concrete tensor
Tensor tensor_of(const Value& value);    // without known shape
Tensor tensor_of(const Value& value, const Shape& shape, DType dtype, Device device);

// The next call that this thread records gets this name: for front ends that name operators by rules of their own.
void name_next_call(std::string name);

// Symbolic calls made meanwhile are of this part of a backward pass.
class [[nodiscard]] MakesNodesOfPart {
 public:
  explicit MakesNodesOfPart(int part);
  ~MakesNodesOfPart();
  MakesNodesOfPart(const MakesNodesOfPart&) = delete;
  MakesNodesOfPart& operator=(const MakesNodesOfPart&) = delete;

 private:
  int before_;
};

// Operators run for real while it lives, even inside a trace.
class [[nodiscard]] PauseTracing {
 public:
  PauseTracing();
  ~PauseTracing();
  PauseTracing(const PauseTracing&) = delete;
  PauseTracing& operator=(const PauseTracing&) = delete;

 private:
  class Tracer* tracer_;
  bool tracing_;
  TraceWatch* watch_;
};

// After which numbers of steps something holds: `from`, and every so many more; 0: never again.
struct StepsWhen {
  int64_t from = 0, every = 0;
  bool holds(int64_t steps) const { return every == 0 ? steps == from : steps >= from && (steps - from) % every == 0; }
};

// While one lives, operators are recorded instead of run.
class Tracer : private TraceWatch {
 public:
  // A concrete tensor that traced code updated in place; it gets its memory back when the trace ends.
  struct Rebound {
    Tensor tensor;
    Ref<Storage> storage;
    char* data;
    Ref<AutogradEntry> autograd;
  };

  // In-place updates in their order. The tensor may be gone, unless it is an input or one from outside.
  struct Update {
    const detail::TensorImpl* tensor;
    Value value;
    int calls_before;
    bool is_recorded;  // not under pause()
  };
  // backward() or grad() was called: what happens depends on where inputs and captured tensors are on the tape.
  bool looks_at_tape() const { return looks_at_tape_; }
  void note_look_at_tape() {
    for (Tracer* t = this; t; t = t->previous_) t->looks_at_tape_ = true;
  }
  const std::vector<Update>& updates() const { return updates_; }

  // User code looked at an extent of a value; axis -1: at all of them. Or the value must have the shape of another one, which takes it.
  struct ShapeRead {
    Value value;
    int axis;
    Shape shape;  // as it was in this trace
    std::optional<Value> like;
  };

  Tracer();
  ~Tracer() override;
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  static Tracer* current();
  Tracer& outermost() { return previous_ ? previous_->outermost() : *this; }

  Tensor add_input(const std::string& name, const Shape& shape, DType dtype, Device device);
  // A concrete tensor met in a traced call: its node, made at the first meeting. Its value is read at each run.
  Value capture(const Tensor& concrete);
  const std::vector<std::pair<Tensor, Value>>& captured() const { return captured_; }
  std::optional<size_t> place_in_captured(const Tensor& concrete) const;
  const Tensors& attached() const { return attached_; }  // symbolic tensors that traced code gave a gradient
  void on_attach_grad(const Tensor& symbolic) { attached_.push_back(symbolic); }
  void on_symbolic(const Tensor& t) { symbolic_tensors_.push_back(t); }
  void after_each_run(std::function<void()> action) { actions_.push_back(std::move(action)); }
  // Something that a first run does at this point and that changes what it computes: a parameter is initialised.
  // `device`: whose numbers it draws.
  void on_initialised(Device device, std::function<void()> again) {
    if (device_of_program().value_or(device) != device) return;  // no call of the program draws these
    initialised_.push_back({static_cast<int>(calls_.size()), std::move(again)});
  }
  // Undoes something where the trace is given up, because eager code is to do it in its own order.
  void on_given_up(std::function<void()> undo) { undo_.push_back(std::move(undo)); }
  void on_shape_read(const Value& value, int axis, const Shape& shape);
  void on_shape_needed(const Value& value, const Tensor& target);  // which is about to take it
  const std::vector<ShapeRead>& shape_reads() const { return shape_reads_; }
  const std::vector<Value>& calls() const { return calls_; }  // every recorded call, in order
  void on_call(const Value& call) { calls_.push_back(call); }
  int failed_calls = 0;  // of the outermost: calls that the rules of their operators refused, whether or not user code has caught that
  virtual void check_last_call() {}  // it may refuse the values that it is given
  // Whether what the function has done and gives is more than a program can do; asked before anything of it is taken for done. Empty: no.
  virtual std::string why_not_a_program(const Tensors&) { return ""; }
  virtual bool has_run_updates() const { return false; }  // of a layer's state, because a value was read: they must not be made again
  virtual void on_use(const Tensor&) {}                   // a symbolic tensor is an input of a call
  virtual void before_update(const Tensor&) {}            // in place; it may raise an error instead
  // What a branch or loop gives, a value of its own in the graph, may in eager code be a tensor that it was given or found, or a view of
  // it.
  struct PossibleAlias {
    Tensor root;   // that tensor, or what it is a view of
    Tensor other;  // that tensor; null where it is a view of the body's own, or where it takes more than the number of steps to tell
    Value steps;   // the hidden output that has their number; of a branch: 1 when the first one ran
    StepsWhen when;
  };
  // is_likely: so that an update of either is not compiled.
  void on_possible_alias(const Tensor& result, PossibleAlias alias, bool is_likely = true);
  bool has_possible_alias(const Tensor& t) const;
  bool has_possible_aliases() const { return !possible_aliases_.empty(); }
  std::span<const PossibleAlias> possible_aliases(const Tensor& result) const;
  void on_rebind(const Tensor& target);
  // The rebound tensors with their final values; afterwards they are concrete again.
  std::vector<std::pair<Tensor, Value>> end_rebinding();
  void restore_rebound();
  bool has_rebound_views() const;                         // a view from outside has a value of the trace
  Tensor before_rebinding(const Tensor& concrete) const;  // with the memory that it had
  // A call whose output shapes depend on values: a tracer that can run it now returns its results.
  virtual Tensors run_dynamic(const Value& call);

  // User code needs a number. The default explains that a graph has none.
  virtual Tensor read_value(const Tensor& symbolic);
  virtual std::string name_for(const Tensor& concrete);
  virtual std::string name_for_call(const OpDef& op);
  virtual CallMode mode_for_call() const;                // how the mode now differs from that of the trace
  virtual Tensors inputs_on_tape() const { return {}; }  // inputs whose tensors at the call are on the tape
  virtual bool is_program() const { return false; }      // what it gives is to be what eager code gives, and it may read values for that
  // Something is done that a program could not repeat.
  virtual void refuse(const std::string&) {}
  virtual std::optional<Device> device_of_program() const { return {}; }  // of the outermost; user code may have asked for another
  virtual void on_setting(std::shared_ptr<const detail::SettingState>) {}
  virtual std::optional<Value> input_for(const Tensor&) { return {}; }  // a concrete tensor that is an input of the trace

  struct Initialised {
    int calls_before;
    std::function<void()> again;
  };

 protected:
  Tracer* previous() const { return previous_; }  // that of the program around this one
  const Mode& mode_at_start() const { return mode_at_start_; }
  void drop_last_call() { calls_.pop_back(); }
  // Symbolic tensors that somebody holds beside this trace, once user code has returned.
  Tensors escaped();
  std::vector<std::function<void()>> actions_, undo_;
  std::vector<Initialised> initialised_;

 private:
  Tracer* previous_;
  void on_value_read(const Tensor& concrete) override { read_concrete(concrete); }
  void on_memory_write(const Tensor& concrete) override;
  void on_symbolic_refresh(const Tensor& view) override;
  void on_symbolic_rebind(const detail::TensorImpl& t, const SymbolicValue& value) override;
  virtual void read_concrete(const Tensor&) {}
  // Whether tensors that are made while this tracer works are its function's: a body may find those of the function around it.
  virtual bool owns_what_is_made() const { return false; }
  void keep_captured(const Tensor& made);
  bool follows_rebound_base(const Tensor& t) const;

  Mode mode_at_start_;
  TraceWatch* previous_watch_;
  std::vector<std::pair<Tensor, Value>> captured_;
  std::unordered_map<const detail::TensorImpl*, size_t> captured_places_;  // in captured_, which keeps the keys alive
  std::unordered_set<const detail::TensorImpl*> released_views_;           // of captured_: their bases were released, so they are values
  bool looks_at_tape_ = false;
  Tensors attached_, symbolic_tensors_;
  std::vector<ShapeRead> shape_reads_;
  std::set<std::tuple<const GraphNode*, int, int>> known_shape_reads_;  // node, output, axis
  std::vector<Value> calls_;
  std::vector<Update> updates_;
  std::unordered_map<const detail::TensorImpl*, std::vector<PossibleAlias>> possible_aliases_;  // by result
  std::unordered_set<const detail::TensorImpl*> not_to_update_;                                 // likely ones and their roots
  std::vector<Rebound> rebound_;
  std::vector<Rebound> refreshed_;  // views of such tensors: they follow them, and are not written back
  std::unordered_map<const detail::TensorImpl*, size_t> rebound_places_;  // the first of each tensor
};

}  // namespace gluino
