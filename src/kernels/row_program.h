// Programs over rows: stages that map, reduce and normalise rows of neighbouring elements one after the other, a few rows at a time, so
// that what one stage gives the next one finds in the cache.
// As text: "f32; map(0,1) f32 x0 x1 add(0,1); softmax(2) 1; -> 3". Stages are given values by number: first the inputs, then what earlier
// stages gave.
#pragma once
#include <string>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"

namespace gluino::kernels {

// reduce: one number per row. softmax, log_softmax: of the row times `number`. Their gradients: from head and result, times `number`.
// layer_norm: of the row, with a row of factors and a row of offsets, `number` is added to the variance; also gives mean and standard
// deviation, one number per row.
enum class RowFunction : uint8_t { map, reduce, softmax, log_softmax, softmax_grad, log_softmax_grad, layer_norm };

struct RowStage {
  RowFunction function = RowFunction::map;
  std::vector<int> arguments;            // values; x0, x1, ... of a map
  std::shared_ptr<CompiledLoops> loops;  // of a map
  ReduceOp how = ReduceOp::sum;
  ReduceFinish finish = ReduceFinish::none;
  double number = 0;
  int gives() const;  // how many values
};
RowStage map_stage(const Program& program, std::vector<int> arguments);
RowStage reduction_stage(std::string_view how, std::string_view finish, int argument);
RowStage function_stage(std::string_view function, std::vector<int> arguments, double number);

struct RowProgram {
  ComputeType type = ComputeType::f32;
  std::vector<RowStage> stages;
  std::vector<int> results;  // values that stages gave

  DType result_dtype(int result, int inputs) const;
};

std::string row_program_text(const RowProgram& program);
RowProgram parse_row_program(const std::string& text);  // raises AttrError

// The last `axes` axes of `shape` are a row. A value has one element per element of a row, or one per row: which, is found out here.
class RowKernel {
 public:
  // Raises an error where inputs do not fit. The program must outlive it.
  RowKernel(const RowProgram& program, std::span<const Shape> inputs, int axes);
  const Shape& shape() const { return whole_; }
  const Shape& result_shape(int result) const;
  // results[k] may be the memory of an input of the same shape and dtype, if it is one of the last stage's.
  void run(std::span<const Operand> inputs, std::span<const Result> results) const;

 private:
  struct Run;
  const RowProgram& program_;
  int inputs_;
  Shape whole_, narrow_;
  int64_t length_ = 1, rows_ = 1;
  std::vector<bool> is_narrow_;  // by value
};

}  // namespace gluino::kernels
