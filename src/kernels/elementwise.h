// Runs a scalar Program over whole arrays with broadcasting: the one elementwise kernel.
#pragma once
#include <functional>
#include <span>

#include "gluino/dtype.h"
#include "gluino/expr.h"
#include "gluino/shape.h"
#include "kernels/compiled_loops.h"

namespace gluino::kernels {

struct Operand {
  const void* data;
  DType dtype;
  const Shape* shape;  // broadcasts to the output's
};

// out = program(operands); out has shape `shape` and may be the memory of an operand of the same shape and dtype.
// With `loops`, those of the program, machine code is used where there is some.
void run_elementwise(const Program& program, std::span<const Operand> operands, void* out, DType out_dtype, const Shape& shape,
                     CompiledLoops* loops = nullptr);

// Computes elements [begin, end) of program(operands), in the program's compute type, into an array that starts with element `begin`.
// The operands must outlive it.
std::function<void(int64_t begin, int64_t end, void* elements)> elementwise_reader(const Program& program,
                                                                                   std::span<const Operand> operands, const Shape& shape,
                                                                                   CompiledLoops* loops);

}  // namespace gluino::kernels
