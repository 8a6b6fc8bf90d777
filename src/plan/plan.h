// Plan: what a graph with known shapes does, as a flat list of steps over slots, with every intermediate value at an
// offset in one arena. Values that are never alive together share memory; elementwise results take over their input's.
#pragma once
#include "graph/graph.h"

namespace gluino {

struct Slot {
  enum class Kind : uint8_t {
    variable,  // given by the caller at each run
    constant,  // known to the program: a parameter, whose value may change between runs, or a number
    derived,   // computed from constants alone: kept from run to run, as long as they do not change
    arena,     // at `offset` in the arena
    output,    // a result: fresh memory at each run
  };
  Kind kind = Kind::arena;
  Shape shape;
  DType dtype = DType::float32;
  int root = -1;       // the slot whose memory this one is: itself unless it is a view or computed in place
  int node = -1;       // the graph's node that defines it
  int64_t offset = 0;  // arena
  int64_t bytes = 0;
  int first_step = -1, last_step = -1;  // of the root: when its memory is needed
};

struct Step {
  const OpDef* op;
  Attrs attrs;
  std::string name;
  std::vector<int> inputs, outputs;  // slots
  std::optional<bool> training;      // where it is not the mode of the run
  int part = -1;                     // the node's
};

// A value that runs read and that follows from constants alone.
struct Derived {
  int slot;
  std::vector<int> steps;    // of Plan::hoisted, in order
  std::vector<int> sources;  // slots of the constants
  std::string recipe;        // what is done, as text, in which %0, %1, ... are the sources and #0, #1, ... the steps
  std::string key;           // two with the same key are the same value
};

struct Plan {
  std::vector<Slot> slots;
  std::vector<Step> steps;
  std::vector<Step> hoisted;            // what computes derived values; not run by every run
  std::vector<Derived> derived;         // those that steps read
  int forward_steps = 0;                // the rest is the backward pass, run later
  std::vector<std::vector<int>> parts;  // the graph's
  std::vector<int> variables;           // slots of the graph's variables, in the order of its nodes
  std::vector<int> outputs;             // slots of the graph's outputs
  Tensors constants;                    // by slot, null elsewhere
  int64_t arena_bytes = 0;
  int64_t unplanned_bytes = 0;  // the sum of all intermediate values, had each its own memory
  // The memory plan as a table, with what each step took where that is known.
  std::string str(std::span<const double> step_microseconds = {}) const;
};

// The sum of all intermediate values of a graph, had each its own memory.
int64_t intermediate_bytes(const Graph& graph);

// All shapes must be known. `keep_derived`: what follows from constants alone is computed once, not in every run.
Plan make_plan(const Graph& graph, bool keep_derived);

}  // namespace gluino
