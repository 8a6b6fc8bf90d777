// Programs over rows: stages that map, reduce and normalise rows of neighbouring elements one after the other, a few rows at a time, so
// that what one stage gives the next one finds in the cache.
// As text: "f32; map(0,1) f32 x0 x1 add(0,1); softmax(2) 1; -> 3". Stages are given values by number: first the inputs, then what earlier
// stages gave.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"

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

struct RowProgram {
  ComputeType type = ComputeType::f32;
  std::vector<RowStage> stages;
  std::vector<int> results;  // values that stages gave

  DType result_dtype(int result, int inputs) const;
  bool is_read_per_row(int value) const;  // by a function, as a number or an index
};

std::string row_program_text(const RowProgram& program);
RowProgram parse_row_program(const std::string& text);  // raises AttrError

// The last `axes` axes of `shape` are a row. A value has one element per element of a row, or one per row: which, is found out here. Inputs
// broadcast, all but those that a function reads as one number per row: they have as many elements as there are rows.
class RowKernel {
 public:
  // Raises an error where inputs do not fit. The program must outlive it.
  RowKernel(const RowProgram& program, std::span<const Shape> inputs, int axes);
  const Shape& shape() const { return whole_; }
  const Shape& result_shape(int result) const { return shape_of(static_cast<size_t>(program_.results[static_cast<size_t>(result)])); }
  // results[k] may be the memory of an input of the same shape and dtype, if it is one of the last stage's.
  void run(std::span<const Operand> inputs, std::span<const Result> results) const;

 private:
  struct Run;
  const Shape& shape_of(size_t value) const;
  void check_stage(const RowStage& stage, std::span<const Shape> inputs) const;
  void clear_sums(std::span<const Result> results) const;
  void run_with_sums(std::span<const Operand> inputs, std::span<const Result> results, const std::vector<ElementwiseRange>& maps,
                     int64_t sums) const;
  const RowProgram& program_;
  int inputs_;
  Shape whole_, narrow_;
  Shape sum_;  // of a value that all rows are added up in
  int64_t length_ = 1, rows_ = 1;
  std::vector<RowValue> kinds_;  // by value: row, number or sum
};

}  // namespace gluino::kernels
