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

namespace gluino::kernels {

// reduce: one number per row. softmax, log_softmax: of the row times `number`. Their gradients: from head and result, times `number`.
// layer_norm: of the row, with a row of factors and a row of offsets, `number` is added to the variance; also gives mean and standard
// deviation, one number per row. layer_norm_grad: from head, data, factors, mean and standard deviation, the gradients of data, factors and
// offsets. pick: the element that an index names; one out of range means the nearest. pick_grad: a row of zeros with a number there.
enum class RowFunction : uint8_t {
  map,
  reduce,
  softmax,
  log_softmax,
  softmax_grad,
  log_softmax_grad,
  layer_norm,
  layer_norm_grad,
  pick,
  pick_grad
};

// What a value is for each row: a row of its own, the same row for all, one number, or a whole number of any dtype. sum: one row that all
// rows are added up in; it is known when all rows are done, so no stage reads it.
enum class RowValue : uint8_t { row, shared, number, index, sum };

struct RowSignature {
  std::string_view name;
  std::vector<RowValue> arguments, results;
};
// Raises AttrError where there is no such function.
const RowSignature& row_signature(std::string_view name);
const RowSignature& row_signature(RowFunction function);

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
RowStage reduction_stage(std::string_view how, std::string_view finish, int argument, DType dtype);
// dtype: of sums over rows.
RowStage function_stage(std::string_view function, std::vector<int> arguments, double number, DType dtype = DType::float32);

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
