// A traced program that is one graph, the plans that were made from it, and how they run.
#pragma once
#include "autograd/tape.h"
#include <atomic>
#include <set>

#include "dispatch/random.h"
#include "exec/runner.h"
#include "exec/segments.h"
#include "exec/signature.h"

namespace gluino {

// One trace.
struct TracedProgram {
  Signature signature;
  std::vector<Shape> shapes;  // of the inputs when it was traced
  Trace trace;                // without its calls
  TraceGraph traced;
  size_t calls = 0;
  double trace_microseconds = 0;
  bool is_repeatable = true;                // else it serves export and explain() alone
  int plans = 0;                            // made so far
  std::set<std::vector<int64_t>> met_once;  // extents of inputs that have come once and got no plan yet

  bool holds(const Tensors& inputs) const {
    if (trace.tape_places && !trace.tape_places->hold(inputs)) return false;
    return is_repeatable && still_holds(trace.settings, trace.captured, trace.captured_inputs, inputs);
  }
  mutable std::vector<std::vector<Shape>> first_shapes;  // by node of the graph: of the first inputs that guards_hold() was asked about
  // Whether the extents that user code read come out the same for these inputs. To be asked by one thread at a time.
  bool guards_hold(const Tensors& inputs) const;
  // Whether a tensor that the program updates shares memory with another that it reads: then only eager code gives the right answer.
  // Or has a gradient of its own, and is not updated under pause().
  bool has_refused_updates(const Tensors& inputs) const;
  CompileRequest request_for(const Tensors& inputs) const;
};

// A plan for one set of shapes and one set of wanted gradients.
struct Compiled : autograd::RecordedWhole, std::enable_shared_from_this<Compiled> {
  std::shared_ptr<TracedProgram> program;
  std::vector<Shape> shapes;
  std::vector<bool> wanted;      // per input, then per captured tensor; empty when nothing is recorded
  CompiledGraph graph;           // whose plan the runner has
  std::vector<bool> is_on_tape;  // per output of the graph: whether anything flows back from it, in any run
  std::vector<int> loops;        // of the graph; what they leave, which says what they ran, are its last outputs
  Tensors constants;             // that the graph reads and does not update, but for those whose gradients are wanted
  std::unique_ptr<PlanRunner> runner;
  bool draws_random = false, updates_layers = false;
  int64_t bytes = 0;  // what it takes to keep, about
  const Device device = current_device();

  static std::shared_ptr<Compiled> make(const std::shared_ptr<TracedProgram>& program, const Tensors& inputs, bool static_alloc);
  const Plan& plan() const { return runner->plan(); }
  bool serves(const Tensors& inputs, const std::string& structure) const;
  std::vector<bool> reached_from(const std::vector<bool>& given, std::span<const Tensor> left) const override;
};

// The nodes of graph.before that gradients are wanted for: the inputs of the call on the tape.
std::vector<int> source_nodes_of(const Compiled& c);

// Whether different inputs share memory. Only eager code knows what an update of one means for the other, so nothing is traced then.
bool have_overlaps(const Tensors& inputs);

// Per input, then per captured tensor: whether a gradient flows back to it. Empty when none does.
std::vector<bool> wanted_gradients(const TracedProgram& program, const Tensors& inputs);

// ---- running. All give what the ending says.
// destinations: memory for the results, as HybridCache::call takes it.
HybridCache::Result run_compiled(Compiled& c, const Tensors& inputs, std::span<const Tensor> destinations = {});
// Operator by operator, as eager code: for shapes that have no plan.
HybridCache::Result run_interpreted(const TracedProgram& p, const Tensors& inputs);
// Writes back, makes aliases, and gives the results.
HybridCache::Result finish_run(const Ending& ending, Tensors values, const Tensors& inputs, const CapturedTensors& captured);

// What the plan's variables are in this call: inputs that are not null, then updated captured tensors.
Tensors variables_of(const TracedProgram& p, const Tensors& inputs);
// Per output of c.graph: what was computed, while recording, from something that is on the tape. hidden: what the loops have left.
std::vector<bool> outputs_on_tape(const Compiled& c, std::span<const Tensor> hidden = {});
bool draws_random(const Graph& graph);
bool updates_layers(const Graph& graph);  // operators of it update states as they run, batch norm's averages for example

// The tape gets one node for the whole call (recorded_run.cc).
Tensors run_recorded(Compiled& c, const Tensors& inputs);

}  // namespace gluino
