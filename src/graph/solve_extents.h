// Shape inference against the direction of the data: extents of inputs that known extents of outputs determine.
#pragma once
#include "gluino/op.h"

namespace gluino {

// Rules are written from inputs to outputs. An unknown input extent is found by trying numbers in its place: where an output extent grows
// with it in equal steps, and no neighbouring number gives the same, the known output extent says what it is. An input of unknown
// rank gets the one rank that leads to the rank of the output, if there is only one.
void solve_input_extents(const OpDef& op, const Attrs& attrs, OptionalShapes& in, const OptionalShapes& out);

}  // namespace gluino
