// Machine code for scalar programs. A program that has done enough work is compiled in the background by src/jit, which is
// loaded on demand; until the code is ready, and where there is no compiler, the program is run block by block.
// Both give the same bits. GLUINO_JIT: "off", "wait" (compile at once, for tests), or anything else for the rule above.
#pragma once
#include <array>
#include <atomic>
#include <memory>

#include "kernels/loop_compiler.h"

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
  bool has(uint32_t repeated) const { return variants_[repeated].kernel.load(std::memory_order_acquire) != nullptr; }
  static bool can_compile();  // whether there is a compiler, and it is not switched off

 private:
  struct Variant {
    std::atomic<LoopKernel> kernel{nullptr};
    std::atomic<int64_t> work{0};  // instructions run so far on single elements
    std::atomic<bool> asked{false};
  };

  const Program program_;
  std::array<Variant, 1 << kMostInputs> variants_;
  friend class CompileQueue;
};

}  // namespace gluino::kernels
