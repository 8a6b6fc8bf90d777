// Operators over rows with the elementwise ones around them, in one sweep. The pass fuse_rows makes it.
#include "kernels/rows/row_kernel.h"
#include "ops/nets.h"

namespace gluino {

template <>
struct AttrType<kernels::RowProgram> {
  using Value = kernels::RowProgram;
  static const char* name() { return "std::string"; }
  static Value parse(const std::string&, const std::string& text) { return kernels::parse_row_program(text); }
  static std::string print(const Value& p) { return kernels::row_program_text(p); }
  static Value from(const std::string& who, const AttrValue& v) { return parse(who, AttrType<std::string>::from(who, v)); }
  static std::string literal(const Value& p) { return '"' + print(p) + '"'; }
};

namespace ops {
namespace {

struct FusedRowsAttrs {
  kernels::RowProgram program;
  int64_t axes = 1;
  Shape flat;
  static void fields(AttrFields<FusedRowsAttrs>& f) {
    f.required("program", &FusedRowsAttrs::program, "the stages, over values by number: first the inputs, then what earlier stages gave")
        .field("axes", &FusedRowsAttrs::axes, "how many axes at the end are one row")
        .field("flat", &FusedRowsAttrs::flat, "the outputs with one number per row that have not the axes of a row");
  }
};
static FusedRowsAttrs example(const std::string& text, int64_t axes = 1, Shape flat = {}) {
  return {kernels::parse_row_program(text), axes, std::move(flat)};
}

GLUINO_OP(_fused_rows, FusedRowsAttrs) {
  op.doc("Operators over rows and elementwise ones in one sweep, row by row, with one output for each result of the program.")
      .variadic("data")
      .dtypes(DTypeSet::any)
      .num_outputs([](const FusedRowsAttrs& a) { return a.program.results.size(); })
      .dtype([](const FusedRowsAttrs& a, std::span<const DType> in, DType) {
        std::vector<DType> dtypes;
        for (size_t r = 0; r < a.program.results.size(); ++r)
          dtypes.push_back(a.program.result_dtype(static_cast<int>(r), static_cast<int>(in.size())));
        return dtypes;
      })
      .shape([](const FusedRowsAttrs& a, std::span<const Shape> in) {
        const kernels::RowKernel kernel(a.program, in, static_cast<int>(a.axes));
        std::vector<Shape> shapes;
        for (size_t r = 0; r < a.program.results.size(); ++r) shapes.push_back(kernel.result_shape(static_cast<int>(r)));
        for (int64_t r : a.flat) {
          if (r < 0 || r >= static_cast<int64_t>(shapes.size())) raise<AttrError>("there is no output {} to leave out axes of", r);
          Shape& shape = shapes[r];
          if (shape.elements(shape.ndim() - static_cast<int>(a.axes), shape.ndim()) != 1) raise<AttrError>("output {} has rows", r);
          for (int64_t i = 0; i < a.axes; ++i) shape.erase(shape.ndim() - 1);
        }
        return shapes;
      })
      .kernel([](const FusedRowsAttrs& a, KernelContext& k) {
        std::vector<Shape> shapes;
        std::vector<kernels::Operand> operands;
        for (int i = 0; i < k.num_inputs(); ++i) {
          shapes.push_back(k.in(i).shape());
          operands.push_back({bytes_of(k.in(i)), k.in(i).dtype(), &k.in(i).shape()});
        }
        std::vector<kernels::Result> results;
        for (int r = 0; r < k.num_outputs(); ++r) results.push_back({bytes_of(k.out(r)), k.out(r).dtype()});
        kernels::RowKernel(a.program, shapes, static_cast<int>(a.axes)).run(operands, results);
      })
      .not_differentiable("it is made after differentiation")
      .sample({{3, 4}, {4}}, example("f32; map(0,1) f32 x0 x1 add(0,1); softmax(2) 1; map(3,1) f32 x0 x1 multiply(0,1); -> 4,3"))
      .sample({{2, 3, 4}, {3, 4}},
              example("f32; map(0,1) f32 x0 x1 add(0,1); sum(2) divide; map(2,3) f32 x0 x1 subtract(0,1); -> 4,3", 2, {1}));
  for (int in = 0; in < kernels::CompiledLoops::kMostInputs; ++in) op.inplace(in);
}

}  // namespace
}  // namespace ops
}  // namespace gluino
