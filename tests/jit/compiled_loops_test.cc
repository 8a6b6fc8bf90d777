// Compiled loops against the interpreter: the same bits, for every function, type and way of broadcasting.
// This program runs with GLUINO_JIT=wait: what can be compiled is.
#include <cstring>
#include <random>

#include "kernels/elementwise/eager_loops.h"
#include "kernels/isa/primitives.h"
#include "program/program_text.h"
#include "random_values.h"

namespace gluino::test {
namespace {

using kernels::CompiledLoops;
using kernels::Operand;

// What a program gives for each of its results, kept in the program's type.
std::vector<std::vector<char>> run(const Program& program, std::span<const Operand> operands, const Shape& shape, CompiledLoops* loops) {
  const DType dtype = kernels::storage_of(program.type());
  std::vector<std::vector<char>> bytes(program.num_results(), std::vector<char>(shape.elements() * dtype_bytes(dtype)));
  std::vector<kernels::Result> results;
  for (auto& b : bytes) results.push_back({b.data(), dtype});
  kernels::run_elementwise(program, operands, results, shape, loops);
  return bytes;
}

// Runs a program both ways and compares.
::testing::AssertionResult agrees(const Program& program, std::span<const Operand> operands, const Shape& shape) {
  const auto loops = CompiledLoops::of(program);
  const auto interpreted = run(program, operands, shape, nullptr), compiled = run(program, operands, shape, loops.get());
  if (!loops->has_any()) return ::testing::AssertionFailure() << "nothing was compiled";
  for (size_t r = 0; r < interpreted.size(); ++r)
    if (auto same = same_bits(program.type(), interpreted[r], compiled[r]); !same) return same << ", result " << r;
  return ::testing::AssertionSuccess();
}
::testing::AssertionResult agrees(const Program& program, const std::vector<Values>& inputs, const Shape& shape) {
  std::vector<Operand> operands;
  for (const Values& v : inputs) operands.push_back({v.bytes.data(), kernels::storage_of(program.type()), &v.shape});
  return agrees(program, operands, shape);
}

bool is_defined(ScalarFn fn, ComputeType type) {
  return kernels::primitives().scalar[static_cast<int>(fn)][static_cast<size_t>(type)] != nullptr;
}

class CompiledLoop : public ::testing::Test {
  void SetUp() override {
    if (!kernels::can_compile()) GTEST_SKIP() << "built without LLVM, or it is missing: loops are interpreted";
  }
};

TEST_F(CompiledLoop, EveryFunctionGivesTheSameBits) {
  for (const ComputeType type : {ComputeType::f32, ComputeType::f64, ComputeType::i32, ComputeType::i64})
    for (int f = 0; f < kScalarFunctions; ++f) {
      const auto fn = static_cast<ScalarFn>(f);
      if (!is_defined(fn, type)) continue;
      SCOPED_TRACE(std::string(name(fn)) + " in type " + std::to_string(static_cast<int>(type)));
      Program program(type);
      for (int k = 0; k < arity(fn); ++k) Expr::input(program, k);
      program.append({fn, {0, 1, 2}, 0});
      program.append({ScalarFn::abs, {static_cast<uint8_t>(arity(fn)), 0, 0}, 0});  // a single instruction has a kernel already
      std::mt19937_64 engine(static_cast<uint64_t>(f));
      std::vector<Values> inputs;
      for (int k = 0; k < arity(fn); ++k) inputs.push_back(random_values(type, {1003}, engine));
      EXPECT_TRUE(agrees(program, inputs, {1003}));
    }
}

TEST_F(CompiledLoop, RandomProgramsGiveTheSameBits) {
  const Shape shape{3, 5, 70};
  const Shape kInputShapes[] = {{3, 5, 70}, {1}, {70}, {5, 1}, {3, 1, 70}, {3, 1, 1}};
  for (int number = 0; number < 60; ++number) {
    std::mt19937_64 engine(static_cast<uint64_t>(number));
    const ComputeType type = engine() % 4 == 0 ? ComputeType::f64 : ComputeType::f32;
    Program program(type);
    const int inputs = 1 + static_cast<int>(engine() % 5);
    std::vector<Values> values{random_values(type, shape, engine)};
    Expr::input(program, 0);
    for (int k = 1; k < inputs; ++k) {
      Expr::input(program, k);
      values.push_back(random_values(type, kInputShapes[engine() % std::size(kInputShapes)], engine));
    }
    Expr::constant(program, 0.75);
    for (uint64_t i = 2 + engine() % 25; i-- > 0;) {
      const auto fn = static_cast<ScalarFn>(engine() % static_cast<uint64_t>(kScalarFunctions));
      if (!is_defined(fn, type)) continue;
      const auto pick = [&] { return static_cast<uint8_t>(engine() % static_cast<uint64_t>(program.size())); };
      program.append({fn, {pick(), pick(), pick()}, 0});
    }
    program.append({ScalarFn::add, {0, static_cast<uint8_t>(program.size() - 1), 0}, 0});
    program.append({ScalarFn::multiply, {0, static_cast<uint8_t>(program.size() - 1), 0}, 0});
    for (uint64_t results = engine() % 4; results-- > 0;)
      program.add_result(static_cast<int>(engine() % static_cast<uint64_t>(program.size())));
    EXPECT_TRUE(agrees(program, values, shape)) << program_text(program);
  }
}

TEST_F(CompiledLoop, ShortRowsAreGathered) {
  const Program program = parse_program("f32 x0 x1 add(0,1) tanh(2) multiply(3,1)");
  std::mt19937_64 engine(1);
  const Shape shape{400, 3};
  EXPECT_TRUE(agrees(program, {random_values<float>(shape, engine), random_values<float>({3}, engine)}, shape));
  EXPECT_TRUE(agrees(program, {random_values<float>(shape, engine), random_values<float>({400, 1}, engine)}, shape));
}

// Halves, whole numbers and truth values go into a program in float32, and halves come out.
TEST_F(CompiledLoop, OperandsAndResultsMayHaveOtherTypes) {
  std::mt19937_64 engine(3);
  const Program program =
      parse_program("f32 x0 x1 add(0,1) to_float16(2) x2 select(4,3,0) exp(5) to_bfloat16(6) x3 add(3,8) tanh(9) -> 10,3,7,9");
  for (const Shape& shape : {Shape{7, 300}, Shape{300, 7}, Shape{5}}) {
    Shape column = shape;
    column[shape.ndim() - 1] = 1;
    const Values f = random_values<float>(shape, engine), k = random_values<int32_t>(column, engine),
                 wide = random_values<double>(shape, engine);
    std::vector<uint16_t> half(shape.elements());
    kernels::convert(f.bytes.data(), DType::float32, half.data(), DType::float16, shape.elements());
    const std::vector<char> mask = {1};
    const Shape one{1};
    const Operand operands[] = {{half.data(), DType::float16, &shape},
                                {k.bytes.data(), DType::int32, &column},
                                {mask.data(), DType::boolean, &one},
                                {wide.bytes.data(), DType::float64, &shape}};
    EXPECT_TRUE(agrees(program, operands, shape)) << shape.str();
    // The second result fits into 16 bits: it is the same when it is kept so.
    const auto wanted = run(program, operands, shape, nullptr);
    const auto compiled = CompiledLoops::of(program);
    for (CompiledLoops* loops : {static_cast<CompiledLoops*>(nullptr), compiled.get()}) {
      std::vector<std::vector<char>> bytes(4, std::vector<char>(wanted[0].size()));
      const kernels::Result results[] = {{bytes[0].data(), DType::float32},
                                         {bytes[1].data(), DType::float16},
                                         {bytes[2].data(), DType::bfloat16},
                                         {bytes[3].data(), DType::float32}};
      kernels::run_elementwise(program, operands, results, shape, loops);
      for (size_t r = 0; r < 4; ++r) {
        std::vector<char> widened(wanted[r].size());
        kernels::convert(bytes[r].data(), results[r].dtype, widened.data(), DType::float32, shape.elements());
        EXPECT_TRUE(same_bits<float>(wanted[r], widened)) << "result " << r;
      }
    }
  }
}

TEST_F(CompiledLoop, AnOutputMayBeAnInput) {
  const Program program = parse_program("f32 x0 x1 multiply(0,1) exp(2) tanh(3) add(4,0) multiply(5,1) -> 6,2,4");
  std::mt19937_64 engine(2);
  const Shape shape{1001};
  const Values a = random_values<float>(shape, engine), b = random_values<float>(shape, engine);
  const Operand operands[] = {{a.bytes.data(), DType::float32, &shape}, {b.bytes.data(), DType::float32, &shape}};
  const auto expected = run(program, operands, shape, nullptr);
  const auto compiled = CompiledLoops::of(program);
  for (CompiledLoops* loops : {static_cast<CompiledLoops*>(nullptr), compiled.get()})
    for (size_t over_a = 0; over_a < 3; ++over_a) {
      Values first = a, second = b;
      std::vector<char> other(a.bytes.size());
      const Operand own[] = {{first.bytes.data(), DType::float32, &shape}, {second.bytes.data(), DType::float32, &shape}};
      std::vector<kernels::Result> results(3, {second.bytes.data(), DType::float32});
      results[over_a].data = first.bytes.data();
      results[(over_a + 1) % 3].data = other.data();
      kernels::run_elementwise(program, own, results, shape, loops);
      for (size_t r = 0; r < 3; ++r)
        EXPECT_EQ(std::memcmp(results[r].data, expected[r].data(), expected[r].size()), 0) << "result " << r << ", over a: " << over_a;
    }
}

// Eager calls have no loops of their own to hand over: those of programs that differ in their numbers alone are the same.
TEST_F(CompiledLoop, EagerCallsShareLoopsWhateverTheirNumbers) {
  std::mt19937_64 engine(5);
  const Shape shape{100, 200}, row{200}, few{1000};
  for (const char* text : {"f32 x0 -1 maximum(0,1) 1 minimum(2,3)", "f32 x0 0 greater(0,1) x1 multiply(0,3) select(2,0,4)",
                           "f64 x0 0.5 multiply(0,1) x1 add(2,3) -> 4,2", "i32 x0 3 multiply(0,1) 7 add(2,3)",
                           "f32 x0 1 add(0,1) 2 add(2,3) 3 add(4,5) 4 add(6,7) 5 add(8,9) 6 add(10,11) 7 add(12,13) 8 multiply(14,15)"}) {
    const Program program = parse_program(text);
    const DType dtype = kernels::storage_of(program.type());
    const Values a = random_values(program.type(), shape, engine), b = random_values(program.type(), row, engine);
    const std::vector<Operand> operands{{a.bytes.data(), dtype, &shape}, {b.bytes.data(), dtype, &row}};
    const auto whole = run(program, operands, shape, nullptr);
    const kernels::EagerLoop made(program, operands, shape.elements());
    ASSERT_TRUE(made.loops()) << text;
    EXPECT_TRUE(made.loops()->has_any()) << text;
    // Few elements are interpreted.
    EXPECT_FALSE(kernels::EagerLoop(program, operands, few.elements()).loops());
    for (int64_t first = 0; first < shape.elements(); first += few.elements()) {
      const Shape part{5, 200};
      const std::vector<Operand> some{{a.bytes.data() + first * dtype_bytes(dtype), dtype, &part}, operands[1]};
      const auto wanted = run(program, some, part, nullptr);
      for (size_t r = 0; r < whole.size(); ++r) {
        const auto from = whole[r].begin() + first * dtype_bytes(dtype);
        EXPECT_TRUE(same_bits(program.type(), wanted[r], {from, from + static_cast<ptrdiff_t>(wanted[r].size())})) << text;
      }
    }
  }
  const Program wide = parse_program("f32 x0 -2 maximum(0,1) 5 minimum(2,3)"),
                narrow = parse_program("f32 x0 0 maximum(0,1) 1 minimum(2,3)");
  const std::vector<Operand> none{{nullptr, DType::float32, &shape}};
  EXPECT_EQ(kernels::EagerLoop(wide, none, 20000).loops(), kernels::EagerLoop(narrow, none, 20000).loops());
}

}  // namespace
}  // namespace gluino::test
