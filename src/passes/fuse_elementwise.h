// Elementwise operators that read each other's results are computed together, in one sweep over memory; results that others read
// too are further outputs of the sweep. Casts and 16-bit floats take part: values are rounded where the operators round them.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph fuse_elementwise(Graph graph, const PassContext& context);

}  // namespace gluino
