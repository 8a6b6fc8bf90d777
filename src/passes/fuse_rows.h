// Operators that work on single rows (softmax, layer normalization, reductions that are spread over their row again) take in the
// elementwise nodes before and behind them: all of it is computed row by row, while the row is in the cache.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph fuse_rows(Graph graph, const PassContext& context);

}  // namespace gluino
