#include "program/compiled_rows.h"

#include <algorithm>

#include "base/format.h"

namespace gluino::kernels {

std::shared_ptr<CompiledRows> CompiledRows::of(const std::string& text) {
  static auto* all = new SharedByText<CompiledRows>;
  return all->get(text, [&] { return std::make_shared<CompiledRows>(text); });
}

const RowsVariant& CompiledRows::find(const RowProgram& program, std::span<const RowInput> inputs, std::span<const RowOutput> outputs,
                                      int64_t elements) {
  const auto is_same = [](const RowOutput& a, const RowOutput& b) { return a.kind == b.kind && a.dtype == b.dtype; };
  RowsVariant* found = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& v : variants_)
      if (std::ranges::equal(v->inputs, inputs) && std::ranges::equal(v->outputs, outputs, is_same)) found = v.get();
    if (!found) {
      found = variants_.emplace_back(std::make_unique<RowsVariant>()).get();
      found->inputs.assign(inputs.begin(), inputs.end());
      found->outputs.assign(outputs.begin(), outputs.end());
      found->plan = plan_sweeps(program, inputs, outputs);
    }
  }
  if (found->plan && !found->kernel() && found->code.is_due(elements * static_cast<int64_t>(found->plan->code.size())))
    found->code.compile([self = shared_from_this(), found, type = program.type](const Compiler& c, CompileTarget target) {
      return self->compile(c, target, *found, type);
    });
  return *found;
}

bool CompiledRows::has_code() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(variants_.begin(), variants_.end(), [](const auto& v) { return v->kernel() != nullptr; });
}

void* CompiledRows::compile(const Compiler& compiler, CompileTarget target, const RowsVariant& variant, ComputeType type) const {
  std::string identity = text_ + " of";
  for (const RowInput& in : variant.inputs) identity += fmt::format(" {}{}", dtype_name(in.dtype), in.is_row ? "" : " number");
  identity += " to";
  for (const RowOutput& out : variant.outputs) identity += fmt::format(" {}", dtype_name(out.dtype));
  target.identity = identity.c_str();
  const RowSweeps& plan = *variant.plan;
  const RowsRequest request{.type = type,
                            .code = plan.code.data(),
                            .size = static_cast<int>(plan.code.size()),
                            .inputs = plan.inputs.data(),
                            .num_inputs = static_cast<int>(plan.inputs.size()),
                            .outputs = plan.outputs.data(),
                            .num_outputs = static_cast<int>(plan.outputs.size()),
                            .sweeps = plan.sweeps,
                            .target = target};
  return reinterpret_cast<void*>(compiler.rows(request));
}

}  // namespace gluino::kernels
