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

CompiledCode& CompiledLoops::code_of(const Variant& variant) {
  if (!variant.how && !variant.stored) return variants_[variant.repeated];
  const std::lock_guard lock(mutex_);
  return others_[variant];
}

LoopKernel CompiledLoops::find(uint32_t repeated, const std::optional<StoredTypes>& stored, int64_t elements) {
  if (repeated >= variants_.size()) return nullptr;
  const Variant variant{repeated, stored, std::nullopt};
  CompiledCode& code = code_of(variant);
  advance(code, variant, elements);
  return reinterpret_cast<LoopKernel>(code.get());
}

const CompiledCode& CompiledLoops::find_combining(ReduceOp how, uint32_t repeated, const std::optional<StoredTypes>& stored,
                                                  int64_t elements) {
  const Variant variant{repeated, stored, how};
  CompiledCode& code = code_of(variant);
  advance(code, variant, elements);
  return code;
}
bool CompiledLoops::has_any() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(variants_, [](const CompiledCode& code) { return code.get() != nullptr; }) ||
         std::ranges::any_of(others_, [](const auto& entry) { return !entry.first.how && entry.second.get() != nullptr; });
}
bool CompiledLoops::has_combining() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(others_.begin(), others_.end(), [](const auto& entry) { return entry.first.how && entry.second.get() != nullptr; });
}

void CompiledLoops::advance(CompiledCode& code, const Variant& variant, int64_t elements) {
  if (code.get() || !code.is_due(elements * program_.size() / patience_)) return;
  code.compile([self = shared_from_this(), variant](const Compiler& c, CompileTarget target) { return self->compile(c, target, variant); });
}

void* CompiledLoops::compile(const Compiler& compiler, CompileTarget target, const Variant& variant) const {
  std::string identity = fmt::format("{} repeated {}", program_text(program_), variant.repeated);
  if (variant.how) identity += fmt::format(" combined {}", static_cast<int>(*variant.how));
  if (variant.stored) {
    identity += " stored";
    for (const DType dtype : variant.stored->inputs) identity += fmt::format(" {}", static_cast<int>(dtype));
    for (const DType dtype : variant.stored->outputs) identity += fmt::format(" {}", static_cast<int>(dtype));
  }
  target.identity = identity.c_str();
  const LoopRequest request{.code = &program_[0],
                            .size = program_.size(),
                            .results = results_.data(),
                            .num_results = program_.num_results(),
                            .type = program_.type(),
                            .repeated = variant.repeated,
                            .stored = variant.stored ? &*variant.stored : nullptr,
                            .target = target};
  if (variant.how) return reinterpret_cast<void*>(compiler.combining({request, *variant.how}));
  return reinterpret_cast<void*>(compiler.loop(request));
}

}  // namespace gluino::kernels
