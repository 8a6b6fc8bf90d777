// Operators that are functions of others, as those others: so that only these need rules.
#pragma once
#include <functional>

#include "graph/graph.h"

namespace gluino::onnx {

// `graph` has known shapes and dtypes. Nodes whose operator `stays` are left alone; parts are named after the node that they come from.
Graph expand_composed(const Graph& graph, const std::function<bool(const OpDef&)>& stays);

}  // namespace gluino::onnx
