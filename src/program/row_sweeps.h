// A row program as one list of values that the compiler turns into loops over a row: every stage is written out as formulas of single
// elements, and the loops are as few as the reductions among them allow.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "program/loop_compiler.h"
#include "program/row_program.h"

namespace gluino::kernels {

struct RowSweeps {
  std::vector<RowInstruction> code;
  std::vector<RowInput> inputs;  // those of the program, then one of int64 for each of `indices`
  std::vector<int> indices;      // inputs of the program that name places, each named once
  std::vector<RowOutput> outputs;
  int sweeps = 0, slots = 0;
};

// outputs: kind and dtype of the program's results. Nothing where the program cannot be compiled.
std::optional<RowSweeps> plan_sweeps(const RowProgram& program, std::span<const RowInput> inputs, std::span<const RowOutput> outputs);

}  // namespace gluino::kernels
