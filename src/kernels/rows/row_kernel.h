// Runs a row program over arrays.
#pragma once
#include <optional>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce.h"
#include "program/compiled_rows.h"

namespace gluino::kernels {

// The last `axes` axes of `shape` are a row. A value has one element per element of a row, or one per row: which, is found out here. Inputs
// broadcast, all but those that a function reads as one number per row: they have as many elements as there are rows.
class RowKernel {
 public:
  // Raises an error where inputs do not fit. The program must outlive it.
  RowKernel(const RowProgram& program, std::span<const Shape> inputs, int axes);
  const Shape& shape() const { return whole_; }
  const Shape& result_shape(int result) const { return shape_of(static_cast<size_t>(program_.results[result])); }
  // results[k] may be the memory of an input of the same shape and dtype, if it is one of the last stage's.
  void run(std::span<const Operand> inputs, std::span<const Result> results) const;
  // Only if there is machine code that can. awaited: not yet, but what else is compiled for the same work would be of no use for long.
  enum class Outcome : uint8_t { done, awaited, never };
  Outcome run_code(std::span<const Operand> inputs, std::span<const Result> results) const;

 private:
  struct Run;
  const Shape& shape_of(size_t value) const;
  void check_stage(const RowStage& stage, std::span<const Shape> inputs) const;
  void check_types(std::span<const Operand> inputs) const;
  void clear_sums(std::span<const Result> results) const;
  // Rows in parallel: make_worker() gives each thread a function of (begin, end, memory for the sums over rows).
  template <class MakeWorker>
  void over_rows(std::span<const Result> results, MakeWorker&& make_worker) const;
  void run_stages(std::span<const Operand> inputs, std::span<const Result> results, bool with_loops) const;
  // How the machine code reads the inputs and writes the results; nothing where it cannot.
  struct Access;
  std::optional<Access> find_access(std::span<const Operand> inputs, std::span<const Result> results) const;
  void run_compiled(const RowsVariant& code, const Access& access, std::span<const Operand> inputs, std::span<const Result> results) const;
  size_t sums_before(size_t value) const;
  const RowProgram& program_;
  int inputs_;
  Shape whole_, narrow_;
  Shape sum_;  // of a value that all rows are added up in
  int64_t length_ = 1, rows_ = 1;
  std::vector<RowValue> kinds_;  // by value: row, number or sum
};

}  // namespace gluino::kernels
