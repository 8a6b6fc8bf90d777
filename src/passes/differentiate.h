// differentiate: appends the backward pass. The result has the forward outputs followed by one gradient per wanted
// variable or constant; gradients are written with operators, so every other pass applies to them too.
#pragma once
#include "passes/pass.h"

namespace gluino {

struct Differentiated {
  Graph graph;
  int forward_nodes = 0;           // the first so many nodes are the forward pass
  std::vector<bool> has_gradient;  // per wanted leaf: false when nothing flows into it (no output then)
};

// `outputs` of the graph get head gradients: variables named head0, head1, ... appended after the forward nodes.
// wanted: nodes of the graph without operator, -1 for one that is not there. Shapes and dtypes must be known.
Differentiated differentiate(const Graph& graph, const std::vector<int>& wanted);

// How many nodes stand before the head gradients: the forward pass, also after other passes renumbered the nodes.
int count_forward_nodes(const Graph& graph);

}  // namespace gluino
