// differentiate: appends the backward pass. The result has the forward outputs followed by one gradient per wanted
// variable or constant, or by pairs of indices and values where rows of it are all that flows back; gradients are written with operators,
// so every other pass applies to them too.
#pragma once
#include "graph/gradient.h"
#include "passes/pass.h"

namespace gluino {

struct Differentiated {
  Graph graph;
  std::vector<bool> has_gradient;  // per wanted leaf: false when nothing flows into it (no output then)
  // Per wanted leaf, for each pair of outputs the mode of the indices; empty: its gradient is one output.
  std::vector<std::vector<std::string>> row_modes;
  DeadEnds dead_ends;
};

// `outputs` of the graph get head gradients: variables (Node::is_head) appended after the forward nodes.
// wanted: nodes of the graph without operator, -1 for one that is not there. Shapes and dtypes must be known.
// as_rows: beside wanted, which may keep rows; empty: none.
Differentiated differentiate(Graph graph, const std::vector<int>& wanted, const std::vector<bool>& as_rows = {});

}  // namespace gluino
