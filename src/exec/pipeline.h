// From a traced graph to a plan: the passes in order, each timed, verified in checked builds.
#pragma once
#include "graph/gradient.h"
#include "passes/pass.h"
#include "plan/plan.h"

namespace gluino {

struct StageTime {
  std::string stage;
  int nodes;  // operators after it
  double microseconds;
};

struct CompileRequest {
  ShapeMap shapes;  // of the graph's variables
  DTypeMap types;
  bool training = false;
  std::vector<std::string> wanted_gradients;  // names of variables or constants; empty: no backward pass
  std::vector<bool> as_rows = {};             // beside them: whose rows may stay such
};

struct CompiledGraph {
  Graph before, after;
  Plan plan;
  std::vector<StageTime> stages;
  int num_outputs = 0;                                   // of the forward pass
  std::vector<bool> has_gradient;                        // per wanted gradient
  std::vector<std::vector<std::string>> row_modes = {};  // per wanted gradient: see passes/differentiate.h
  DeadEnds dead_ends = {};
};

// Raises when shapes contradict each other. All shapes must follow from the request.
CompiledGraph compile(Graph graph, const CompileRequest& request);

}  // namespace gluino
