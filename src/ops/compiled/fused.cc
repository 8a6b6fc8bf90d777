// Several elementwise operators computed in one sweep, and a reduction of what they give. Passes make them; see fuse_elementwise
// and fuse_reductions.
#include <numeric>

#include "base/fork.h"
#include "dispatch/compiler_rules.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/primitives.h"
#include "kernels/reduce/reduce.h"
#include "kernels/rows/row_kernel.h"
#include "ops/compiled/fused_program.h"
#include "ops/nets.h"
#include "ops/reduce/axes.h"
#include "program/program_text.h"

namespace gluino {

namespace ops {
namespace {

struct FusedAttrs {
  FusedProgram program;
  static void fields(AttrFields<FusedAttrs>& f) {
    f.required("program", &FusedAttrs::program, "the instructions: inputs x0, x1, ..., constants, and calls on earlier instructions");
  }
};

static std::vector<DType> result_dtypes(const Program& p) {
  std::vector<DType> dtypes;
  for (int r = 0; r < p.num_results(); ++r) dtypes.push_back(p.size() ? kernels::dtype_of_value(p, p.result(r)) : DType::float32);
  return dtypes;
}

static std::vector<kernels::Operand> operands_of(KernelContext& k) {
  std::vector<kernels::Operand> operands;
  for (int i = 0; i < k.num_inputs(); ++i) operands.push_back({bytes_of(k.in(i)), k.in(i).dtype(), &k.in(i).shape()});
  return operands;
}

static FusedAttrs program_of(const std::string& text) { return {AttrType<FusedProgram>::parse("", text)}; }
static const char* const kExample = "f32 x0 x1 add(0,1) 2 multiply(2,3) tanh(4)";

// Any inputs, and an output for each result of the program.
template <class A>
static OpBuilder<A>& runs_program(OpBuilder<A>& op) {
  return op.variadic("data")
      .dtypes(DTypeSet::any)
      .num_outputs([](const A& a) { return a.program.program().num_results(); })
      .dtype([](const A& a, std::span<const DType>, DType) { return result_dtypes(a.program.program()); });
}

GLUINO_OP(_fused, FusedAttrs) {
  runs_program(op.doc("Several elementwise operators in one sweep, with one output for each result of the program."))
      .shape([](const FusedAttrs& a, std::span<const Shape> in) {
        check_program(a.program.program(), in.size());
        return broadcast_shapes(in);
      })
      .kernel([](const FusedAttrs& a, KernelContext& k) {
        std::array<kernels::Result, Program::kMaxResults> results;
        for (int r = 0; r < k.num_outputs(); ++r) results[r] = {bytes_of(k.out(r)), k.out(r).dtype()};
        kernels::run_elementwise(a.program.program(), operands_of(k), {results.data(), static_cast<size_t>(k.num_outputs())},
                                 k.out().shape(), a.program.loops.get());
      })
      .not_differentiable("it is made after differentiation")
      .sample({{3, 4}, {3, 4}}, program_of(kExample))
      .sample({{3, 4}, {4}}, program_of(kExample))
      .sample({{3, 4}, {4}}, program_of("f32 x0 x1 add(0,1) to_float16(2) tanh(3) 0 greater(4,5) to_bool(6) -> 7,3,4,2"));
  for (int in = 0; in < kernels::CompiledLoops::kMostInputs; ++in)
    for (int out = 0; out < Program::kMaxResults; ++out) op.inplace(in, out);
  for_compiler(op).program([](const FusedAttrs& a) -> const Program& { return a.program.program(); });
}

// The reduction of trailing axes as a program of rows, which may have machine code. Made when it is first needed.
class RowsOfReduction {
 public:
  const kernels::RowProgram& get(const Program& program, kernels::ReduceOp how, kernels::ReduceFinish finish, int inputs) {
    const std::lock_guard lock(mutex_);
    if (rows_.stages.empty()) {
      std::vector<int> arguments(inputs);
      std::iota(arguments.begin(), arguments.end(), 0);
      rows_.type = program.type();
      rows_.stages.push_back(kernels::map_stage(program, arguments));
      rows_.stages.push_back(kernels::reduction_stage(how, finish, inputs, result_dtypes(program)[0]));
      rows_.results.push_back(inputs + program.num_results());
      for (int r = 1; r < program.num_results(); ++r) rows_.results.push_back(inputs + r);
      rows_.compiled = kernels::CompiledRows::of(row_program_text(rows_));
    }
    return rows_;
  }

 private:
  NoForkMutex mutex_;
  kernels::RowProgram rows_;
};

struct FusedReduceAttrs : FusedAttrs {
  kernels::ReduceOp how = kernels::ReduceOp::sum;
  kernels::ReduceFinish finish = kernels::ReduceFinish::none;
  Shape axis, shape;
  std::shared_ptr<RowsOfReduction> rows = std::make_shared<RowsOfReduction>();
  static void fields(AttrFields<FusedReduceAttrs>& f) {
    using A = FusedReduceAttrs;
    f.required("program", static_cast<FusedProgram A::*>(&A::program), "the instructions, as of _fused")
        .choice("how", &A::how, kReduceNames, "how numbers are combined")
        .choice("finish", &A::finish, kFinishNames, "what is done to the result; divide: by how many there were")
        .required("axis", &A::axis, "the axes that are reduced")
        .required("shape", &A::shape, "the shape of the result");
  }
};
static FusedReduceAttrs reduce_example(Shape axis, Shape shape, const std::string& program = kExample) {
  FusedReduceAttrs a;
  static_cast<FusedAttrs&>(a) = program_of(program);
  a.finish = kernels::ReduceFinish::divide;
  a.axis = std::move(axis);
  a.shape = std::move(shape);
  return a;
}
// How many axes at the end are reduced, if these are all; else 0.
static int trailing_axes(const Shape& shape, const ReducedAxes& reduced) {
  int count = 0;
  while (count < shape.ndim() && reduced[shape.ndim() - 1 - count]) ++count;
  return reduced.list().ndim() == count ? count : 0;
}
static kernels::RowKernel::Outcome run_rows(const FusedReduceAttrs& a, KernelContext& k, std::span<const Shape> shapes, const Shape& whole,
                                            std::span<const kernels::Operand> operands) {
  const Program& program = a.program.program();
  const int axes = trailing_axes(whole, ReducedAxes(whole, a.axis, false));
  const bool is_real = program.type() == ComputeType::f32 || program.type() == ComputeType::f64;
  if (!is_real || whole.elements() == 0 || whole.elements(whole.ndim() - axes, whole.ndim()) < 2) return kernels::RowKernel::Outcome::never;
  std::vector<kernels::Result> results;
  for (int r = 0; r < k.num_outputs(); ++r) results.push_back({bytes_of(k.out(r)), k.out(r).dtype()});
  return kernels::RowKernel(a.rows->get(program, a.how, a.finish, k.num_inputs()), shapes, axes).run_code(operands, results);
}

GLUINO_OP(_fused_reduce, FusedReduceAttrs) {
  runs_program(
      op.doc("A reduction of the first result of several elementwise operators, which is never written down; then the other results."))
      .shape([](const FusedReduceAttrs& a, std::span<const Shape> in) {
        check_program(a.program.program(), in.size());
        if (result_dtypes(a.program.program())[0] == DType::boolean) raise<AttrError>("truth values cannot be reduced");
        const Shape whole = broadcast_shapes(in);
        const int64_t left = ReducedAxes(whole, a.axis, false).result(whole, false).elements();
        if (a.shape.elements() != left) raise<ShapeError>("shape {} has not the {} elements that are left of {}", a.shape, left, whole);
        std::vector<Shape> shapes(a.program.program().num_results(), whole);
        shapes[0] = a.shape;
        return shapes;
      })
      .kernel([](const FusedReduceAttrs& a, KernelContext& k) {
        std::vector<Shape> shapes;
        for (int i = 0; i < k.num_inputs(); ++i) shapes.push_back(k.in(i).shape());
        const Shape whole = broadcast_shapes(shapes);
        const std::vector<kernels::Operand> operands = operands_of(k);
        const auto code = run_rows(a, k, shapes, whole, operands);
        if (code == kernels::RowKernel::Outcome::done) return;
        const Program& program = a.program.program();
        const bool with_loops = code == kernels::RowKernel::Outcome::never;
        const ReducedAxes reduced(whole, a.axis, false);
        std::array<DType, Program::kMaxResults> stored{kernels::storage_of(program.type())};
        for (int r = 1; r < k.num_outputs(); ++r) stored[r] = k.out(r).dtype();
        const kernels::ElementwiseRange range(program, operands, whole, with_loops ? a.program.loops.get() : nullptr,
                                              {stored.data(), static_cast<size_t>(k.num_outputs())},
                                              kernels::ReducedTogether{a.how, kernels::elements_side_by_side(whole, reduced.flags())});
        const auto count = static_cast<size_t>(k.num_outputs());
        const auto results_from = [&](int64_t begin, void* first) {
          std::array<kernels::Result, Program::kMaxResults> results;
          results[0] = {first, kernels::storage_of(program.type())};
          for (int r = 1; r < k.num_outputs(); ++r) {
            const DType dtype = k.out(r).dtype();
            results[r] = {bytes_of(k.out(r)) + begin * dtype_bytes(dtype), dtype};
          }
          return results;
        };
        kernels::ComputedElements elements;
        elements.read = [&](int64_t begin, int64_t end, void* to) { range.run(begin, end, {results_from(begin, to).data(), count}); };
        if (range.combines())
          elements.combine = [&, results = results_from(0, nullptr)](std::span<const int64_t> rows, int64_t n, double* acc) {
            range.combine(rows, n, acc, {results.data() + 1, count - 1});
          };
        kernels::reduce_computed(a.how, a.finish, elements, k.out().dtype(), whole, reduced.flags(), bytes_of(k.out()), k.out().dtype());
      })
      .not_differentiable("it is made after differentiation")
      .sample({{3, 4}, {3, 4}}, reduce_example({1}, {3}))
      .sample({{3, 4}, {4}}, reduce_example({0}, {1, 4}))
      .sample({{3, 4}, {4}}, reduce_example({0}, {1, 4}, "f32 x0 x1 add(0,1) to_float16(2) tanh(3) -> 4,4,3"));
  for (int in = 0; in < kernels::CompiledLoops::kMostInputs; ++in)
    for (int out = 1; out < Program::kMaxResults; ++out) op.inplace(in, out);
}

}  // namespace
}  // namespace ops
}  // namespace gluino
