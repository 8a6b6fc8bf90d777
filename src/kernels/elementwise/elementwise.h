// Runs a scalar Program over whole arrays with broadcasting: the one elementwise kernel.
#pragma once
#include <memory>
#include <optional>
#include <span>

#include "gluino/dtype.h"
#include "gluino/expr.h"
#include "gluino/shape.h"
#include "program/compiled_loops.h"

namespace gluino::kernels {

struct Operand {
  const void* data;
  DType dtype;
  const Shape* shape;  // broadcasts to the output's
  int64_t first = 0;   // the element of the output that data begins with
};
struct Result {
  void* data;
  DType dtype;
};

// results = program(operands); they have shape `shape`, and one may be the memory of an operand of the same shape and dtype.
// With `loops`, those of the program, machine code is used where there is some; without, they are found by the program itself if there is
// much to compute.
void run_elementwise(const Program& program, std::span<const Operand> operands, std::span<const Result> results, const Shape& shape,
                     CompiledLoops* loops = nullptr);
inline void run_elementwise(const Program& program, std::span<const Operand> operands, void* out, DType out_dtype, const Shape& shape,
                            CompiledLoops* loops = nullptr) {
  const Result result{out, out_dtype};
  run_elementwise(program, operands, {&result, 1}, shape, loops);
}

// A reduction of a program's first result in which `side_by_side` neighbouring elements belong to different outputs.
struct ReducedTogether {
  ReduceOp how;
  int64_t side_by_side;
};

// Computes parts of what run_elementwise computes. Program and operands must outlive it; between two runs `data` and `first` of an
// operand may be changed.
class ElementwiseRange {
 public:
  // `stored`: the dtypes of the results; none: not known yet. `reduced`: how the first result is, if it is; then there may be machine code
  // that combines it.
  ElementwiseRange(const Program& program, std::span<const Operand> operands, const Shape& shape, CompiledLoops* loops,
                   std::span<const DType> stored = {}, std::optional<ReducedTogether> reduced = std::nullopt);
  ~ElementwiseRange();
  ElementwiseRange(ElementwiseRange&&) noexcept;
  // The same over other operands of the same dtypes and shapes.
  ElementwiseRange rebound(std::span<const Operand> operands) const;
  // Elements [begin, end); each result's data begins with the one at `begin`.
  void run(int64_t begin, int64_t end, std::span<const Result> results) const;
  // Whether there is code for the next one.
  bool combines() const;
  // acc[i] = combine(acc[i], map(the first result of element row + i)) for i < n, row after row. All n lie within the elements side by
  // side. The data of the other results begins with element 0.
  void combine(std::span<const int64_t> rows, int64_t n, double* acc, std::span<const Result> others) const;

 private:
  struct Parts;
  explicit ElementwiseRange(Parts parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace gluino::kernels
