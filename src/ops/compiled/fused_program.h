// Scalar programs as attributes of operators that passes make.
#pragma once
#include "ops/common.h"
#include "program/compiled_loops.h"
#include "program/program_text.h"

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

}  // namespace gluino
