// Machine code for row programs: one function for each set of dtypes and kinds of the inputs. It takes rows through all stages.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/compiled_code.h"
#include "program/row_sweeps.h"

namespace gluino::kernels {

struct RowsVariant {
  std::vector<RowInput> inputs;
  std::vector<RowOutput> outputs;  // kind and dtype
  std::optional<RowSweeps> plan;   // nothing: it is never compiled
  CompiledCode code;
  RowsKernel kernel() const { return reinterpret_cast<RowsKernel>(code.get()); }
  bool is_awaited() const { return plan && !code.has_failed(); }  // there is code, or there will be
};

class CompiledRows : public std::enable_shared_from_this<CompiledRows> {
 public:
  // The one of a program with this text, shared by all that use it now.
  static std::shared_ptr<CompiledRows> of(const std::string& text);
  explicit CompiledRows(std::string text) : text_(std::move(text)) {}

  // `elements`: how many of a row program with this text would be computed now without the code. It stays where it is.
  const RowsVariant& find(const RowProgram& program, std::span<const RowInput> inputs, std::span<const RowOutput> outputs,
                          int64_t elements);
  bool has_code() const;

 private:
  void* compile(const Compiler& compiler, CompileTarget target, const RowsVariant& variant, ComputeType type) const;

  const std::string text_;
  mutable NoForkMutex mutex_;
  std::vector<std::unique_ptr<RowsVariant>> variants_;
};

}  // namespace gluino::kernels
