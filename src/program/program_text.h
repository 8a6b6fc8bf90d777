// The text of a scalar Program, as graphs keep it: one word per instruction, "f32 x0 x1 add(0,1) 2 multiply(2,3)". Where the last
// one is not the only result, " -> 4,2" follows.
#pragma once
#include <string>

#include "gluino/dtype.h"
#include "gluino/expr.h"

namespace gluino {

std::string program_text(const Program& program);
Program parse_program(const std::string& text);  // raises AttrError
// Every input that the program reads must be there, and every function be defined in its type; raises AttrError.
void check_program(const Program& program, size_t inputs);

namespace kernels {
// The dtype that a result of a fused program has if the instruction at this position gives it: the one it rounds to.
DType dtype_of_value(const Program& program, int position);
}  // namespace kernels

}  // namespace gluino
