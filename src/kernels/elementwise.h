// Runs a scalar Program over whole arrays with broadcasting: the one elementwise kernel.
#pragma once
#include <memory>
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
  int64_t first = 0;   // the element of the output that data begins with
};
struct Result {
  void* data;
  DType dtype;
};

// The dtype that a result of a fused program has if the instruction at this position gives it: the one it rounds to.
DType dtype_of_value(const Program& program, int position);

// results = program(operands); they have shape `shape`, and one may be the memory of an operand of the same shape and dtype.
// With `loops`, those of the program, machine code is used where there is some.
void run_elementwise(const Program& program, std::span<const Operand> operands, std::span<const Result> results, const Shape& shape,
                     CompiledLoops* loops = nullptr);
inline void run_elementwise(const Program& program, std::span<const Operand> operands, void* out, DType out_dtype, const Shape& shape,
                            CompiledLoops* loops = nullptr) {
  const Result result{out, out_dtype};
  run_elementwise(program, operands, {&result, 1}, shape, loops);
}

// Computes parts of what run_elementwise computes. Program and operands must outlive it; between two runs `data` and `first` of an
// operand may be changed.
class ElementwiseRange {
 public:
  ElementwiseRange(const Program& program, std::span<const Operand> operands, const Shape& shape, CompiledLoops* loops);
  ~ElementwiseRange();
  ElementwiseRange(ElementwiseRange&&) noexcept;
  // The same over other operands of the same dtypes and shapes.
  ElementwiseRange rebound(std::span<const Operand> operands) const;
  // Elements [begin, end); each result's data begins with the one at `begin`.
  void run(int64_t begin, int64_t end, std::span<const Result> results) const;

 private:
  struct Parts;
  explicit ElementwiseRange(Parts parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace gluino::kernels
