// fold_constants: operators whose inputs are all recorded constants (or that have none, like zeros) are computed once.
// Captured tensors are not constants: their values may change between runs.
#pragma once
#include "passes/pass.h"

namespace gluino {
Graph fold_constants(Graph graph, const PassContext& context);
}
