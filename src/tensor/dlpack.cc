// DLPack in and out. Out shares memory; in shares it too when the elements lie in row-major order, else copies.
#include "gluino/dlpack.h"

#include <cstring>

#include "base/format.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

struct TypeCode {
  DType dtype;
  uint8_t code, bits;
};
constexpr TypeCode kTypeCodes[] = {
    {DType::float16, kDLFloat, 16}, {DType::bfloat16, kDLBfloat, 16}, {DType::float32, kDLFloat, 32},
    {DType::float64, kDLFloat, 64}, {DType::int8, kDLInt, 8},         {DType::uint8, kDLUInt, 8},
    {DType::int32, kDLInt, 32},     {DType::int64, kDLInt, 64},       {DType::boolean, kDLBool, 8},
};

DLDataType code_of(DType dtype) {
  for (const TypeCode& t : kTypeCodes)
    if (t.dtype == dtype) return {t.code, t.bits, 1};
  throw InternalError(fmt::format("DLPack: no code for {}", dtype));
}
DType dtype_from(const DLDataType& type) {
  for (const TypeCode& t : kTypeCodes)
    if (t.code == type.code && t.bits == type.bits && type.lanes == 1) return t.dtype;
  raise<DTypeError>("from_dlpack: elements with type code {}, {} bits and {} lanes have no dtype here", type.code, type.bits, type.lanes);
}

// What an exported tensor keeps alive: the storage, and the shape that the structure points into.
struct Exported {
  DLManagedTensor managed;
  Ref<Storage> storage;
  Shape shape, strides;
};

// Calls the producer's deleter unless a storage has taken that duty over.
struct Consumed {
  DLManagedTensor* managed;
  ~Consumed() {
    if (managed && managed->deleter) managed->deleter(managed);
  }
};

Shape row_major_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.ndim() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

bool is_row_major(const DLTensor& t, const Shape& shape) {
  const Shape strides = row_major_strides(shape);
  for (int i = 0; i < shape.ndim(); ++i)
    if (shape[i] != 1 && t.strides[i] != strides[i]) return false;
  return true;
}

// Copies rows of the last axis one element at a time: a producer's strides may be anything, also 0 or negative.
void copy_strided(const DLTensor& t, const Shape& shape, const char* source, size_t width, char* target) {
  Shape position = Shape::filled(shape.ndim(), 0);
  for (int64_t left = shape.elements(); left > 0; --left, target += width) {
    int64_t offset = 0;
    for (int i = 0; i < shape.ndim(); ++i) offset += position[i] * t.strides[i];
    std::memcpy(target, source + offset * static_cast<int64_t>(width), width);
    for (int i = shape.ndim() - 1; i >= 0 && ++position[i] == shape[i]; --i) position[i] = 0;
  }
}

Shape checked_shape(const DLTensor& t) {
  if (t.ndim < 0 || t.ndim > Shape::kMaxAxes)
    raise<ShapeError>("from_dlpack: a tensor with {} axes, at most {} are supported", t.ndim, Shape::kMaxAxes);
  Shape shape(t.shape, t.ndim);
  for (const int64_t extent : shape)
    if (extent < 0) raise<ShapeError>("from_dlpack: a tensor cannot have shape {}", shape);
  return shape;
}

}  // namespace

DLManagedTensor* Tensor::to_dlpack() const {
  char* data = bytes_of(*this);
  impl_->storage->share_outside();
  auto* exported = new Exported{{}, impl_->storage, impl_->shape, row_major_strides(impl_->shape)};
  exported->managed.dl_tensor = {
      data, {kDLCPU, 0}, impl_->shape.ndim(), code_of(impl_->dtype), exported->shape.data(), exported->strides.data(), 0};
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); };
  return &exported->managed;
}

Tensor Tensor::from_dlpack(DLManagedTensor* managed) {
  if (!managed) throw UserError("from_dlpack: the pointer is null");
  Consumed owner{managed};
  const DLTensor& t = managed->dl_tensor;
  if (t.device.device_type != kDLCPU && t.device.device_type != kDLCUDAHost)
    raise<UserError>("from_dlpack: the tensor is on a device of type {}; copy it to the CPU first", static_cast<int>(t.device.device_type));
  const Shape shape = checked_shape(t);
  const DType dtype = dtype_from(t.dtype);
  char* first = static_cast<char*>(t.data) + t.byte_offset;
  const auto width = static_cast<size_t>(dtype_bytes(dtype));
  // Kernels read elements at their natural alignment; memory that does not offer it is copied.
  const bool aligned = reinterpret_cast<uintptr_t>(first) % width == 0;
  if ((!t.strides || is_row_major(t, shape)) && aligned) {
    auto impl = make_ref<detail::TensorImpl>(shape, dtype, current_device());
    impl->storage = make_ref<Storage>(first, shape.elements() * static_cast<int64_t>(width), current_device(), [managed] {
      if (managed->deleter) managed->deleter(managed);
    });
    impl->data = first;
    owner.managed = nullptr;
    return Tensor(std::move(impl));
  }
  Tensor out = make_tensor(shape, dtype, current_device());
  if (t.strides)
    copy_strided(t, shape, first, width, bytes_of(out));
  else if (out.size() > 0)
    std::memcpy(bytes_of(out), first, out.nbytes());
  return out;
}

}  // namespace gluino
