// In: compiled layers. Out: chains of layers that read each other and nobody else reads, as one call where their operator has
// one: what passes between them never leaves the cache.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph join_layers(Graph graph, const PassContext& context);

}  // namespace gluino
