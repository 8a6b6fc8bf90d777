// A product whose second factor was turned on its side before reads the factor as it lay: `transpose_b` instead of a copy. So exporters
// write the scores of attention.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph absorb_transposes(Graph graph, const PassContext& context);

}  // namespace gluino
