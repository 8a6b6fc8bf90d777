// An input of which only the shape is read is taken from as far up as values of that shape and dtype go: what is computed on the way
// need not be kept, or computed, for its shape.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph raise_shape_reads(Graph graph, const PassContext& context);

}  // namespace gluino
