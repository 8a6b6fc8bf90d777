// eliminate_common: two nodes with the same operator, attributes and inputs become one, unless they have effects.
#pragma once
#include "passes/pass.h"

namespace gluino {
Graph eliminate_common(Graph graph, const PassContext& context);
}
