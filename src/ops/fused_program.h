// Scalar programs as attributes of operators that passes make.
#pragma once
#include "kernels/compiled_loops.h"
#include "kernels/primitives.h"
#include "kernels/program_text.h"
#include "ops/common.h"

namespace gluino {

namespace ops {
// A program with the machine code made from it so far.
struct FusedProgram {
  std::shared_ptr<kernels::CompiledLoops> loops = kernels::CompiledLoops::of(Program(ComputeType::f32));
  const Program& program() const { return loops->program(); }
};

}  // namespace ops

template <>
struct AttrType<ops::FusedProgram> {
  static const char* name() { return "std::string"; }
  static ops::FusedProgram parse(const std::string&, const std::string& text) { return {kernels::CompiledLoops::of(parse_program(text))}; }
  static std::string print(const ops::FusedProgram& p) { return program_text(p.program()); }
  static ops::FusedProgram from(const std::string& who, const AttrValue& v) { return parse(who, AttrType<std::string>::from(who, v)); }
  static std::string literal(const ops::FusedProgram& p) { return '"' + print(p) + '"'; }
};

namespace ops {

// Every input that the program reads must be there, and every function be defined in its type.
inline void check_program(const Program& p, size_t inputs) {
  if (p.size() == 0) raise<AttrError>("the program is empty");
  for (int i = 0; i < p.size(); ++i) {
    if (p[i].fn == ScalarFn::input && p[i].args[0] >= inputs)
      raise<AttrError>("the program reads input {}, but there are {}", p[i].args[0], inputs);
    if (arity(p[i].fn) > 0 && !kernels::primitives().scalar[static_cast<int>(p[i].fn)][static_cast<size_t>(p.type())])
      raise<AttrError>("the program calls {}, which is not defined in its type", name(p[i].fn));
  }
}

}  // namespace ops
}  // namespace gluino
