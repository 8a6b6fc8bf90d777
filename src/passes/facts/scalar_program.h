// What an elementwise node does to one element, as a Program.
#pragma once
#include "graph/graph.h"
#include "program/rounded.h"

namespace gluino {

// The type that an elementwise node computes in; null for other nodes, and where a program in that type cannot hold its result as
// the node's dtype would. Inputs may have any dtype: reading them converts them.
std::optional<ComputeType> scalar_type(const Graph& graph, const Graph::Node& node);
// Whether an elementwise node that compares whole numbers gives the same truth values, 0 or 1, when it reads them as numbers of this
// floating type.
bool compares_alike(const Graph& graph, const Graph::Node& node, ComputeType type);
// Whether these shapes broadcast to exactly `whole`.
bool broadcast_to_exactly(const std::vector<const Shape*>& shapes, const Shape& whole);
// The same of all inputs of a node and its output: what a program over them would take as its shape.
bool has_shape_of_inputs(const Graph& graph, const Graph::Node& node);
// The node's program over its inputs x0, x1, ..., rounded to its dtype.
Program program_of(const Graph::Node& node, ComputeType type);
// The program of a node that keeps one, as fuse_elementwise makes them; null for others.
std::optional<Program> fused_program(const Graph::Node& node);

// The program of an elementwise node or of one that keeps it; null for others.
std::optional<Program> elementwise_program(const Graph& graph, const Graph::Node& node);

// Whether all inputs and the first output are float32.
bool is_float32(const Graph& graph, const Graph::Node& node);

}  // namespace gluino
