// Machine code for the programs of eager calls. Every call makes its program anew, often with other numbers: those become inputs, so that
// one loop serves all of them.
#pragma once
#include <array>
#include <memory>
#include <span>

#include "kernels/elementwise/elementwise.h"

namespace gluino::kernels {

// What is to be run instead of a program, if it is worth it. The operands given must outlive it.
class EagerLoop {
 public:
  EagerLoop(const Program& program, std::span<const Operand> operands, int64_t elements);
  EagerLoop(const EagerLoop&) = delete;
  EagerLoop& operator=(const EagerLoop&) = delete;
  CompiledLoops* loops() const { return loops_.get(); }  // null: the program itself
  std::span<const Operand> operands() const { return {operands_.data(), count_}; }

 private:
  int add_number(double value, DType type);

  std::shared_ptr<CompiledLoops> loops_;
  std::array<Operand, kMostLoopInputs> operands_;
  std::array<int64_t, kMostLoopInputs> numbers_;  // of the program's type
  size_t count_ = 0;
};

}  // namespace gluino::kernels
