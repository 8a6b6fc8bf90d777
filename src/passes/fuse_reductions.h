// A reduction takes over the elementwise node that only it reads: what is summed need not be written down first.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph fuse_reductions(const Graph& graph, const PassContext& context);

}  // namespace gluino
