#include "kernels/compiled_loops.h"

#include "base/format.h"
#include "kernels/program_text.h"

namespace gluino::kernels {

std::shared_ptr<CompiledLoops> CompiledLoops::of(const Program& program) {
  static auto* all = new SharedByText<CompiledLoops>;
  return all->get(program_text(program), [&] { return std::make_shared<CompiledLoops>(program); });
}

LoopKernel CompiledLoops::find(uint32_t repeated, int64_t elements) {
  if (repeated >= variants_.size()) return nullptr;
  CompiledCode& variant = variants_[repeated];
  if (!variant.get() && variant.is_due(elements * program_.size()))
    variant.compile(
        [self = shared_from_this(), repeated](const Compiler& c, CompileTarget target) { return self->compile(c, target, repeated); });
  return reinterpret_cast<LoopKernel>(variant.get());
}

void* CompiledLoops::compile(const Compiler& compiler, CompileTarget target, uint32_t repeated) const {
  const std::string identity = fmt::format("{} repeated {}", program_text(program_), repeated);
  target.identity = identity.c_str();
  std::array<int, Program::kMaxResults> results;
  for (int i = 0; i < program_.num_results(); ++i) results[static_cast<size_t>(i)] = program_.result(i);
  const LoopRequest request{.code = &program_[0],
                            .size = program_.size(),
                            .results = results.data(),
                            .num_results = program_.num_results(),
                            .type = program_.type(),
                            .repeated = repeated,
                            .target = target};
  return reinterpret_cast<void*>(compiler.loop(request));
}

}  // namespace gluino::kernels
