// A reduction takes over the elementwise node that it reads: what is summed need not be read back from memory and, where nobody else
// reads it, not be written down. What others read are further outputs.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph fuse_reductions(const Graph& graph, const PassContext& context);

}  // namespace gluino
