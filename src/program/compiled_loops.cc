#include "program/compiled_loops.h"

#include <algorithm>

#include "base/format.h"
#include "program/program_text.h"

namespace gluino::kernels {

std::shared_ptr<CompiledLoops> CompiledLoops::of(const Program& program) {
  static auto* all = new SharedByText<CompiledLoops>;
  return all->get(program_text(program), [&] { return std::make_shared<CompiledLoops>(program); });
}

CompiledLoops::CompiledLoops(const Program& program, int64_t patience) : program_(program), patience_(patience) {
  for (int i = 0; i < program.num_results(); ++i) results_[i] = program.result(i);
}

LoopKernel CompiledLoops::find(uint32_t repeated, int64_t elements) {
  if (repeated >= variants_.size()) return nullptr;
  CompiledCode& variant = variants_[repeated];
  advance(variant, repeated, std::nullopt, elements);
  return reinterpret_cast<LoopKernel>(variant.get());
}

const CompiledCode& CompiledLoops::find_combining(ReduceOp how, uint32_t repeated, int64_t elements) {
  CompiledCode* found = nullptr;
  {
    const std::lock_guard lock(mutex_);
    found = &combining_[{how, repeated}];
  }
  advance(*found, repeated, how, elements);
  return *found;
}
bool CompiledLoops::has_combining() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(combining_.begin(), combining_.end(), [](const auto& entry) { return entry.second.get() != nullptr; });
}

void CompiledLoops::advance(CompiledCode& code, uint32_t repeated, std::optional<ReduceOp> how, int64_t elements) {
  if (code.get() || !code.is_due(elements * program_.size() / patience_)) return;
  code.compile([self = shared_from_this(), repeated, how](const Compiler& c, CompileTarget target) {
    return self->compile(c, target, repeated, how);
  });
}

void* CompiledLoops::compile(const Compiler& compiler, CompileTarget target, uint32_t repeated, std::optional<ReduceOp> how) const {
  std::string identity = fmt::format("{} repeated {}", program_text(program_), repeated);
  if (how) identity += fmt::format(" combined {}", static_cast<int>(*how));
  target.identity = identity.c_str();
  const LoopRequest request{.code = &program_[0],
                            .size = program_.size(),
                            .results = results_.data(),
                            .num_results = program_.num_results(),
                            .type = program_.type(),
                            .repeated = repeated,
                            .target = target};
  if (how) return reinterpret_cast<void*>(compiler.combining({request, *how}));
  return reinterpret_cast<void*>(compiler.loop(request));
}

}  // namespace gluino::kernels
