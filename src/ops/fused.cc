// Several elementwise operators computed in one sweep. Passes make it; see fuse_elementwise.
#include "kernels/elementwise.h"
#include "kernels/program_text.h"
#include "ops/nets.h"

namespace gluino {

namespace ops {
namespace {

// A program with the machine code made from it so far.
struct FusedProgram {
  std::shared_ptr<kernels::CompiledLoops> loops = kernels::CompiledLoops::of(Program(ComputeType::f32));
  const Program& program() const { return loops->program(); }
};

}  // namespace
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
namespace {

struct FusedAttrs {
  FusedProgram program;
  static void fields(AttrFields<FusedAttrs>& f) {
    f.required("program", &FusedAttrs::program, "the instructions: inputs x0, x1, ..., constants, and calls on earlier instructions");
  }
};

// Every input that the program reads must be there, in the type it computes in.
static void check_program(const Program& p, size_t inputs) {
  if (p.size() == 0) raise<AttrError>("the program is empty");
  for (int i = 0; i < p.size(); ++i) {
    if (p[i].fn == ScalarFn::input && p[i].args[0] >= inputs)
      raise<AttrError>("the program reads input {}, but there are {}", p[i].args[0], inputs);
  }
}

static FusedAttrs example() { return {AttrType<FusedProgram>::parse("", "f32 x0 x1 add(0,1) 2 multiply(2,3) tanh(4)")}; }

GLUINO_OP(_fused, FusedAttrs) {
  op.doc("Several elementwise operators in one sweep.")
      .variadic("data")
      .dtypes(DTypeSet::floating)
      .shape([](const FusedAttrs& a, std::span<const Shape> in) {
        check_program(a.program.program(), in.size());
        return broadcast_shapes(in);
      })
      .kernel([](const FusedAttrs& a, KernelContext& k) {
        std::vector<kernels::Operand> operands;
        for (int i = 0; i < k.num_inputs(); ++i) operands.push_back({bytes_of(k.in(i)), k.in(i).dtype(), &k.in(i).shape()});
        kernels::run_elementwise(a.program.program(), operands, bytes_of(k.out()), k.out().dtype(), k.out().shape(), a.program.loops.get());
      })
      .inplace(0)
      .inplace(1)
      .inplace(2)
      .inplace(3)
      .not_differentiable("it is made after differentiation")
      .sample({{3, 4}, {3, 4}}, example())
      .sample({{3, 4}, {4}}, example());
}

}  // namespace
}  // namespace ops
}  // namespace gluino
