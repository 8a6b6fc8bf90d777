// Programs over rows: stages that map, reduce and normalise rows of neighbouring elements one after the other, a few rows at a time, so
// that what one stage gives the next one finds in the cache.
// As text: "f32; map(0,1) f32 x0 x1 add(0,1); softmax(2) 1; -> 3". Stages are given values by number: first the inputs, then what earlier
// stages gave.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "program/compiled_loops.h"
#include "program/reduction.h"
#include "program/row_function.h"

namespace gluino::kernels {

struct RowStage {
  RowFunction function = RowFunction::map;
  std::vector<int> arguments;            // values; x0, x1, ... of a map
  std::shared_ptr<CompiledLoops> loops;  // of a map
  ReduceOp how = ReduceOp::sum;
  ReduceFinish finish = ReduceFinish::none;
  std::optional<DType> dtype;  // of a reduction of 16-bit floats, and what sums over rows are rounded to
  double number = 0;
  int gives() const;  // how many values
};
RowStage map_stage(const Program& program, std::vector<int> arguments);
// dtype: of the array that the row would be.
RowStage reduction_stage(ReduceOp how, ReduceFinish finish, int argument, DType dtype);
// dtype: of sums over rows. Raises AttrError where the function takes another number of arguments.
RowStage function_stage(RowFunction function, std::vector<int> arguments, double number, DType dtype = DType::float32);

class CompiledRows;
struct RowProgram {
  ComputeType type = ComputeType::f32;
  std::vector<RowStage> stages;
  std::vector<int> results;                // values that stages gave
  std::shared_ptr<CompiledRows> compiled;  // machine code made from it so far; null: none is made

  DType result_dtype(int result, int inputs) const;
  bool is_read_per_row(int value) const;  // by a function, as a number or an index
};

std::string row_program_text(const RowProgram& program);
RowProgram parse_row_program(const std::string& text);  // raises AttrError

}  // namespace gluino::kernels
