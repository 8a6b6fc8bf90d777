// Compiled loops against the interpreter: the same bits, for every function, type and way of broadcasting.
// This program runs with GLUINO_JIT=wait: what can be compiled is.
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/elementwise.h"
#include "kernels/primitives.h"
#include "kernels/program_text.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using kernels::CompiledLoops;
using kernels::Operand;

// Values of a compute type, stored as their bytes.
struct Values {
  Shape shape;
  std::vector<char> bytes;
};

template <class T>
T special_or_random(std::mt19937_64& engine) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kSpecial[] = {0, T(-0.0), 1, -1, T(0.5), 2, T(-3), T(1e-30), T(1e30), T(88.5), T(-103), INFINITY, -INFINITY, NAN};
    if (engine() % 4 == 0) return kSpecial[engine() % std::size(kSpecial)];
    return static_cast<T>(std::normal_distribution<double>(0, engine() % 2 ? 1 : 20)(engine));
  } else {
    constexpr T kSpecial[] = {0, 1, -1, 2, 7, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    return engine() % 4 ? static_cast<T>(engine() % 41) - 20 : kSpecial[engine() % std::size(kSpecial)];
  }
}
template <class T>
Values random_values(const Shape& shape, std::mt19937_64& engine) {
  Values v{shape, std::vector<char>(static_cast<size_t>(shape.elements()) * sizeof(T))};
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const T x = special_or_random<T>(engine);
    std::memcpy(v.bytes.data() + i * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
  }
  return v;
}
Values random_values(ComputeType type, const Shape& shape, std::mt19937_64& engine) {
  switch (type) {
    case ComputeType::f32: return random_values<float>(shape, engine);
    case ComputeType::f64: return random_values<double>(shape, engine);
    case ComputeType::i32: return random_values<int32_t>(shape, engine);
    case ComputeType::i64: return random_values<int64_t>(shape, engine);
  }
  return {};
}

template <class T>
::testing::AssertionResult same_bits(const std::vector<char>& a, const std::vector<char>& b) {
  for (size_t i = 0; i < a.size() / sizeof(T); ++i) {
    T x, y;
    std::memcpy(&x, a.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b.data() + i * sizeof(T), sizeof(T));
    if (std::memcmp(&x, &y, sizeof(T)) != 0 && !(x != x && y != y))
      return ::testing::AssertionFailure() << "element " << i << ": interpreted " << x << ", compiled " << y;
  }
  return ::testing::AssertionSuccess();
}
::testing::AssertionResult same_bits(ComputeType type, const std::vector<char>& a, const std::vector<char>& b) {
  switch (type) {
    case ComputeType::f32: return same_bits<float>(a, b);
    case ComputeType::f64: return same_bits<double>(a, b);
    case ComputeType::i32: return same_bits<int32_t>(a, b);
    case ComputeType::i64: return same_bits<int64_t>(a, b);
  }
  return ::testing::AssertionFailure();
}

// Runs a program both ways and compares.
::testing::AssertionResult agrees(const Program& program, const std::vector<Values>& inputs, const Shape& shape) {
  const DType dtype = kernels::storage_of(program.type());
  std::vector<Operand> operands;
  for (const Values& v : inputs) operands.push_back({v.bytes.data(), dtype, &v.shape});
  std::vector<char> interpreted(static_cast<size_t>(shape.elements() * dtype_bytes(dtype))), compiled(interpreted.size());
  kernels::run_elementwise(program, operands, interpreted.data(), dtype, shape);
  const auto loops = CompiledLoops::of(program);
  kernels::run_elementwise(program, operands, compiled.data(), dtype, shape, loops.get());
  bool used = false;
  for (uint32_t repeated = 0; repeated < 1u << CompiledLoops::kMostInputs; ++repeated) used |= loops->has(repeated);
  if (!used) return ::testing::AssertionFailure() << "nothing was compiled";
  return same_bits(program.type(), interpreted, compiled);
}

bool is_defined(ScalarFn fn, ComputeType type) {
  return kernels::primitives().scalar[static_cast<int>(fn)][static_cast<size_t>(type)] != nullptr;
}

class CompiledLoop : public ::testing::Test {
  void SetUp() override {
    if (!CompiledLoops::can_compile()) GTEST_SKIP() << "built without LLVM, or it is missing: loops are interpreted";
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

TEST_F(CompiledLoop, TheOutputMayBeAnInput) {
  const Program program = parse_program("f32 x0 x1 multiply(0,1) add(2,0)");
  std::mt19937_64 engine(2);
  const Shape shape{1001};
  const Values a = random_values<float>(shape, engine), b = random_values<float>(shape, engine);
  std::vector<char> expected(a.bytes.size());
  const Operand operands[] = {{a.bytes.data(), DType::float32, &shape}, {b.bytes.data(), DType::float32, &shape}};
  kernels::run_elementwise(program, operands, expected.data(), DType::float32, shape);
  Values in_place = a;
  const Operand own[] = {{in_place.bytes.data(), DType::float32, &shape}, operands[1]};
  kernels::run_elementwise(program, own, in_place.bytes.data(), DType::float32, shape, CompiledLoops::of(program).get());
  EXPECT_TRUE(same_bits<float>(expected, in_place.bytes));
}

}  // namespace
}  // namespace gluino::test
