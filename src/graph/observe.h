// interpret(), with someone who watches.
#pragma once
#include "graph/interpret.h"

namespace gluino {

// Is told of every operator that has run, what it gave and how long it took.
using NodeObserver = std::function<void(size_t node, const Tensors& results, double microseconds)>;
Tensors interpret_observed(const Graph& graph, const std::vector<Tensor>& values, const NodeObserver& observer);

}  // namespace gluino
