// What an elementwise node does to one element, as a Program.
#pragma once
#include "graph/graph.h"

namespace gluino {

// The node's program over its inputs x0, x1, ... in the compute type of `dtype`.
Program program_of(const Graph::Node& node, DType dtype);
// Whether all inputs and the output have this dtype, which is also the one it is computed in: float32 or float64.
bool computes_in(const Graph& graph, const Graph::Node& node, DType dtype);

// The program of an elementwise node or of one that fuse_elementwise has made; empty: neither.
std::string program_text_of(const Graph& graph, const Graph::Node& node);

}  // namespace gluino
