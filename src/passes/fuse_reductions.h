// A reduction takes over the elementwise node whose result only it reads: what is summed need not be written down first. Other results of
// the node are further outputs.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph fuse_reductions(Graph graph, const PassContext& context);

}  // namespace gluino
