// eliminate_dead: drops nodes that no output needs and that have no effect of their own. Variables stay: they are the
// graph's signature.
#pragma once
#include "passes/pass.h"

namespace gluino {
Graph eliminate_dead(Graph graph, const PassContext& context);
}
