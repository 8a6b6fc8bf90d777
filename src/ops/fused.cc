// Several elementwise operators computed in one sweep. Passes make it; see fuse_elementwise.
#include "kernels/elementwise.h"
#include "op/program_text.h"
#include "ops/nets.h"

namespace gluino {

template <>
struct AttrType<Program> {
  static const char* name() { return "std::string"; }
  static Program parse(const std::string&, const std::string& text) { return parse_program(text); }
  static std::string print(const Program& p) { return program_text(p); }
  static Program from(const std::string& who, const AttrValue& v) { return parse_program(AttrType<std::string>::from(who, v)); }
  static std::string literal(const Program& p) { return '"' + program_text(p) + '"'; }
};

namespace ops {
namespace {

struct FusedAttrs {
  Program program{ComputeType::f32};
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

static FusedAttrs example() { return {parse_program("f32 x0 x1 add(0,1) 2 multiply(2,3) tanh(4)")}; }

GLUINO_OP(_fused, FusedAttrs) {
  op.doc("Several elementwise operators in one sweep.")
      .variadic("data")
      .dtypes(DTypeSet::floating)
      .shape([](const FusedAttrs& a, std::span<const Shape> in) {
        check_program(a.program, in.size());
        return broadcast_shapes(in);
      })
      .kernel([](const FusedAttrs& a, KernelContext& k) {
        std::vector<kernels::Operand> operands;
        for (int i = 0; i < k.num_inputs(); ++i) operands.push_back({bytes_of(k.in(i)), k.in(i).dtype(), &k.in(i).shape()});
        kernels::run_elementwise(a.program, operands, bytes_of(k.out()), k.out().dtype(), k.out().shape());
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
