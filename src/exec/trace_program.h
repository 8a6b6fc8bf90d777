// What a trace of a user's function leaves behind: a graph when it is one, a tree of segments when it reads values.
#pragma once
#include <compare>
#include <functional>
#include <set>

#include "dispatch/untraceable.h"
#include "exec/captured.h"
#include "exec/pipeline.h"
#include "gluino/hybrid.h"
#include "graph/trace.h"

namespace gluino {

// A value of a traced program by its place: input k, captured tensor k, or output `output` of call k.
struct TracedValue {
  enum class Kind : uint8_t { input, captured, call } kind;
  int index, output = 0;
  auto operator<=>(const TracedValue&) const = default;
};
using TracedCall = NodeOf<TracedValue>;
struct TracedRead {
  int calls_before;  // made when user code asked
  TracedValue value;
  Tensor seen;      // what it was
  bool shape_only;  // only the shape decided (operators whose output shape depends on values)
};

// How a run of a traced program ends: what goes back to the caller and into tensors from outside.
struct Ending {
  struct WriteBack {
    TracedValue target;  // an input or a captured tensor
    TracedValue value;
    bool is_recorded;   // it was updated while recording: the tensor joins the tape
    bool is_overwrite;  // under pause(): the tensor keeps its place
  };
  // A result that is a tensor the caller has already, or a view of it: made from that tensor when the run is over.
  struct Alias {
    enum class Of : uint8_t { input, captured, result } of;
    int index;
    std::vector<std::function<Tensor(const Tensor&)>> views;
  };
  // A branch or loop has passed that tensor on, after some numbers of steps.
  struct PassedOn {
    TracedValue steps;  // the hidden output that has their number
    StepsWhen when;
    Alias alias;
  };
  struct Result {
    std::optional<TracedValue> value;  // neither: a null tensor
    std::optional<Alias> alias;
    std::vector<PassedOn> passed_on;
    TracedValue in_graph{};  // an alias, too, is a value of the graph
  };
  // A symbolic tensor that somebody has when the trace ends. One that user code made and put somewhere gets its value after the run that
  // traced it, and such a trace serves no other. A view from outside, whose base the program updates, gets it after each run.
  struct Escaped {
    Tensor made;
    std::shared_ptr<CapturedTensor> view;  // one of the two
    TracedValue value;
  };
  std::vector<Result> results;  // the first `visible` are the caller's, the rest is what aliases start from
  size_t visible = 0;
  std::vector<WriteBack> write_backs;
  std::vector<Escaped> escaped;
  std::vector<std::function<void()>> actions;
  std::shared_ptr<const void> rest;

  bool puts_tensors() const {
    return std::any_of(escaped.begin(), escaped.end(), [](const Escaped& e) { return !e.view; });
  }
  std::vector<TracedValue> values() const;  // of results, write-backs, escaped tensors and what was passed on, in this order
};

// Somebody's setting that the function looked at, and what it was.
struct SettingRead {
  std::shared_ptr<const detail::SettingState> setting;
  std::string seen;
};

// A tensor from outside was updated in place, before the call of this number.
struct TracedUpdate {
  Ending::WriteBack write;
  int calls_before;
  bool is_recorded;  // not under pause()
};

// Where inputs and captured tensors are on the tape.
struct TapePlaces {
  enum class Place : uint8_t { off, leaf, computed };
  std::vector<Place> inputs;
  std::vector<std::pair<std::shared_ptr<CapturedTensor>, Place>> captured;
  static TapePlaces of(const Tensors& inputs, const CapturedTensors& captured);
  bool hold(const Tensors& now) const;
};

// One run of the user's function.
struct Trace {
  std::vector<TracedCall> calls;
  CapturedTensors captured;
  std::vector<std::string> captured_names;
  std::vector<std::pair<int, std::shared_ptr<CapturedTensor>>> captured_inputs;  // inputs that the function also knows from outside
  std::vector<TracedRead> reads;
  std::vector<SettingRead> settings;
  struct Guard {
    TracedValue value;
    int axis;  // -1: the whole shape
    Shape shape;
    std::optional<TracedValue> like;  // whose shape it must have, whatever that is
  };
  std::vector<Guard> guards;
  Ending ending;
  std::vector<TracedUpdate> updates;      // in their order; the last of each tensor is a write-back of the ending
  std::set<int> paused_inside;            // calls that were made under a pause() of the function's own
  bool records = false;                   // some calls were made while recording, whatever the mode outside
  bool reads_mode = false;                // user code asked whether it records or trains
  std::optional<TapePlaces> tape_places;  // where it called backward() or grad()
  std::exception_ptr error;               // with which user code ended it
  bool serves_once = false;               // user code met an error and went on: with other values it would not have come this way
  bool has_run = false;                   // the calls were made while it was traced
  Tensors values;                         // of the ending, then
  std::vector<Tensors> memo;              // results of all calls, then

  Ending ending_before(int call) const;  // what eager code leaves behind when this call fails
};

// Whether a tensor with a gradient of its own is updated while operators are recorded: that is an error at the place.
bool updates_leaf(std::span<const TracedUpdate> updates, const CapturedTensors& captured, const Tensors& inputs);

// Runs `function` on symbolic inputs. A value that is read, and a call that may refuse its values, makes the calls so far run for real;
// `memo` holds results of calls that have run already (in an earlier segment of this very call).
Trace trace(const HybridCache::Function& function, const Tensors& inputs, const HybridCache::NameOf& name_of, bool strict,
            std::vector<Tensors> memo);

// The traced program as one graph. Variables: the inputs that are not null (data, or data0, data1, ...), then the captured tensors that
// it updates; other captured tensors are constants. Outputs: the values of the ending.
struct TraceGraph {
  Graph graph;
  std::vector<ValueId> guarded;     // per guard
  std::vector<ValueId> likes;       // per guard: itself where it has no like
  std::vector<int> updated;         // the captured tensors that are variables
  std::vector<int> captured_nodes;  // -1 where only the ending names it
  std::vector<ValueId> results;     // visible ones; node -1 for a null tensor
};
TraceGraph to_graph(Trace& t, const Tensors& inputs);  // takes the calls over
// The same as a file has it, where the trace looked at nothing but how much of some values was filled; else nothing.
std::optional<TraceGraph> to_graph_of_file(Trace t, const Tensors& inputs);
std::vector<std::string> input_names(const Tensors& inputs);

// Makes one of the calls for real, in the mode that it was traced in.
Tensors run_call(const TracedCall& call, Tensors inputs);
// In the mode that is now. To go back through a loop what it was given is read again, and eager code, which has kept what the steps need,
// lets the function and its caller change that: it is copied.
Tensors run_call(const OpDef& op, const Attrs& attrs, std::span<const TracedValue> places, Tensors inputs);

}  // namespace gluino
