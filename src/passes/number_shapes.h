// Views that take their shape from another value get it as numbers: what only lent its shape need not be kept, or stand in the way of a
// fusion.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph number_shapes(Graph graph, const PassContext& context);

}  // namespace gluino
