// Dtype inference in both directions, from what is known alone.
#pragma once
#include <set>

#include "graph/graph.h"

namespace gluino {

// Sets the dtypes of variables that are given or that say theirs, and of constants. True when no variable is left without one.
bool start_types(Graph& graph, const DTypeMap& types);

// Sets the dtypes of all values that follow from those that are set. Others stay unknown.
void propagate_types(Graph& graph);

// Names of variables that are at least float32 where all else is half: scales and statistics of batch norm.
std::set<std::string> wide_variables(const Graph& graph);

}  // namespace gluino
