// Machine code for scalar programs, one loop for each way of reading the inputs.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "program/compiled_code.h"

namespace gluino::kernels {

class CompiledLoops : public std::enable_shared_from_this<CompiledLoops> {
 public:
  static constexpr int kMostInputs = kMostLoopInputs;

  // The one of this program, shared by all that use it now.
  static std::shared_ptr<CompiledLoops> of(const Program& program);
  // `patience`: it is compiled after so many times the work that others are compiled after.
  explicit CompiledLoops(const Program& program, int64_t patience = 1);
  const Program& program() const { return program_; }

  // The loop in which the inputs of `repeated` have one element. Null: use the program. `elements`: how many it would compute now.
  LoopKernel find(uint32_t repeated, int64_t elements);
  bool has(uint32_t repeated) const { return variants_[repeated].get() != nullptr; }
  // The code of the loop that reduces the first result: a CombiningKernel.
  const CompiledCode& find_combining(ReduceOp how, uint32_t repeated, int64_t elements);
  bool has_combining() const;

 private:
  // Compiles what is not there yet, if it is due.
  void advance(CompiledCode& code, uint32_t repeated, std::optional<ReduceOp> how, int64_t elements);
  void* compile(const Compiler& compiler, CompileTarget target, uint32_t repeated, std::optional<ReduceOp> how) const;

  const Program program_;
  const int64_t patience_;
  std::array<int, Program::kMaxResults> results_;  // their positions
  std::array<CompiledCode, 1 << kMostInputs> variants_;
  mutable NoForkMutex mutex_;
  std::map<std::pair<ReduceOp, uint32_t>, CompiledCode> combining_;
};

}  // namespace gluino::kernels
