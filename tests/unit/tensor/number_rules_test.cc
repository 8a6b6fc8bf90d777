// Dtypes and values of C++'s operators on tensors and numbers: NumPy's rules with float32 as the default.
#include <gtest/gtest.h>

#include "gluino/gluino.h"

namespace gluino {
namespace {

const DType kWhole[] = {DType::uint8, DType::int8, DType::int32, DType::int64};

void expect_values(const Tensor& t, DType dtype, const std::vector<double>& values) {
  EXPECT_EQ(dtype_name(t.dtype()), dtype_name(dtype));
  EXPECT_EQ(t.to_vector<double>(), values);
}

TEST(NumberRules, ComparisonsGiveTruthValues) {
  for (DType dtype : kAllDTypes) {
    const Tensor x = tensor({1, 0, 1}, dtype), y = tensor({1, 1, 0}, dtype);
    expect_values(x == y, DType::boolean, {1, 0, 0});
    expect_values(x != y, DType::boolean, {0, 1, 1});
    expect_values(x < y, DType::boolean, {0, 1, 0});
    expect_values(x <= y, DType::boolean, {1, 1, 0});
    expect_values(x > y, DType::boolean, {0, 0, 1});
    expect_values(x >= y, DType::boolean, {1, 0, 1});
    expect_values(x == 1, DType::boolean, {1, 0, 1});
    expect_values(0 < x, DType::boolean, {1, 0, 1});
    expect_values(0.5 >= x, DType::boolean, {0, 1, 0});
    expect_values(1 != x, DType::boolean, {0, 1, 0});
  }
}

TEST(NumberRules, WholeNumbersAreComparedWithFractionsExactly) {
  for (DType dtype : kWhole) {
    const Tensor x = tensor({2, 3}, dtype);
    expect_values(x >= 2.5, DType::boolean, {0, 1});
    expect_values(x == 2.5, DType::boolean, {0, 0});
    expect_values(x < 2.5, DType::boolean, {1, 0});
  }
}

TEST(NumberRules, AFractionMakesWholeNumbersFloat) {
  for (DType dtype : kWhole) {
    const Tensor x = tensor({1, 3, 5}, dtype);
    expect_values(x * 2.5, DType::float32, {2.5, 7.5, 12.5});
    expect_values(2.5 - x, DType::float32, {1.5, -0.5, -2.5});
    expect_values(x + 1.0, DType::float32, {2, 4, 6});
    expect_values(x / 2, DType::float32, {0.5, 1.5, 2.5});
    expect_values(1 / x, DType::float32, {1, 1.0f / 3, 1.0f / 5});
    expect_values(x / x, DType::float32, {1, 1, 1});
    expect_values(x * 2, dtype, {2, 6, 10});
    expect_values(x % 3, dtype, {1, 0, 2});
    expect_values(7 % x, dtype, {0, 1, 2});
  }
}

TEST(NumberRules, FloatsKeepTheirDtype) {
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const Tensor x = tensor({1, 2}, dtype);
    expect_values(x * 2.5, dtype, {2.5, 5});
    expect_values(x + 1, dtype, {2, 3});
    expect_values((x > 1) * x, dtype, {0, 2});
  }
}

TEST(NumberRules, TruthValuesCount) {
  const Tensor on = tensor({1, -1, 2}) > 0;
  expect_values(on * 2, DType::int64, {2, 0, 2});
  expect_values(1 - on, DType::int64, {0, 1, 0});
  expect_values(on * 0.5, DType::float32, {0.5, 0, 0.5});
  expect_values(on.sum(), DType::int64, {2});
  EXPECT_FLOAT_EQ(on.mean().item(), 2.0f / 3);
}

TEST(NumberRules, LogicOfTruthValuesAndBitsOfWholeNumbers) {
  const Tensor a = tensor({1, 1, 0, 0}) > 0, b = tensor({1, 0, 1, 0}) > 0;
  expect_values(a & b, DType::boolean, {1, 0, 0, 0});
  expect_values(a | b, DType::boolean, {1, 1, 1, 0});
  expect_values(a ^ b, DType::boolean, {0, 1, 1, 0});
  expect_values(~a, DType::boolean, {0, 0, 1, 1});
  const Tensor i = tensor({6, 5}, DType::int32), j = tensor({3, 1}, DType::int32);
  expect_values(i & j, DType::int32, {2, 1});
  expect_values(i | j, DType::int32, {7, 5});
  expect_values(~i, DType::int32, {-7, -6});
}

TEST(NumberRules, MasksPickAndWrite) {
  Tensor x = tensor({1, -2, 3, -4});
  expect_values(x[x > 0], DType::float32, {1, 3});
  expect_values(x[(x > 0) & (x < 2)], DType::float32, {1});
  x[x < 0] = 0.0;
  expect_values(x, DType::float32, {1, 0, 3, 0});
  const Tensor table = tensor({{1, 2}, {3, 4}});
  expect_values(table[table > 1], DType::float32, {2, 3, 4});
}

TEST(NumberRules, FractionsAreNoIndices) {
  const Tensor x = tensor({1, 2, 3});
  EXPECT_THROW(x[tensor({0, 1})], IndexError);
  EXPECT_THROW((x[{tensor({0.5})}]), IndexError);
}

TEST(NumberRules, InPlaceKeepsTheDtypeOrRefuses) {
  Tensor i = tensor({1, 3}, DType::int32);
  i += 1;
  i *= 2;
  expect_values(i, DType::int32, {4, 8});
  EXPECT_THROW(i *= 2.5, DTypeError);
  EXPECT_THROW(i /= 2, DTypeError);
  EXPECT_THROW(i += tensor({0.5, 0.5}), DTypeError);
  EXPECT_THROW(i[0] += 0.5, DTypeError);
  i[0] += 1;
  expect_values(i, DType::int32, {5, 8});
  Tensor f = tensor({1, 3});
  f *= 2.5;
  f /= 2;
  expect_values(f, DType::float32, {1.25, 3.75});
}

TEST(NumberRules, AxesOfReductions) {
  const Tensor x = tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});
  expect_values(x.sum(1), DType::float32, {4, 6, 12, 14});
  expect_values(x.sum(-1), DType::float32, {3, 7, 11, 15});
  expect_values(x.sum({0, 2}), DType::float32, {14, 22});
  EXPECT_EQ(x.max(0, true).shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(x.mean(Shape{1, 2}).shape(), Shape{2});
}

// The same numbers hybridized, and with a tensor that becomes whole only in the program.
TEST(NumberRules, HybridizedAlike) {
  const auto program = [](const Tensor& x) {
    const Tensor whole = x.astype(DType::int32);
    return Tensors{whole * 2.5, whole / 2, x > 1, (x > 0) * 2, ~(x > 0), (x > 0) & (x < 2), x[x > 0]};
  };
  const auto compiled = hybrid(program);
  const Tensor x = tensor({-1, 0.5, 1.5, 3});
  const Tensors expected = program(x);
  for (int call = 0; call < 3; ++call) {
    const Tensors found = compiled(x);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(array_equal(found[i], expected[i])) << "result " << i;
  }
}

}  // namespace
}  // namespace gluino
