// Symbolic Tensors: how calls on them become nodes, and what a trace learns while user code runs.
#pragma once
#include <map>

#include "graph/graph.h"

namespace gluino {

Value value_of(const Tensor& symbolic);  // raises UserError for a concrete tensor
Tensor tensor_of(const Value& value);    // without known shape
Tensor tensor_of(const Value& value, const Shape& shape, DType dtype, Device device);

// The next call that this thread records gets this name: for front ends that name operators by rules of their own.
void name_next_call(std::string name);

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
};

// While one lives, operators are recorded instead of run.
class Tracer {
 public:
  // A concrete tensor that traced code updated in place; it gets its memory back when the trace ends.
  struct Rebound {
    Tensor tensor;
    Ref<Storage> storage;
    char* data;
    Ref<AutogradEntry> autograd;
  };

  // User code looked at an extent of a value; axis -1: at all of them.
  struct ShapeRead {
    Value value;
    int axis;
    Shape shape;  // as it was in this trace
    bool operator==(const ShapeRead&) const = default;
  };

  Tracer();
  virtual ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  static Tracer* current();

  Tensor add_input(const std::string& name, const Shape& shape, DType dtype, Device device);
  // A concrete tensor met in a traced call: its node, made at the first meeting. Its value is read at each run.
  Value capture(const Tensor& concrete);
  const std::vector<std::pair<Tensor, Value>>& captured() const { return captured_; }
  void on_shape_read(const Value& value, int axis, const Shape& shape);
  const std::vector<ShapeRead>& shape_reads() const { return shape_reads_; }
  const std::vector<Value>& calls() const { return calls_; }  // every recorded call, in order
  void on_call(const Value& call) { calls_.push_back(call); }
  virtual void on_use(const Tensor&) {}  // a symbolic tensor is an input of a call
  void on_rebind(const Tensor& target);
  // The rebound tensors with their final values; afterwards they are concrete again.
  std::vector<std::pair<Tensor, Value>> end_rebinding();
  void restore_rebound();
  // A call whose output shapes depend on values: a tracer that can run it now returns its results.
  virtual Tensors run_dynamic(const Value& call);

  // User code needs a number. The default explains that a graph has none.
  virtual Tensor read_value(const Tensor& symbolic);
  virtual std::string name_for(const Tensor& concrete);
  virtual std::string name_for_call(const OpDef& op);

 protected:
  Tracer* previous() const { return previous_; }  // that of the program around this one

 private:
  Tracer* previous_;
  bool previous_tracing_;
  std::vector<std::pair<Tensor, Value>> captured_;
  std::vector<ShapeRead> shape_reads_;
  std::vector<Value> calls_;
  std::vector<Rebound> rebound_;
};

}  // namespace gluino
