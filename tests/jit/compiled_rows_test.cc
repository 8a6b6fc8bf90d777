// Compiled row programs against the stages run one after the other: the same bits, for every function and reduction, all lengths around
// those where loops change, and random programs. This program runs with GLUINO_JIT=wait: what can be compiled is.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/cache_folder.h"
#include "base/format.h"
#include "kernels/isa/primitives.h"
#include "kernels/rows/row_kernel.h"
#include "random_values.h"

namespace gluino::test {
namespace {

using kernels::Operand;
using kernels::RowKernel;
using kernels::RowProgram;

struct Array {
  Shape shape;
  DType dtype;
  std::vector<char> bytes;
  Operand operand() const { return {bytes.data(), dtype, &shape}; }
};
Array random_array(const Shape& shape, DType dtype, std::mt19937_64& engine) {
  const Values wide = random_values<double>(shape, engine);
  Array a{shape, dtype, std::vector<char>(shape.elements() * dtype_bytes(dtype))};
  kernels::convert(wide.bytes.data(), DType::float64, a.bytes.data(), dtype, shape.elements());
  return a;
}
Array random_index(const Shape& shape, int64_t length, DType dtype, std::mt19937_64& engine) {
  std::vector<int64_t> places(shape.elements());
  for (int64_t& p : places) p = static_cast<int64_t>(engine() % static_cast<uint64_t>(length + 4)) - (dtype == DType::uint8 ? 0 : 2);
  Array a{shape, dtype, std::vector<char>(places.size() * static_cast<size_t>(dtype_bytes(dtype)))};
  kernels::convert(places.data(), DType::int64, a.bytes.data(), dtype, shape.elements());
  return a;
}

std::vector<Array> run(const RowProgram& program, const std::vector<Array>& inputs, int axes) {
  std::vector<Shape> shapes;
  std::vector<Operand> operands;
  for (const Array& a : inputs) {
    shapes.push_back(a.shape);
    operands.push_back(a.operand());
  }
  const RowKernel kernel(program, shapes, axes);
  std::vector<Array> outputs;
  std::vector<kernels::Result> results;
  for (int r = 0; r < static_cast<int>(program.results.size()); ++r) {
    const DType dtype = program.result_dtype(r, static_cast<int>(inputs.size()));
    const Shape& shape = kernel.result_shape(r);
    outputs.push_back({shape, dtype, std::vector<char>(shape.elements() * dtype_bytes(dtype), 7)});
  }
  for (Array& a : outputs) results.push_back({a.bytes.data(), a.dtype});
  kernel.run(operands, results);
  return outputs;
}

std::vector<char> widened(const Array& a) {
  std::vector<char> wide(static_cast<size_t>(a.shape.elements()) * 8);
  kernels::convert(a.bytes.data(), a.dtype, wide.data(), DType::float64, a.shape.elements());
  return wide;
}
// Runs a program both ways and compares.
::testing::AssertionResult agrees(const std::string& text, const std::vector<Array>& inputs, int axes = 1) {
  const RowProgram program = kernels::parse_row_program(text);
  RowProgram stages = program;
  stages.compiled = nullptr;
  const auto wanted = run(stages, inputs, axes), got = run(program, inputs, axes);
  if (!program.compiled->has_code()) return ::testing::AssertionFailure() << "nothing was compiled of " << text;
  for (size_t r = 0; r < wanted.size(); ++r)
    if (auto same = same_bits<double>(widened(wanted[r]), widened(got[r])); !same)
      return same << ", result " << r << " of " << text << " over " << inputs[0].shape.str();
  return ::testing::AssertionSuccess();
}

const std::vector<int64_t>& lengths() {
  static const std::vector<int64_t> all = [] {
    std::vector<int64_t> l;
    for (int64_t n = 2; n <= 70; ++n) l.push_back(n);
    for (int64_t n : {255, 256, 257, 511, 512, 513, 2047, 2048, 2049, 4099, 5000}) l.push_back(n);
    return l;
  }();
  return all;
}

class CompiledRow : public ::testing::Test {
  void SetUp() override {
    if (!kernels::can_compile()) GTEST_SKIP() << "built without LLVM, or it is missing: rows are run stage by stage";
  }
};

struct Type {
  const char* name;
  DType dtype;
};
constexpr Type kTypes[] = {{"f32", DType::float32}, {"f64", DType::float64}};

TEST_F(CompiledRow, EveryReductionGivesTheSameBits) {
  std::mt19937_64 engine(1);
  for (const auto& [type, dtype] : kTypes)
    for (const std::string how : kernels::kReduceNames)
      for (const char* finish : {"none", "divide", "sqrt", "none float16", "divide bfloat16"}) {
        if (std::string(finish).find("float") != std::string::npos && dtype == DType::float64) continue;
        // Alone, of something computed, and beside another one; the result is spread over the row.
        const std::string text = fmt::format(
            "{0}; {1}(0) {2}; map(0,1) {0} x0 x1 multiply(0,1); {1}(3) {2}; map(3,2,4) {0} x0 x1 subtract(0,1) x2 add(2,3); -> 5,2,4,3",
            type, how, finish);
        for (const int64_t n : lengths())
          if (n < 40 || n % 3 == 0) {
            const Shape shape{3, n};
            ASSERT_TRUE(agrees(text, {random_array(shape, dtype, engine), random_array({n}, dtype, engine)}));
          }
        // Finite values, where a sum has an order.
        for (const int64_t n : lengths()) {
          Array x = random_array({3, n}, DType::uint8, engine);
          Array wide{x.shape, dtype, std::vector<char>(x.bytes.size() * static_cast<size_t>(dtype_bytes(dtype)))};
          kernels::convert(x.bytes.data(), DType::uint8, wide.bytes.data(), dtype, x.shape.elements());
          ASSERT_TRUE(agrees(fmt::format("{0}; map(0) {0} x0 sqrt(0) 0.1 subtract(1,2); {1}(1) {2}; -> 2", type, how, finish), {wide}));
        }
      }
}

// A large number at the beginning swallows the ones after it as long as they are added up together.
TEST_F(CompiledRow, SumsAreCarriedOnInTheSameBlocks) {
  const int64_t n = 6000;
  Array x{{2, n}, DType::float32, std::vector<char>(static_cast<size_t>(2 * n) * 4)};
  auto* values = reinterpret_cast<float*>(x.bytes.data());
  for (int64_t i = 0; i < 2 * n; ++i) values[i] = i % n < 16 ? 0x1p24f : i % n >= n - 16 ? -0x1p24f : 1;
  for (const char* finish : {"none", "none float16", "none bfloat16", "divide"})
    EXPECT_TRUE(agrees(fmt::format("f32; map(0) f32 x0 1 multiply(0,1); sum(1) {}; -> 2,1", finish), {x}));
  // One that nobody reads has other blocks.
  EXPECT_TRUE(agrees("f32; sum(0) none; sum(0) none float16; -> 1", {x}));
  EXPECT_TRUE(agrees("f32; sum(0) none float16; sum(0) none; -> 1", {x}));
}

TEST_F(CompiledRow, EveryFunctionGivesTheSameBits) {
  std::mt19937_64 engine(2);
  for (const auto& [t, dtype] : kTypes)
    for (const int64_t n : lengths()) {
      const int64_t rows = 1 + static_cast<int64_t>(engine() % 20);
      const Shape shape{rows, n};
      const auto row = [&] { return random_array(shape, dtype, engine); };
      // Values of moderate size, so that few rows are all NaN.
      const auto small = [&] {
        Array a = random_array(shape, DType::int8, engine);
        Array wide{shape, dtype, std::vector<char>(a.bytes.size() * static_cast<size_t>(dtype_bytes(dtype)))};
        kernels::convert(a.bytes.data(), DType::int8, wide.bytes.data(), dtype, shape.elements());
        return wide;
      };
      for (int kind = 0; kind < 2; ++kind) {
        const Array x = kind ? row() : small(), y = kind ? row() : small();
        for (const char* number : {"1", "0.1"}) {
          ASSERT_TRUE(agrees(fmt::format("{}; softmax(0) {}; map(1) {} x0 2 multiply(0,1); -> 2,1", t, number, t), {x}));
          ASSERT_TRUE(agrees(fmt::format("{}; map(0) {} x0 0.05 multiply(0,1); log_softmax(1) {}; -> 2", t, t, number), {x}));
          ASSERT_TRUE(agrees(fmt::format("{}; softmax_grad(0,1) {}; -> 2", t, number), {x, y}));
          ASSERT_TRUE(agrees(fmt::format("{}; log_softmax_grad(0,1) {}; map(2,0) {} x0 x1 add(0,1); -> 3", t, number, t), {x, y}));
        }
        const Array gamma = random_array({n}, dtype, engine), beta = random_array({n}, dtype, engine);
        ASSERT_TRUE(agrees(
            fmt::format("{}; map(0,1) {} x0 x1 add(0,1); layer_norm(4,2,3) 0.001; map(5,4) {} x0 x1 tanh(1) multiply(0,2); -> 8,4,6,7", t,
                        t, t),
            {x, y, gamma, beta}));
        const Array mean = random_array({rows, 1}, dtype, engine), deviation = random_array({rows}, dtype, engine);
        ASSERT_TRUE(agrees(fmt::format("{}; layer_norm_grad(0,1,2,3,4) 0; map(5,0) {} x0 x1 add(0,1); -> 8,7,6", t, t),
                           {x, y, gamma, mean, deviation}));
        for (const DType index_dtype : {DType::int32, DType::int64, DType::float32, DType::uint8}) {
          const Array index = random_index({rows}, n, index_dtype, engine);
          ASSERT_TRUE(agrees(fmt::format("{}; log_softmax(0) 1; pick(2,1) 0; map(3) {} x0 negative(0); -> 4,2", t, t), {x, index}));
          ASSERT_TRUE(agrees(fmt::format("{}; map(0,1) {} x0 x1 add(0,1) exp(2); pick(3,2) 0; -> 4", t, t), {x, y, index}));
          ASSERT_TRUE(agrees(fmt::format("{}; pick_grad(0,1) 0; log_softmax_grad(3,2) 1; -> 4", t), {mean, index, y}));
        }
      }
    }
}

// Writes random row programs over these inputs: 0, 1: rows; 2: one row for all; 3: one number per row; 4: one number; 5: rows that some
// axes repeat; 6: rows of another dtype; 7: one number per some rows, of another dtype; 8: indices.
class RandomProgram {
 public:
  RandomProgram(const std::string& type, std::mt19937_64& engine)
      : type_(type), engine_(engine), is_row_{true, true, true, false, false, true, true, false} {
    is_row_.push_back(false);
    text_ = type;
    for (uint64_t stages = 2 + engine() % 6; stages-- > 0;) add_stage();
    text_ += fmt::format("; -> {}", is_row_.size() - 1);
    for (uint64_t results = engine() % 4; results-- > 0;) text_ += fmt::format(",{}", kInputs + engine() % (is_row_.size() - kInputs));
  }
  const std::string& text() const { return text_; }

 private:
  static constexpr size_t kInputs = 9, kIndex = 8;
  size_t any() {
    const size_t value = engine_() % 2 ? is_row_.size() - 1 - engine_() % std::min<size_t>(3, is_row_.size()) : engine_() % is_row_.size();
    return value == kIndex ? 0 : value;
  }
  // A row that functions can read.
  size_t row() {
    for (;;)
      if (const size_t v = any(); is_row_[v] && (v < 2 || v >= kInputs)) return v;
  }
  size_t number() {
    for (size_t v = is_row_.size(); v-- > kInputs;)
      if (!is_row_[v]) return v;
    return 3;
  }
  void add(const std::string& stage, std::initializer_list<bool> gives) {
    text_ += "; " + stage;
    is_row_.insert(is_row_.end(), gives);
  }
  void add_stage() {
    static const char* const kNumbers[] = {"1", "0.25"};
    const char* number_text = kNumbers[engine_() % 2];
    switch (engine_() % 12) {
      case 0: return add(fmt::format("softmax({}) {}", row(), number_text), {true});
      case 1: return add(fmt::format("log_softmax({}) {}", row(), number_text), {true});
      case 2: return add(fmt::format("softmax_grad({},{}) {}", row(), row(), number_text), {true});
      case 3: return add(fmt::format("log_softmax_grad({},{}) {}", row(), row(), number_text), {true});
      case 4: return add(fmt::format("layer_norm({},2,2) 0.01", row()), {true, false, false});
      case 5: return add(fmt::format("pick({},{}) 0", row(), kIndex), {false});
      case 6: return add(fmt::format("pick_grad({},{}) 0", number(), kIndex), {true});
      case 7:
      case 8: {
        const char* narrow = type_ == "f32" && engine_() % 4 == 0 ? " float16" : "";
        return add(fmt::format("{}({}) {}{}", kernels::kReduceNames[engine_() % 8], row(), kernels::kFinishNames[engine_() % 3], narrow),
                   {false});
      }
      default: return add_map();
    }
  }
  void add_map() {
    static const char* const kUnary[] = {"exp", "tanh", "negative", "abs", "sigmoid_like", "log1p", "to_bool", "sqrt"};
    static const char* const kBinary[] = {"add", "subtract", "multiply", "divide", "maximum", "greater"};
    std::vector<size_t> arguments;
    for (uint64_t k = 1 + engine_() % 3; k-- > 0;) arguments.push_back(any());
    std::string program = type_;
    size_t size = 0;
    for (; size < arguments.size(); ++size) program += fmt::format(" x{}", size);
    program += " 0.75";
    ++size;
    for (uint64_t k = 1 + engine_() % 6; k-- > 0; ++size) {
      const std::string unary = kUnary[engine_() % std::size(kUnary)];
      if (engine_() % 2)
        program += fmt::format(" {}({},{})", kBinary[engine_() % std::size(kBinary)], engine_() % size, engine_() % size);
      else
        program += fmt::format(" {}({})", unary == "sigmoid_like" ? "erf" : unary, engine_() % size);
    }
    bool gives_row = false;
    for (size_t a : arguments) gives_row |= is_row_[a];
    if (engine_() % 3 == 0) {
      add(fmt::format("map({}) {} -> {},{}", fmt::join(arguments, ","), program, size - 1, engine_() % size), {gives_row, gives_row});
    } else {
      add(fmt::format("map({}) {}", fmt::join(arguments, ","), program), {gives_row});
    }
  }

  const std::string type_;
  std::mt19937_64& engine_;
  std::vector<bool> is_row_;  // by value
  std::string text_;
};

TEST_F(CompiledRow, RandomProgramsGiveTheSameBits) {
  constexpr DType kOthers[] = {DType::float16, DType::bfloat16, DType::int32, DType::uint8, DType::boolean, DType::float64, DType::float32};
  for (uint64_t number = 0; number < 60; ++number) {
    std::mt19937_64 engine(number);
    const auto& [type, dtype] = kTypes[engine() % 4 == 0];
    const std::string text = RandomProgram(type, engine).text();
    const DType other = kOthers[engine() % std::size(kOthers)];
    for (const int64_t n :
         {int64_t{2}, int64_t{3}, int64_t{15}, int64_t{16}, int64_t{17}, int64_t{40}, int64_t{64}, int64_t{300}, int64_t{2060}}) {
      const std::vector<Array> inputs{
          random_array({3, 4, n}, dtype, engine), random_array({3, 4, n}, dtype, engine), random_array({n}, dtype, engine),
          random_array({3, 4, 1}, dtype, engine), random_array({1}, dtype, engine),       random_array({3, 1, n}, dtype, engine),
          random_array({4, n}, other, engine),    random_array({4, 1}, other, engine),    random_index({3, 4, 1}, n, DType::int32, engine)};
      ASSERT_TRUE(agrees(text, inputs)) << "program " << number;
    }
  }
}

TEST_F(CompiledRow, SeveralAxesMayBeARow) {
  std::mt19937_64 engine(4);
  const char* text = "f32; map(0,1,2) f32 x0 x1 add(0,1) x2 multiply(2,3); sum(3) divide; map(3,4) f32 x0 x1 subtract(0,1); -> 5,4";
  ASSERT_TRUE(agrees(text,
                     {random_array({6, 5, 7}, DType::float32, engine), random_array({5, 7}, DType::float32, engine),
                      random_array({6, 1, 1}, DType::float32, engine)},
                     2));
}

TEST_F(CompiledRow, TheFirstResultMayBeAnInput) {
  // The first result is known early, and later sweeps read its place.
  for (const char* text : {"f32; layer_norm(0,1,1) 0.1; map(0,2) f32 x0 x1 add(0,1) -> 2,0; -> 5,2",
                           "f32; softmax(0) 1; map(0) f32 x0 2 multiply(0,1); -> 3,2",
                           "f32; map(0) f32 x0 tanh(0) exp(1) tanh(2); sum(2) none; map(2,3) f32 x0 x1 add(0,1); -> 4,3"}) {
    std::mt19937_64 engine(5);
    const RowProgram program = kernels::parse_row_program(text);
    for (const int64_t n : {5, 64, 700}) {
      std::vector<Array> inputs{random_array({9, n}, DType::float32, engine), random_array({n}, DType::float32, engine)};
      RowProgram stages = program;
      stages.compiled = nullptr;
      const auto wanted = run(stages, inputs, 1);
      std::vector<Shape> shapes{inputs[0].shape, inputs[1].shape};
      const RowKernel kernel(program, shapes, 1);
      std::vector<char> second(wanted[1].bytes.size());
      const std::vector<Operand> operands{inputs[0].operand(), inputs[1].operand()};
      const std::vector<kernels::Result> results{{inputs[0].bytes.data(), DType::float32}, {second.data(), DType::float32}};
      kernel.run(operands, results);
      EXPECT_TRUE(program.compiled->has_code());
      EXPECT_TRUE(same_bits<float>(wanted[0].bytes, inputs[0].bytes)) << text;
      EXPECT_TRUE(same_bits<float>(wanted[1].bytes, second)) << text;
    }
  }
}

// What was compiled once is found on disk: by the text of the program and the dtypes of the inputs.
TEST_F(CompiledRow, CodeIsKeptOnDisk) {
  if (cache_folder().empty()) GTEST_SKIP() << "there is no cache folder (GLUINO_CACHE is empty, or no home): nothing is kept on disk";
  std::mt19937_64 engine(6);
  const auto count = [](const std::string& text) {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(cache_folder())) {
      std::ostringstream content;
      content << std::ifstream(entry.path(), std::ios::binary).rdbuf();
      found += content.str().find(text + " of ") != std::string::npos;
    }
    return found;
  };
  const std::string text = fmt::format("f32; softmax(0) {}; -> 1", 2 + static_cast<double>(engine() % 100) / 8 + getpid());
  EXPECT_EQ(count(text), 0);
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(agrees(text, {random_array({3, 20}, DType::float32, engine)}));
    EXPECT_EQ(count(text), 1);
  }
}

}  // namespace
}  // namespace gluino::test
