// Layers that have a compiled form get it: weights rearranged once, what follows a layer computed with it, activations
// left in the blocked layout from one layer to the next. For prediction in float32.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph compile_layers(Graph graph, const PassContext& context);

}  // namespace gluino
