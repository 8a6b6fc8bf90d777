// How much a graph has to compute, by counting: nothing is run.
#pragma once
#include "graph/graph.h"

namespace gluino {

// Floating-point operations of a node whose shapes are known: two for each product that is summed up, else one for each element that is
// read or written, whichever are more; none for variables and views.
int64_t operations_of(const Graph& graph, const Graph::Node& node);

}  // namespace gluino
