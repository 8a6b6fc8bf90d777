#include "kernels/elementwise/eager_loops.h"

#include <map>
#include <mutex>
#include <string>

#include "base/fork.h"
#include "kernels/elementwise/fill_blocks.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {
namespace {

// Below, what goes before the loop is most of a call.
constexpr int64_t kLeastElements = 8192;
// Eager code runs less often than what somebody compiled: it must do more work before it is worth a compiler's.
constexpr int64_t kPatience = 16;
// Of programs that are kept: so many that those in use come back quickly after all were forgotten.
constexpr size_t kMostPrograms = 256;

// Their kernels look for numbers that libm must compute block by block; in a compiled loop the call is in every step.
bool calls_out(ScalarFn fn, ComputeType type) {
  switch (fn) {
    case ScalarFn::sin:
    case ScalarFn::cos:
    case ScalarFn::tan:
    case ScalarFn::gamma:
    case ScalarFn::gammaln:
    case ScalarFn::digamma:
    case ScalarFn::mod: return type == ComputeType::f32 || type == ComputeType::f64;
    default: return false;
  }
}

bool is_worth_it(const Program& p) {
  int calls = 0;
  for (int i = 0; i < p.size(); ++i) {
    if (calls_out(p[i].fn, p.type())) return false;
    calls += arity(p[i].fn) > 0;
  }
  return calls > 1;  // the kernel of a single one is such a loop
}

std::string key_of(const Program& p) {
  std::string key{static_cast<char>(p.type())};
  for (int i = 0; i < p.size(); ++i) {
    const Instruction& in = p[i];
    key += static_cast<char>(in.fn);
    if (in.fn == ScalarFn::constant) key.append(reinterpret_cast<const char*>(&in.value), sizeof in.value);
    for (int k = 0; k < std::max(arity(in.fn), in.fn == ScalarFn::input ? 1 : 0); ++k) key += static_cast<char>(in.args[k]);
  }
  for (int r = 0; r < p.num_results(); ++r) key += static_cast<char>(p.result(r));
  return key;
}

std::shared_ptr<CompiledLoops> loops_of(const Program& program) {
  struct Known {
    NoForkMutex mutex;
    std::map<std::string, std::shared_ptr<CompiledLoops>> loops;
  };
  static auto* known = new Known;
  const std::string key = key_of(program);
  const std::lock_guard lock(known->mutex);
  if (const auto found = known->loops.find(key); found != known->loops.end()) return found->second;
  if (known->loops.size() == kMostPrograms) known->loops.clear();
  return known->loops[key] = std::make_shared<CompiledLoops>(program, kPatience);
}

}  // namespace

EagerLoop::EagerLoop(const Program& program, std::span<const Operand> operands, int64_t elements) {
  if (elements < kLeastElements || operands.size() > operands_.size() || !is_worth_it(program)) return;
  std::copy(operands.begin(), operands.end(), operands_.begin());
  count_ = operands.size();
  Program general(program.type());
  for (int i = 0; i < program.size(); ++i) {
    Instruction in = program[i];
    if (in.fn == ScalarFn::constant && count_ < operands_.size()) {
      in = {ScalarFn::input, {static_cast<uint8_t>(add_number(in.value, storage_of(program.type()))), 0, 0}, 0};
    }
    general.append(in);
  }
  for (int r = 0; r < program.num_results(); ++r) general.add_result(program.result(r));
  loops_ = loops_of(general);
}

int EagerLoop::add_number(double value, DType type) {
  static const Shape one{1};
  fill_constant(value, type, &numbers_[count_], 1);
  operands_[count_] = {&numbers_[count_], type, &one};
  return static_cast<int>(count_++);
}

}  // namespace gluino::kernels
