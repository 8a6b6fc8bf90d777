// Elementwise operators whose results nobody else reads are computed together, in one sweep over memory.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph fuse_elementwise(const Graph& graph, const PassContext& context);

}  // namespace gluino
