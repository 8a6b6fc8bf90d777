// Runs a graph node by node through apply(): the reference for every faster way, and what autograd can record.
#pragma once
#include "graph/graph.h"

namespace gluino {

// values[i] is the tensor of variable i of the graph (null where the node is not a variable).
// Extents that operators without inputs left open are taken from the graph's inferred shapes.
Tensors interpret(const Graph& graph, const std::vector<Tensor>& values);

// The tensors of the graph's variables by name; raises UserError that names a missing one.
std::vector<Tensor> bind_variables(const Graph& graph, const TensorMap& tensors, std::string_view what);

}  // namespace gluino
