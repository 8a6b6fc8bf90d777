// What a trace of a user's function leaves behind: a graph when it is one, a tree of segments when it reads values.
#pragma once
#include <functional>

#include "exec/pipeline.h"
#include "gluino/hybrid.h"
#include "graph/trace.h"

namespace gluino {

// A value of a traced program by its place: input k, captured tensor k, or output `output` of call k.
struct TracedValue {
  enum class Kind : uint8_t { input, captured, call } kind;
  int index, output = 0;
  bool operator==(const TracedValue&) const = default;
};
struct TracedCall {
  const OpDef* op;
  Attrs attrs;
  std::string name;
  std::vector<TracedValue> inputs;
};
struct TracedRead {
  int calls_before;  // made when user code asked
  TracedValue value;
  Tensor seen;      // what it was
  bool shape_only;  // only the shape decided (operators whose output shape depends on values)
};

// One run of the user's function.
struct Trace {
  std::vector<TracedCall> calls;
  Tensors captured;
  std::vector<std::string> captured_names;
  std::vector<TracedRead> reads;
  std::vector<TracedValue> outputs;
  std::vector<std::pair<TracedValue, TracedValue>> write_backs;  // (input or captured tensor, its new value)
  struct Guard {
    TracedValue value;
    int axis;  // -1: the whole shape
    Shape shape;
  };
  std::vector<Guard> guards;
  Tensors results;            // of the outputs, when reads forced the calls to run
  std::vector<Tensors> memo;  // results of all calls, then
};

// Runs `function` on symbolic inputs. A value that is read makes the calls so far run for real; `memo` holds results of
// calls that have run already (in an earlier segment of this very call).
Trace trace(const HybridCache::Function& function, const Tensors& inputs, const HybridCache::NameOf& name_of, bool strict,
            std::vector<Tensors> memo);

// The traced program as one graph: variables for the inputs that are not null (data, or data0, data1, ...), captured
// tensors as constants. Outputs: results, then new values of what was updated in place.
struct TraceGraph {
  Graph graph;
  std::vector<ValueId> guarded;  // per guard
};
TraceGraph to_graph(const Trace& t, const Tensors& inputs);
std::vector<std::string> input_names(const Tensors& inputs);

}  // namespace gluino
