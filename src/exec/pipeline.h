// From a traced graph to a plan: the passes in order, each timed, verified in checked builds.
#pragma once
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
};

struct CompiledGraph {
  Graph before, after;
  Plan plan;
  std::vector<StageTime> stages;
  int num_outputs = 0;             // of the forward pass
  std::vector<bool> has_gradient;  // per wanted gradient
};

// Raises when shapes contradict each other. All shapes must follow from the request.
CompiledGraph compile(const Graph& graph, const CompileRequest& request);

}  // namespace gluino
