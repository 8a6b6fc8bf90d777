// Dtype inference in both directions, from what is known alone.
#pragma once
#include "graph/graph.h"

namespace gluino {

// Sets the dtypes of variables that are given or that say theirs, and of all values that follow from them. Others stay unknown.
void propagate_types(Graph& graph, const DTypeMap& types);

}  // namespace gluino
