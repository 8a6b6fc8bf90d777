// Symbolic Tensors: how calls on them become nodes, and what a trace learns while user code runs.
#pragma once
#include <map>

#include "graph/graph.h"

namespace gluino {

Value value_of(const Tensor& symbolic);  // raises UserError for a concrete tensor
Tensor tensor_of(const Value& value);    // without known shape
Tensor tensor_of(const Value& value, const Shape& shape, DType dtype, Device device);

// While one lives, operators on its symbolic Tensors, and operators without inputs, are recorded instead of run.
class Tracer {
 public:
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
  void record_order(const Value& value) { calls_.push_back(value); }
  const std::vector<Value>& calls() const { return calls_; }  // every recorded call, in order

  // User code needs a number. The default explains that a graph has none.
  virtual Tensor read_value(const Tensor& symbolic);
  virtual std::string name_for(const Tensor& concrete);
  virtual std::string name_for_call(const OpDef& op);

 private:
  Tracer* previous_;
  bool previous_tracing_;
  std::vector<std::pair<Tensor, Value>> captured_;
  std::vector<ShapeRead> shape_reads_;
  std::vector<Value> calls_;
};

}  // namespace gluino
