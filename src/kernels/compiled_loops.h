// Machine code for scalar programs, one loop for each way of reading the inputs.
#pragma once
#include <array>
#include <memory>

#include "kernels/compiled_code.h"

namespace gluino::kernels {

class CompiledLoops : public std::enable_shared_from_this<CompiledLoops> {
 public:
  static constexpr int kMostInputs = 8;

  // The one of this program, shared by all that use it now.
  static std::shared_ptr<CompiledLoops> of(const Program& program);
  explicit CompiledLoops(const Program& program) : program_(program) {}
  const Program& program() const { return program_; }

  // The loop in which the inputs of `repeated` have one element. Null: use the program. `elements`: how many it would compute now.
  LoopKernel find(uint32_t repeated, int64_t elements);
  bool has(uint32_t repeated) const { return variants_[repeated].get() != nullptr; }

 private:
  void* compile(const Compiler& compiler, CompileTarget target, uint32_t repeated) const;

  const Program program_;
  std::array<CompiledCode, 1 << kMostInputs> variants_;
};

}  // namespace gluino::kernels
