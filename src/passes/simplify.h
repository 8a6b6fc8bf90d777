// simplify: a node that returns its first input unchanged, by its own account (OpDef::is_identity), disappears.
#pragma once
#include "passes/pass.h"

namespace gluino {
Graph simplify(Graph graph, const PassContext& context);
}
