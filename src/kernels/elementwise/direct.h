// One instruction on memory as it lies: no registers, no blocks.
#pragma once
#include "kernels/elementwise/elementwise.h"

namespace gluino::kernels {

// What run_elementwise does, where the program is one call on operands and a result of its type; false, and nothing done, where it is not,
// or where rows that are read in the same way are too short.
bool run_direct(const Program& program, std::span<const Operand> operands, const Result& result, const Shape& shape);

}  // namespace gluino::kernels
