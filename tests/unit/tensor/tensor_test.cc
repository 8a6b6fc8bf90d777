// Tensors: creation, views, casts, reshape, in-place operators, reading values, devices.
#include <cmath>
#include <limits>
#include <sstream>

#include "support/support.h"

namespace gluino::test {
namespace {

std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }
using Numbers = std::vector<double>;

TEST(Creation, FillsWithTheAskedValues) {
  EXPECT_EQ(values(zeros({2, 2})), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(values(ones({3}, {DType::int8})), (Numbers{1, 1, 1}));
  EXPECT_EQ(values(full({2}, 2.5)), (Numbers{2.5, 2.5}));
  EXPECT_EQ(values(arange(3)), (Numbers{0, 1, 2}));
  EXPECT_EQ(values(arange(5, 0, -2)), (Numbers{5, 3, 1}));
  EXPECT_EQ(values(arange(0, 1, 0.3, {DType::float64})), (Numbers{0, 0.3, 0.6, 0.3 * 3}));
  EXPECT_EQ(values(linspace(0, 1, 5)), (Numbers{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(values(linspace(0, 1, 4, false)), (Numbers{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(values(eye(2)), (Numbers{1, 0, 0, 1}));
  EXPECT_EQ(values(eye(2, 3, 1)), (Numbers{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(values(eye(3, 2, -1)), (Numbers{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(values(tensor({{1, 2}, {3, 4}})), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(Tensor(2.5).shape(), Shape());
  EXPECT_EQ(Tensor(2.5).item(), 2.5f);
}

TEST(Creation, TakesEveryDTypeAndDevice) {
  for (DType dtype : kAllDTypes) {
    const Tensor t = ones({2, 3}, {dtype, cpu(1)});
    EXPECT_EQ(t.dtype(), dtype);
    EXPECT_EQ(t.device(), cpu(1));
    EXPECT_EQ(values(t), Numbers(6, 1.0)) << dtype_name(dtype);
    EXPECT_EQ(t.nbytes(), 6 * dtype_bytes(dtype));
    EXPECT_EQ(zeros_like(t).dtype(), dtype);
    EXPECT_EQ(values(zeros_like(t)), Numbers(6, 0.0));
    EXPECT_EQ(values(ones_like(t)), Numbers(6, 1.0));
  }
  EXPECT_EQ(values(full_like(zeros({2}), 7)), (Numbers{7, 7}));
}

TEST(Creation, CopiesFromDataAndVectors) {
  std::vector<int64_t> source{1, -2, int64_t{1} << 60};
  const Tensor t = from_vector(source);
  source[0] = 9;
  EXPECT_EQ(t.dtype(), DType::int64);
  EXPECT_EQ(t.to_vector<int64_t>(), (std::vector<int64_t>{1, -2, int64_t{1} << 60}));
  const float raw[] = {1.5f, 2.5f};
  EXPECT_EQ(values(from_data(raw, {2, 1}, {DType::float16})), (Numbers{1.5, 2.5}));
  EXPECT_EQ(from_vector(std::vector<bool>{true, false}).to_vector<bool>(), (std::vector<bool>{true, false}));
  GLUINO_EXPECT_ERROR(ShapeError, "3 values do not fill shape (2, 2)", from_vector(source, Shape{2, 2}));
}

TEST(Creation, ZeroSizesAndManyAxes) {
  const Tensor none = zeros({3, 0, 2});
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ((none + none).shape(), (Shape{3, 0, 2}));
  Shape deep = Shape::filled(10, 1);
  deep[9] = 4;
  EXPECT_EQ((ones(deep) + 1.0).shape(), deep);
  EXPECT_EQ(ones(deep).reshape({4}).size(), 4);
}

TEST(Creation, FollowsTheDeviceScope) {
  EXPECT_EQ(zeros({1}).device(), cpu(0));
  {
    const DeviceScope scope(cpu(1));
    EXPECT_EQ(zeros({1}).device(), cpu(1));
    EXPECT_EQ(from_vector<float>({1}).device(), cpu(1));
    EXPECT_EQ(zeros({1}, {.device = cpu(2)}).device(), cpu(2));
  }
  EXPECT_EQ(zeros({1}).device(), cpu(0));
}

TEST(View, LeadingRowsShareMemory) {
  Tensor x = arange(12).reshape({4, 3});
  Tensor rows = x[Slice(1, 3)];
  EXPECT_EQ(rows.data<float>(), x.data<float>() + 3);
  rows += ones({2, 3});
  EXPECT_EQ(values(x), (Numbers{0, 1, 2, 4, 5, 6, 7, 8, 9, 9, 10, 11}));
  const Tensor row = x[2];
  EXPECT_EQ(row.shape(), (Shape{3}));
  EXPECT_EQ(row.data<float>(), x.data<float>() + 6);
  const Tensor part = x[{1, Slice(1, 3)}];
  EXPECT_EQ(part.data<float>(), x.data<float>() + 4);
}

TEST(View, OutlivesItsSource) {
  Tensor row;
  {
    const Tensor x = arange(6).reshape({2, 3});
    row = x[1];
  }
  EXPECT_EQ(values(row), (Numbers{3, 4, 5}));
}

TEST(View, ReshapeSharesMemoryAndCopyDoesNot) {
  Tensor x = arange(6);
  Tensor y = x.reshape({2, 3});
  EXPECT_EQ(y.data<float>(), x.data<float>());
  Tensor z = x.copy();
  z += 1.0;
  EXPECT_EQ(values(x), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_NE(z.data<float>(), x.data<float>());
}

TEST(Reshape, KnowsTheSpecialCodes) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(x.reshape({4, 0, 2}).shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(x.reshape({-1}).shape(), (Shape{24}));
  EXPECT_EQ(x.reshape({6, -1}).shape(), (Shape{6, 4}));
  EXPECT_EQ(x.reshape({-2}).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(x.reshape({2, -2}).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(x.reshape({-2, 1, 1}).shape(), (Shape{2, 3, 4, 1, 1}));
  EXPECT_EQ(x.reshape({-3, 4}).shape(), (Shape{6, 4}));
  EXPECT_EQ(x.reshape({0, -3}).shape(), (Shape{2, 12}));
  EXPECT_EQ(x.reshape({-4, 1, 2, -2}).shape(), (Shape{1, 2, 3, 4}));
  EXPECT_EQ(x.reshape({2, -4, -1, 3, -2}).shape(), (Shape{2, 1, 3, 4}));
  EXPECT_EQ(zeros({10, 5, 4}).reshape({-1, 0}).shape(), (Shape{40, 5}));
  EXPECT_EQ(zeros({10, 5, 4}).reshape({-1, 0}, true).shape(), (Shape{50, 4}));
  GLUINO_EXPECT_ERROR(ShapeError, "(2, 3, 4)", x.reshape({5, 5}));
  GLUINO_EXPECT_ERROR(AttrError, "more than one -1", x.reshape({-1, -1}));
}

// What C++ says a value becomes; halves through float.
double cast_value(double v, DType to) {
  switch (to) {
    case DType::float16: return float16(static_cast<float>(v));
    case DType::bfloat16: return bfloat16(static_cast<float>(v));
    case DType::float32: return static_cast<float>(v);
    case DType::float64: return v;
    case DType::boolean: return v != 0;
    case DType::uint8: return static_cast<double>(static_cast<uint8_t>(static_cast<int64_t>(v)));
    case DType::int8: return static_cast<double>(static_cast<int8_t>(static_cast<int64_t>(v)));
    case DType::int32: return static_cast<double>(static_cast<int32_t>(static_cast<int64_t>(v)));
    case DType::int64: return static_cast<double>(static_cast<int64_t>(v));
  }
  return v;
}

TEST(Cast, BetweenAllDTypes) {
  // More than one block of the conversion kernels, with fractions, signs and values beyond 8 bits.
  Numbers source;
  for (int i = 0; i < 1300; ++i) source.push_back((i - 650) * 0.75);
  for (DType from : kAllDTypes) {
    const Tensor a = from_vector(source, {}, {from});
    for (DType to : kAllDTypes) {
      const Tensor b = a.astype(to);
      ASSERT_EQ(b.dtype(), to);
      const Numbers in = values(a), out = values(b);
      for (size_t i = 0; i < in.size(); ++i)
        ASSERT_EQ(out[i], cast_value(in[i], to)) << dtype_name(from) << " to " << dtype_name(to) << " at " << i;
    }
  }
}

TEST(Cast, KeepsSpecialValuesAndLargeIntegers) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = from_vector<double>({inf, -inf, std::nan(""), 1e39, 70000.0});
  const Numbers f32 = values(x.astype(DType::float32)), f16 = values(x.astype(DType::float16)), bf = values(x.astype(DType::bfloat16));
  EXPECT_EQ(f32[0], inf);
  EXPECT_EQ(f32[1], -inf);
  EXPECT_TRUE(std::isnan(f32[2]));
  EXPECT_EQ(f32[3], inf);
  EXPECT_EQ(f16[4], inf);
  EXPECT_TRUE(std::isnan(f16[2]));
  EXPECT_TRUE(std::isnan(bf[2]));
  EXPECT_EQ(bf[0], inf);
  const int64_t big = (int64_t{1} << 53) + 1;
  EXPECT_EQ(from_vector<int64_t>({big}).item<int64_t>(), big);
  EXPECT_EQ(from_vector<int64_t>({big}).copy().item<int64_t>(), big);
  EXPECT_EQ(x.astype(DType::boolean).to_vector<bool>(), std::vector<bool>(5, true));
}

TEST(Cast, HalfRoundsToNearestEven) {
  const Tensor x = from_vector<float>({2049.0f, 2051.0f, 65519.0f, 65520.0f, 5.9604645e-8f, 2.9802322e-8f, 2.9802326e-8f, -0.0f});
  EXPECT_EQ(values(x.astype(DType::float16)), (Numbers{2048, 2052, 65504, INFINITY, 5.9604644775390625e-8, 0, 5.9604644775390625e-8, 0}));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {  // every half goes to float and back unchanged
    const float wide = half_to_float(static_cast<uint16_t>(bits));
    if (!std::isnan(wide)) {
      ASSERT_EQ(float_to_half(wide), bits);
    }
  }
}

TEST(InPlace, OperatorsWriteIntoTheSameMemory) {
  Tensor x = tensor({1, 2, 3});
  const float* memory = x.data<float>();
  const Tensor alias = x;
  x += tensor({1, 1, 1});
  x *= tensor({2, 2, 2});
  x -= tensor({1, 1, 1});
  x /= tensor({3, 5, 7});
  EXPECT_EQ(values(x), (Numbers{1, 1, 1}));
  EXPECT_EQ(x.data<float>(), memory);
  EXPECT_EQ(values(alias), (Numbers{1, 1, 1}));
}

TEST(InPlace, BroadcastsAndConvertsTheRightSide) {
  Tensor x = zeros({2, 3});
  x += tensor({1, 2, 3});
  x += 1.0;
  x += ones({2, 1}, {DType::int32});
  EXPECT_EQ(values(x), (Numbers{3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(x.dtype(), DType::float32);
  Tensor whole = tensor({5, 7}, {DType::int32});
  whole *= 3;
  EXPECT_EQ(whole.dtype(), DType::int32);
  EXPECT_EQ(values(whole), (Numbers{15, 21}));
  GLUINO_EXPECT_ERROR(DTypeError, "gives fractions, but the tensor's dtype is int32", whole *= tensor({1.5, 0.5}));
  GLUINO_EXPECT_ERROR(ShapeError, "(2, 3)", x += zeros({4, 2, 3}));
}

TEST(InPlace, NumbersKeepTheTargetsPrecisionAndDevice) {
  Tensor x = zeros({2}, {DType::float64, cpu(1)});
  x += 0.1;
  EXPECT_EQ(values(x), (Numbers{0.1, 0.1}));
  x[0] += 0.1;
  x[1] = 0.7;
  EXPECT_EQ(values(x), (Numbers{0.2, 0.7}));
  x *= 3;
  x -= 0.1;
  x /= 2;
  EXPECT_EQ(values(x), (Numbers{(0.2 * 3 - 0.1) / 2, (0.7 * 3 - 0.1) / 2}));
  x.assign(0.3);
  EXPECT_EQ(values(x), (Numbers{0.3, 0.3}));
}

TEST(InPlace, OnItself) {
  Tensor x = tensor({1, 2, 3});
  x += x;
  x *= x;
  EXPECT_EQ(values(x), (Numbers{4, 16, 36}));
  x.assign(x);
  EXPECT_EQ(values(x), (Numbers{4, 16, 36}));
}

TEST(Assign, OverwritesBroadcastingAndConverting) {
  Tensor x = zeros({2, 2});
  const float* memory = x.data<float>();
  x.assign(tensor({1, 2}, {DType::int32}));
  EXPECT_EQ(values(x), (Numbers{1, 2, 1, 2}));
  EXPECT_EQ(x.data<float>(), memory);
  GLUINO_EXPECT_ERROR(ShapeError, "(3,)", x.assign(zeros({3})));
}

TEST(Reading, ItemAndCopyTo) {
  EXPECT_EQ(tensor({{7}}).item<int32_t>(), 7);
  EXPECT_EQ(tensor({2.75}).item<int64_t>(), 2);
  EXPECT_TRUE(tensor({2}).item<bool>());
  EXPECT_TRUE(static_cast<bool>(tensor({2})));
  EXPECT_FALSE(static_cast<bool>(tensor({0})));
  GLUINO_EXPECT_ERROR(ShapeError, "one element, this one has shape (2,)", tensor({1, 2}).item());
  GLUINO_EXPECT_ERROR(UserError, "ambiguous", static_cast<bool>(tensor({1, 2})));
  float raw[3] = {};
  tensor({1, 2, 3}).copy_to(raw);
  EXPECT_EQ(raw[2], 3.0f);
  Tensor there = zeros({3}, {DType::int32, cpu(1)});
  tensor({1, 2, 3}).copy_to(there);
  EXPECT_EQ(values(there), (Numbers{1, 2, 3}));
  GLUINO_EXPECT_ERROR(DTypeError, "data<int32>() was asked of a float32 tensor", tensor({1}).data<int32_t>());
}

TEST(Reading, StreamsItsText) {
  std::ostringstream os;
  os << tensor({1, 2});
  EXPECT_EQ(os.str(), tensor({1, 2}).str());
}

TEST(Devices, AreDistinctContexts) {
  const Tensor a = ones({2}), b = ones({2}, {.device = cpu(1)});
  EXPECT_FALSE(cpu(0) == cpu(1));
  EXPECT_EQ(cpu(1).str(), "cpu(1)");
  GLUINO_EXPECT_ERROR(UserError, "broadcast_add: inputs are on cpu(0) and cpu(1)", a + b);
  EXPECT_EQ(values(a.to(cpu(1)) + b), (Numbers{2, 2}));
  EXPECT_EQ((b + b).device(), cpu(1));
  EXPECT_TRUE(a.to(cpu(0)).is_same(a));
  GLUINO_EXPECT_ERROR(UserError, "gpu(0) is not available", gpu(0));
  GLUINO_EXPECT_ERROR(UserError, "cpu(16) does not exist", cpu(16));
  EXPECT_EQ(num_gpus(), 0);
}

TEST(Compare, AllCloseAndArrayEqual) {
  const Tensor a = tensor({1, NAN});
  EXPECT_TRUE(array_equal(a, a.copy()));
  EXPECT_FALSE(array_equal(tensor({1}), tensor({1}, {DType::float64})));
  EXPECT_FALSE(array_equal(tensor({1}), tensor({{1}})));
  EXPECT_FALSE(all_close(a, a));
  EXPECT_TRUE(all_close(a, a, 0, 0, true));
  EXPECT_TRUE(all_close(tensor({1.0}), tensor({1.000001}), 1e-5, 0));
  EXPECT_FALSE(all_close(tensor({1.0}), tensor({1.1})));
}

TEST(Arithmetic, MixedDTypesPromote) {
  EXPECT_EQ((ones({1}, {DType::int32}) + ones({1})).dtype(), DType::float32);
  EXPECT_EQ((ones({1}, {DType::float16}) + ones({1}, {DType::bfloat16})).dtype(), DType::float32);
  EXPECT_EQ((ones({1}, {DType::int8}) + ones({1}, {DType::uint8})).dtype(), DType::int32);
  EXPECT_EQ((ones({1}, {DType::float16}) + ones({1}, {DType::int64})).dtype(), DType::float16);
  for (DType a : kAllDTypes)
    for (DType b : kAllDTypes) {
      EXPECT_EQ(promote(a, b), promote(b, a));
      EXPECT_EQ(promote(a, a), a);
    }
}

TEST(Arithmetic, IntegersWrapAndNeverTrap) {
  const int32_t lowest = std::numeric_limits<int32_t>::min();
  const Tensor x = from_vector<int32_t>({lowest, 7, -7, 5});
  const Tensor y = from_vector<int32_t>({-1, 0, 2, -3});
  EXPECT_EQ((x / y).to_vector<int32_t>(), (std::vector<int32_t>{lowest, 0, -3, -1}));
  EXPECT_EQ((x % y).to_vector<int32_t>(), (std::vector<int32_t>{0, 0, 1, -1}));
  EXPECT_EQ((-x).to_vector<int32_t>()[0], lowest);
  EXPECT_EQ((x + x).to_vector<int32_t>()[0], 0);
}

}  // namespace
}  // namespace gluino::test
