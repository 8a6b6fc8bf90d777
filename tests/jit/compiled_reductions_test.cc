// Reductions over leading and middle axes, compiled into one loop with what they reduce, against blocks that are computed first: the same
// bits, for every reduction, type and way of broadcasting. This program runs with GLUINO_JIT=wait: what can be compiled is.
#include <array>
#include <random>

#include "base/format.h"
#include "gluino/device.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/primitives.h"
#include "kernels/reduce/reduce.h"
#include "program/program_text.h"
#include "random_values.h"

namespace gluino::test {
namespace {

using kernels::CompiledLoops;
using kernels::Operand;
using kernels::ReduceFinish;
using kernels::ReduceOp;

struct Reduced {
  bool is_combined;
  std::vector<std::vector<char>> outputs;  // the reduction, then the program's other results; all in the program's type
};

using Flags = std::array<bool, Shape::kMaxAxes>;
Flags flags_of(const Shape& axes) {
  Flags flags{};
  for (int i = 0; i < axes.ndim(); ++i) flags[axes[i]] = true;
  return flags;
}

// As _fused_reduce does it. Without loops: interpreted, block by block. `in_place`: where the second result is written; null: elsewhere.
Reduced reduce_program(const Program& program, std::span<const Operand> operands, const Shape& shape, const Shape& axes, ReduceOp how,
                       CompiledLoops* loops, char* in_place = nullptr) {
  const Flags reduced = flags_of(axes);
  int64_t left = shape.elements();
  for (int i = 0; i < axes.ndim(); ++i) left /= shape[static_cast<int>(axes[i])];
  const DType type = kernels::storage_of(program.type()), first = kernels::dtype_of_value(program, program.result(0));
  const auto bytes = static_cast<size_t>(dtype_bytes(type));
  Reduced r{false, {std::vector<char>(static_cast<size_t>(left) * bytes)}};
  for (int i = 1; i < program.num_results(); ++i) r.outputs.emplace_back(static_cast<size_t>(shape.elements()) * bytes, 7);
  const auto results = [&](int64_t begin, void* elements) {
    std::vector<kernels::Result> all{{elements, type}};
    for (size_t i = 1; i < r.outputs.size(); ++i)
      all.push_back({(in_place && i == 1 ? in_place : r.outputs[i].data()) + static_cast<size_t>(begin) * bytes, type});
    return all;
  };
  const kernels::ElementwiseRange range(program, operands, shape, loops, {},
                                        kernels::ReducedTogether{how, kernels::elements_side_by_side(shape, reduced.data())});
  kernels::ComputedElements elements;
  elements.read = [&](int64_t begin, int64_t end, void* to) { range.run(begin, end, results(begin, to)); };
  r.is_combined = range.combines();
  if (r.is_combined)
    elements.combine = [&](std::span<const int64_t> rows, int64_t n, double* acc) {
      const auto all = results(0, nullptr);
      range.combine(rows, n, acc, std::span(all).subspan(1));
    };
  kernels::reduce_computed(how, ReduceFinish::none, elements, first, shape, reduced.data(), r.outputs[0].data(), type);
  return r;
}

struct Case {
  Shape shape, axes;
};
// Rows of all lengths around those where loops change, more of them than are combined at once, and few outputs, for which the reduction
// is split.
const Case kCases[] = {{{1000, 7}, {0}},    {{3, 5, 129}, {0}},   {{3, 5, 129}, {1}},   {{3, 5, 129}, {0, 1}}, {{2, 600, 33}, {1}},
                       {{2, 600, 33}, {0}}, {{2, 600, 150}, {1}}, {{5, 128}, {0}},      {{70, 2, 131}, {0}},   {{3, 4, 5, 160}, {0, 2}},
                       {{4, 3, 2500}, {1}}, {{700, 257}, {0}},    {{2, 3, 40, 30}, {0}}};

::testing::AssertionResult agrees(const std::string& text, std::span<const Operand> operands, const Case& c, ReduceOp how,
                                  bool is_combined) {
  const Program program = parse_program(text);
  const auto loops = CompiledLoops::of(program);
  const Reduced wanted = reduce_program(program, operands, c.shape, c.axes, how, nullptr);
  const Reduced got = reduce_program(program, operands, c.shape, c.axes, how, loops.get());
  const auto where =
      fmt::format(" in {}, {} of {} over {}", text, kernels::kReduceNames[static_cast<size_t>(how)], c.shape.str(), c.axes.str());
  if (got.is_combined != is_combined || wanted.is_combined) return ::testing::AssertionFailure() << "not computed as expected" << where;
  for (size_t r = 0; r < wanted.outputs.size(); ++r)
    if (auto same = same_bits(program.type(), wanted.outputs[r], got.outputs[r]); !same) return same << ", result " << r << where;
  return ::testing::AssertionSuccess();
}

class CompiledReduction : public ::testing::Test {
  void SetUp() override {
    if (!kernels::can_compile()) GTEST_SKIP() << "built without LLVM, or it is missing: programs are interpreted";
  }
};

const char* const kPrograms[] = {
    "x0 x1 subtract(0,1) x2 multiply(2,3)", "x0 x1 add(0,1) x2 0.5 multiply(3,4) maximum(2,5) abs(6) -> 6,2,7,0",
    "x0 x1 x2 select(0,1,2) -> 3,3",
    "x0 x1 x2 add(0,1) add(1,2) -> 0,4",  // an input is reduced
};
const char* const kRoundingPrograms[] = {
    "f32 x0 x1 multiply(0,1) x2 add(2,3) to_float16(4)",
    "f32 x0 x1 x2 add(0,1) multiply(3,2) to_bfloat16(4) -> 5,3",
};

// Values of special kinds, or finite ones of moderate size, where a sum has an order.
Values values_of(ComputeType type, const Shape& shape, bool is_special, std::mt19937_64& engine) {
  if (is_special) return random_values(type, shape, engine);
  Values v{shape, {}};
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const double wide = std::normal_distribution<double>(0.3, 1)(engine);
    const auto narrow = static_cast<float>(wide);
    const auto* from = type == ComputeType::f64 ? reinterpret_cast<const char*>(&wide) : reinterpret_cast<const char*>(&narrow);
    v.bytes.insert(v.bytes.end(), from, from + (type == ComputeType::f64 ? sizeof wide : sizeof narrow));
  }
  return v;
}

std::vector<Operand> operands_of(const std::vector<Values>& values, ComputeType type) {
  std::vector<Operand> operands;
  for (const Values& v : values) operands.push_back({v.bytes.data(), kernels::storage_of(type), &v.shape});
  return operands;
}

TEST_F(CompiledReduction, EveryReductionGivesTheSameBits) {
  std::vector<std::string> programs(std::begin(kRoundingPrograms), std::end(kRoundingPrograms));
  for (const char* program : kPrograms)
    for (const char* type : {"f32 ", "f64 "}) programs.push_back(std::string(type) + program);
  std::mt19937_64 engine(1);
  for (const std::string& text : programs) {
    const ComputeType type = parse_program(text).type();
    const auto kept = CompiledLoops::of(parse_program(text));  // so that each loop is loaded once
    for (const Case& c : kCases) {
      // All elements; one row for all; one number for all, or per row.
      const int last = c.shape.ndim() - 1;
      const Shape row{c.shape[last]}, one{1};
      Shape column = c.shape;
      column[last] = 1;
      const Shape inputs[][3] = {{c.shape, c.shape, c.shape}, {c.shape, row, one}, {c.shape, column, c.shape}, {row, c.shape, column}};
      for (size_t k = 0; k < std::size(inputs); ++k)
        for (const bool is_special : {false, true}) {
          std::vector<Values> values;
          for (const Shape& s : inputs[k]) values.push_back(values_of(type, s, is_special, engine));
          const int64_t run = k == 0 ? kernels::elements_side_by_side(c.shape, flags_of(c.axes).data()) : c.shape[last];
          for (int how = 0; how < kernels::kReduceOps; ++how)
            ASSERT_TRUE(agrees(text, operands_of(values, type), c, static_cast<ReduceOp>(how), run >= 128));
        }
    }
  }
}

TEST_F(CompiledReduction, RowsOfBroadcastOperandsMayBeShorter) {
  std::mt19937_64 engine(2);
  const std::string text = "f32 x0 x1 subtract(0,1) multiply(2,2)";
  const Case c{{3, 50, 70}, {1}}, several{{40, 3, 70}, {0}};
  for (const Case& at : {c, several})
    for (const Shape& other : {Shape{70}, Shape{at.shape[0], at.shape[1], 1}, Shape{at.shape[0], 1, 70}}) {
      const std::vector<Values> values{values_of(ComputeType::f32, at.shape, false, engine),
                                       values_of(ComputeType::f32, other, false, engine)};
      EXPECT_TRUE(agrees(text, operands_of(values, ComputeType::f32), at, ReduceOp::sum, true)) << other.str();
    }
}

TEST_F(CompiledReduction, WhatTheLoopCannotDoIsComputedInBlocks) {
  std::mt19937_64 engine(3);
  const Case c{{40, 300}, {0}};
  const Values x = values_of(ComputeType::f32, c.shape, true, engine);
  std::vector<uint16_t> half(c.shape.elements());
  kernels::convert(x.bytes.data(), DType::float32, half.data(), DType::float16, c.shape.elements());
  const Operand plain[] = {{x.bytes.data(), DType::float32, &c.shape}}, narrow[] = {{half.data(), DType::float16, &c.shape}};
  const std::string square = "f32 x0 multiply(0,0)";
  EXPECT_TRUE(agrees(square, plain, c, ReduceOp::sum, true));
  EXPECT_TRUE(agrees(square, narrow, c, ReduceOp::sum, true));  // is converted in registers
  EXPECT_TRUE(agrees(square, plain, {c.shape, {1}}, ReduceOp::sum, false));
  EXPECT_TRUE(agrees("f32 x0 exp(0) multiply(0,1)", plain, c, ReduceOp::sum, false));
  EXPECT_TRUE(agrees("f32 x0 multiply(0,0) 0 greater(0,2) to_bool(3) -> 1,4", plain, c, ReduceOp::sum, false));
  const Values whole = random_values<int32_t>(c.shape, engine);
  const Operand numbers[] = {{whole.bytes.data(), DType::int32, &c.shape}};
  EXPECT_TRUE(agrees("i32 x0 abs(0)", numbers, c, ReduceOp::max, false));
}

TEST_F(CompiledReduction, AFurtherOutputMayBeAnInput) {
  std::mt19937_64 engine(4);
  const Program program = parse_program("f32 x0 x1 multiply(0,1) subtract(2,0) -> 3,2");
  for (const Case& c : {Case{{90, 200}, {0}}, Case{{3, 70, 2100}, {1}}}) {
    const std::vector<Values> values{values_of(ComputeType::f32, c.shape, true, engine),
                                     values_of(ComputeType::f32, c.shape, true, engine)};
    const Reduced wanted = reduce_program(program, operands_of(values, ComputeType::f32), c.shape, c.axes, ReduceOp::sum, nullptr);
    const auto loops = CompiledLoops::of(program);
    for (size_t over = 0; over < 2; ++over) {
      std::vector<Values> own = values;
      const Reduced got =
          reduce_program(program, operands_of(own, ComputeType::f32), c.shape, c.axes, ReduceOp::sum, loops.get(), own[over].bytes.data());
      EXPECT_TRUE(got.is_combined);
      EXPECT_TRUE(same_bits<float>(wanted.outputs[0], got.outputs[0]));
      EXPECT_TRUE(same_bits<float>(wanted.outputs[1], own[over].bytes));
    }
  }
}

TEST_F(CompiledReduction, IsTheSameForEveryNumberOfThreads) {
  std::mt19937_64 engine(5);
  const int before = num_threads();
  for (const Case& c : {Case{{1000, 300}, {0}}, Case{{30, 20, 3000}, {0}}, Case{{4, 500, 140}, {1}}}) {
    const std::vector<Values> values{values_of(ComputeType::f32, c.shape, false, engine),
                                     values_of(ComputeType::f32, c.shape, false, engine)};
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      EXPECT_TRUE(agrees("f32 x0 x1 multiply(0,1) add(2,0) -> 3,2", operands_of(values, ComputeType::f32), c, ReduceOp::sum, true));
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace gluino::test
