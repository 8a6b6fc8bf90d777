// Arrays of 16-bit floats are converted in registers: with the bits of arrays that are widened, computed in float32 and narrowed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "gluino/op.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/primitives.h"
#include "kernels/reduce/reduce.h"

namespace gluino::test {
namespace {

using kernels::convert;

// Elements of every size, zeros, infinities and numbers that are none.
std::vector<uint16_t> narrow_values(int64_t n, DType dtype, bool is_special, std::mt19937& engine) {
  std::normal_distribution<float> normal;
  std::vector<float> wide(static_cast<size_t>(n));
  for (float& x : wide) {
    x = normal(engine) * std::exp2(static_cast<float>(engine() % 40) - 25.0f);
    if (is_special && engine() % 8 == 0) x = std::vector<float>{0.0f, -0.0f, INFINITY, -INFINITY, NAN}[engine() % 5];
  }
  std::vector<uint16_t> narrow(wide.size());
  convert(wide.data(), DType::float32, narrow.data(), dtype, n);
  return narrow;
}
bool is_nan(uint16_t x, DType dtype) { return (x & 0x7fff) > (dtype == DType::float16 ? 0x7c00 : 0x7f80); }
// Which of several NaN comes through is open.
::testing::AssertionResult same(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, DType dtype) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(is_nan(a[i], dtype) && is_nan(b[i], dtype)))
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  return ::testing::AssertionSuccess();
}

TEST(NarrowFloats, EveryFunctionOfArraysGivesTheBitsOfFloat32) {
  std::mt19937 engine(1);
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (int f = 0; f < kScalarFunctions; ++f) {
      const auto fn = static_cast<ScalarFn>(f);
      if (!kernels::primitives().scalar[f][static_cast<size_t>(ComputeType::f32)]) continue;
      Program program(ComputeType::f32);
      for (int k = 0; k < arity(fn); ++k) program.append({ScalarFn::input, {static_cast<uint8_t>(k), 0, 0}, 0});
      program.append({fn, {0, 1, 2}, 0});
      // All of them whole, and each in turn one number, a row and a column.
      for (const Shape& shape : {Shape{5}, Shape{16}, Shape{3, 203}})
        for (int narrower = -1; narrower < 3 * arity(fn); ++narrower) {
          std::vector<Shape> shapes(static_cast<size_t>(arity(fn)), shape);
          if (narrower >= 0) {
            Shape& own = shapes[static_cast<size_t>(narrower / 3)];
            if (narrower % 3 != 1) own[shape.ndim() - 1] = 1;
            if (narrower % 3 != 2) own[0] = shape.ndim() == 1 && narrower % 3 == 1 ? own[0] : 1;
          }
          std::vector<std::vector<uint16_t>> values;
          std::vector<std::vector<float>> widened;
          std::vector<kernels::Operand> narrow, wide;
          for (const Shape& own : shapes) {
            values.push_back(narrow_values(own.elements(), dtype, true, engine));
            widened.emplace_back(values.back().size());
            convert(values.back().data(), dtype, widened.back().data(), DType::float32, own.elements());
          }
          for (size_t k = 0; k < shapes.size(); ++k) {
            narrow.push_back({values[k].data(), dtype, &shapes[k]});
            wide.push_back({widened[k].data(), DType::float32, &shapes[k]});
          }
          std::vector<float> expected(static_cast<size_t>(shape.elements()));
          std::vector<uint16_t> rounded(expected.size()), got(expected.size());
          kernels::run_elementwise(program, wide, expected.data(), DType::float32, shape);
          convert(expected.data(), DType::float32, rounded.data(), dtype, shape.elements());
          kernels::run_elementwise(program, narrow, got.data(), dtype, shape);
          ASSERT_TRUE(same(got, rounded, dtype)) << name(fn) << " of " << shape.str() << ", " << narrower;
        }
    }
}

// Sums are carried on in double after every kWidenedBlock elements.
TEST(NarrowFloats, ReductionsGiveTheBitsOfWidenedBlocks) {
  std::mt19937 engine(2);
  constexpr int64_t kRows = 21;
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (int h = 0; h < kernels::kReduceOps; ++h)
      for (const int64_t n : {16, 1024, 1024 + 48, 9 * 512}) {
        const auto how = static_cast<kernels::ReduceOp>(h);
        const Shape shape{kRows, n};
        const auto x = narrow_values(shape.elements(), dtype, h % 2 == 0, engine);
        std::vector<float> wide(x.size());
        convert(x.data(), dtype, wide.data(), DType::float32, shape.elements());
        const bool last[] = {false, true}, first[] = {true, false};
        std::vector<double> along(kRows), across(static_cast<size_t>(n)), wanted(static_cast<size_t>(n));
        kernels::reduce(how, kernels::ReduceFinish::none, x.data(), dtype, shape, last, along.data(), DType::float64);
        kernels::reduce(how, kernels::ReduceFinish::none, x.data(), dtype, shape, first, across.data(), DType::float64);
        kernels::reduce(how, kernels::ReduceFinish::none, wide.data(), DType::float32, shape, first, wanted.data(), DType::float64);
        for (int64_t i = 0; i < n; ++i)
          ASSERT_TRUE(across[i] == wanted[i] || (across[i] != across[i] && wanted[i] != wanted[i])) << kernels::name(how) << " " << n;
        for (int64_t r = 0; r < kRows; ++r) {
          std::vector<double> blocks;
          for (int64_t at = 0; at < n; at += kernels::kWidenedBlock) {
            const Shape block{1, std::min(kernels::kWidenedBlock, n - at)};
            blocks.emplace_back();
            kernels::reduce(how, kernels::ReduceFinish::none, wide.data() + r * n + at, DType::float32, block, last, &blocks.back(),
                            DType::float64);
          }
          const kernels::ReduceOp joined = how == kernels::ReduceOp::max || how == kernels::ReduceOp::min        ? how
                                           : how == kernels::ReduceOp::prod || how == kernels::ReduceOp::nanprod ? kernels::ReduceOp::prod
                                                                                                                 : kernels::ReduceOp::sum;
          double total = blocks[0];
          for (size_t b = 1; b < blocks.size(); ++b)
            total = joined == kernels::ReduceOp::sum    ? total + blocks[b]
                    : joined == kernels::ReduceOp::prod ? total * blocks[b]
                    : joined == kernels::ReduceOp::max  ? (blocks[b] > total || blocks[b] != blocks[b] ? blocks[b] : total)
                                                        : (blocks[b] < total || blocks[b] != blocks[b] ? blocks[b] : total);
          ASSERT_TRUE(along[r] == total || (along[r] != along[r] && total != total)) << kernels::name(how) << " " << n;
        }
      }
}

// Running sums are carried in double and rounded one by one; places are those of the same numbers in float32.
TEST(NarrowFloats, RunningSumsAndPlacesAreThoseOfWidenedElements) {
  std::mt19937 engine(3);
  for (const DType dtype : {DType::float16, DType::bfloat16})
    for (const Shape& shape : {Shape{3, 1300}, Shape{700, 40}, Shape{2, 5, 3}}) {
      const auto bits = narrow_values(shape.elements(), dtype, false, engine);
      std::vector<float> wide(bits.size());
      convert(bits.data(), dtype, wide.data(), DType::float32, shape.elements());
      const Tensor x = from_vector(wide, shape), narrow = x.astype(dtype);
      for (int axis = 0; axis < shape.ndim(); ++axis) {
        const AttrValue at = int64_t{axis};
        for (const char* op : {"cumsum", "_cumsum_backward"}) {
          const Tensor expected = call(op, {x.astype(DType::float64)}, {{"axis", at}}).astype(DType::float32).astype(dtype);
          EXPECT_EQ(call(op, {narrow}, {{"axis", at}}).to_vector(), expected.to_vector()) << op << " " << shape.str();
        }
        for (const char* op : {"argmax", "argmin"})
          EXPECT_EQ(call(op, {narrow}, {{"axis", at}}).to_vector(), call(op, {x}, {{"axis", at}}).to_vector()) << op << " " << shape.str();
      }
    }
}

}  // namespace
}  // namespace gluino::test
