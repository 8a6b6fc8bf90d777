// Machine code for scalar programs, one loop for each way of reading the inputs.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

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
  // `stored`: where not all arrays are of the computed type.
  LoopKernel find(uint32_t repeated, const std::optional<StoredTypes>& stored, int64_t elements);
  bool has_any() const;
  // The code of the loop that reduces the first result: a CombiningKernel.
  const CompiledCode& find_combining(ReduceOp how, uint32_t repeated, const std::optional<StoredTypes>& stored, int64_t elements);
  bool has_combining() const;

 private:
  struct Variant {
    uint32_t repeated;
    std::optional<StoredTypes> stored;
    std::optional<ReduceOp> how;  // the first result is reduced
    auto operator<=>(const Variant&) const = default;
  };
  CompiledCode& code_of(const Variant& variant);
  // Compiles what is not there yet, if it is due.
  void advance(CompiledCode& code, const Variant& variant, int64_t elements);
  void* compile(const Compiler& compiler, CompileTarget target, const Variant& variant) const;

  const Program program_;
  const int64_t patience_;
  std::array<int, Program::kMaxResults> results_;        // their positions
  std::array<CompiledCode, 1 << kMostInputs> variants_;  // that only read and write arrays of the computed type
  mutable NoForkMutex mutex_;
  std::map<Variant, CompiledCode> others_;
};

}  // namespace gluino::kernels
