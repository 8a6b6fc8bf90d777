// DLPack in and out: the structure's content, shared memory, strided input, and who frees what.
#include "gluino/dlpack.h"

#include "support/support.h"

namespace gluino::test {
namespace {

// A producer of its own, which counts how often its deleter runs.
struct Foreign {
  std::vector<float> data;
  std::vector<int64_t> shape, strides;
  DLManagedTensor managed{};
  int deleted = 0;

  Foreign(std::vector<float> d, std::vector<int64_t> s, std::vector<int64_t> st = {})
      : data(std::move(d)), shape(std::move(s)), strides(std::move(st)) {
    managed.dl_tensor = {data.data(),
                         {kDLCPU, 0},
                         static_cast<int32_t>(shape.size()),
                         {kDLFloat, 32, 1},
                         shape.data(),
                         strides.empty() ? nullptr : strides.data(),
                         0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
};

TEST(ToDLPack, DescribesEveryDType) {
  const std::pair<DType, DLDataType> codes[] = {
      {DType::float16, {kDLFloat, 16, 1}}, {DType::bfloat16, {kDLBfloat, 16, 1}}, {DType::float32, {kDLFloat, 32, 1}},
      {DType::float64, {kDLFloat, 64, 1}}, {DType::int8, {kDLInt, 8, 1}},         {DType::uint8, {kDLUInt, 8, 1}},
      {DType::int32, {kDLInt, 32, 1}},     {DType::int64, {kDLInt, 64, 1}},       {DType::boolean, {kDLBool, 8, 1}}};
  for (const auto& [dtype, code] : codes) {
    const Tensor x = arange(6).reshape({2, 3}).astype(dtype);
    DLManagedTensor* m = x.to_dlpack();
    const DLTensor& t = m->dl_tensor;
    EXPECT_EQ(t.dtype.code, code.code) << dtype_name(dtype);
    EXPECT_EQ(t.dtype.bits, code.bits);
    EXPECT_EQ(t.dtype.lanes, 1);
    EXPECT_EQ(t.device.device_type, kDLCPU);
    ASSERT_EQ(t.ndim, 2);
    EXPECT_EQ(t.shape[0], 2);
    EXPECT_EQ(t.shape[1], 3);
    EXPECT_EQ(t.strides[0], 3);
    EXPECT_EQ(t.strides[1], 1);
    EXPECT_EQ(t.byte_offset, 0u);
    EXPECT_TRUE(same_bits(Tensor::from_dlpack(m), x));
  }
}

TEST(ToDLPack, SharesMemoryAndKeepsItAlive) {
  const int64_t before = memory_stats(cpu(7)).live;
  DLManagedTensor* m = nullptr;
  {
    Tensor x = full({3}, 4, {DType::float32, cpu(7)});
    m = x.to_dlpack();
    EXPECT_EQ(m->dl_tensor.data, x.data<float>());
    x += 1.0;
  }
  EXPECT_EQ(static_cast<float*>(m->dl_tensor.data)[2], 5.0f);
  EXPECT_EQ(memory_stats(cpu(7)).live, before + 12);
  m->deleter(m);
  EXPECT_EQ(memory_stats(cpu(7)).live, before);
}

TEST(ToDLPack, ThereAndBackIsTheSameMemory) {
  const Tensor x = arange(8);
  const Tensor row = x[Slice(4, 8)];
  const Tensor back = Tensor::from_dlpack(row.to_dlpack());
  EXPECT_EQ(back.data<float>(), x.data<float>() + 4);
  GLUINO_EXPECT_ERROR(UserError, "null tensor", Tensor().to_dlpack());
}

TEST(FromDLPack, SharesRowMajorMemoryUntilTheLastHandleGoes) {
  Foreign f({1, 2, 3, 4, 5, 6}, {2, 3});
  {
    Tensor x = Tensor::from_dlpack(&f.managed);
    EXPECT_EQ(x.data<float>(), f.data.data());
    Tensor row = x[1];
    x = Tensor();
    EXPECT_EQ(f.deleted, 0);
    row += 1.0;
    EXPECT_EQ(f.data, (std::vector<float>{1, 2, 3, 5, 6, 7}));
  }
  EXPECT_EQ(f.deleted, 1);
}

TEST(FromDLPack, TakesRowMajorStridesWithUnitAxes) {
  Foreign f({1, 2, 3}, {1, 3, 1}, {77, 1, 9});  // strides of axes with one element mean nothing
  const Tensor x = Tensor::from_dlpack(&f.managed);
  EXPECT_EQ(x.data<float>(), f.data.data());
}

TEST(FromDLPack, CopiesStridedInputAndReleasesItAtOnce) {
  Foreign transposed({1, 2, 3, 4, 5, 6}, {3, 2}, {1, 3});
  EXPECT_TRUE(same_bits(Tensor::from_dlpack(&transposed.managed), tensor({{1, 4}, {2, 5}, {3, 6}})));
  EXPECT_EQ(transposed.deleted, 1);
  Foreign broadcast({1, 2}, {3, 2}, {0, 1});
  EXPECT_TRUE(same_bits(Tensor::from_dlpack(&broadcast.managed), tensor({{1, 2}, {1, 2}, {1, 2}})));
  Foreign reversed({1, 2, 3}, {3}, {-1});
  reversed.managed.dl_tensor.byte_offset = 8;
  EXPECT_TRUE(same_bits(Tensor::from_dlpack(&reversed.managed), tensor({3, 2, 1})));
  Foreign none({1}, {0, 2}, {5, 5});
  EXPECT_EQ(Tensor::from_dlpack(&none.managed).shape(), (Shape{0, 2}));
}

TEST(FromDLPack, HonoursTheByteOffset) {
  Foreign f({1, 2, 3, 4}, {2});
  f.managed.dl_tensor.byte_offset = 8;
  EXPECT_TRUE(same_bits(Tensor::from_dlpack(&f.managed), tensor({3, 4})));
}

TEST(FromDLPack, RefusesWhatItCannotHoldAndReleasesIt) {
  Foreign gpu({1}, {1});
  gpu.managed.dl_tensor.device.device_type = kDLCUDA;
  GLUINO_EXPECT_ERROR(UserError, "copy it to the CPU first", Tensor::from_dlpack(&gpu.managed));
  EXPECT_EQ(gpu.deleted, 1);
  Foreign vectors({1, 2}, {1});
  vectors.managed.dl_tensor.dtype.lanes = 2;
  GLUINO_EXPECT_ERROR(DTypeError, "2 lanes", Tensor::from_dlpack(&vectors.managed));
  Foreign negative({1}, {-1});
  GLUINO_EXPECT_ERROR(ShapeError, "from_dlpack", Tensor::from_dlpack(&negative.managed));
  EXPECT_EQ(negative.deleted, 1);
  GLUINO_EXPECT_ERROR(UserError, "null", Tensor::from_dlpack(nullptr));
}

}  // namespace
}  // namespace gluino::test
