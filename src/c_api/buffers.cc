#include "c_api/buffers.h"

#include <cstring>

#include "base/extents.h"
#include "base/format.h"
#include "c_api/errors.h"
#include "tensor/borrow.h"

namespace gluino::c_api {
namespace {

constexpr uintptr_t kWidestElement = 8;

bool is_aligned(const void* data, int64_t width) { return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(width) == 0; }

// Bytes from the first element to the end of the last one, as the strides place them.
int64_t extent_in_memory(const Shape& shape, const int64_t* strides, DType dtype, Where what) {
  if (!strides) return bytes_for(shape, dtype, what);
  int64_t last = 0;
  bool fits = true;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (strides[i] < 0) throw CallError(fmt::format("{}: strides[{}] is {}; strides must not be negative", what.str(), i, strides[i]));
    int64_t step;
    fits &= !__builtin_mul_overflow(std::max<int64_t>(shape[i] - 1, 0), strides[i], &step) && !__builtin_add_overflow(last, step, &last);
  }
  if (shape.elements() == 0) return 0;
  int64_t bytes;
  fits = fits && !__builtin_add_overflow(last, 1, &last) && !__builtin_mul_overflow(last, int64_t{dtype_bytes(dtype)}, &bytes);
  if (!fits) throw CallError(what.str() + ": the strides lead out of all memory");
  return bytes;
}

// Calls f(offset in elements) for every element in row-major order.
template <class F>
void for_each_offset(const Shape& shape, const int64_t* strides, F f) {
  Shape position = Shape::filled(shape.ndim(), 0);
  for (int64_t left = shape.elements(); left > 0; --left) {
    int64_t offset = 0;
    for (int i = 0; i < shape.ndim(); ++i) offset += position[i] * strides[i];
    f(offset);
    for (int i = shape.ndim() - 1; i >= 0 && ++position[i] == shape[i]; --i) position[i] = 0;
  }
}

}  // namespace

DType checked_dtype(gluino_dtype dtype, Where what) {
  for (const DType known : kAllDTypes)
    if (static_cast<gluino_dtype>(known) == dtype) return known;
  throw CallError(fmt::format("{}: {} is no dtype; GLUINO_FLOAT32 and its neighbours in c_api.h are", what.str(), dtype),
                  GLUINO_ERROR_DTYPE);
}

Shape checked_shape(const int64_t* extents, int32_t ndim, Where what) {
  if (ndim < 0 || ndim > Shape::kMaxAxes)
    throw CallError(fmt::format("{}: {} axes; 0 to {} are possible", what.str(), ndim, Shape::kMaxAxes), GLUINO_ERROR_SHAPE);
  const Shape shape(extents, ndim);
  for (const int64_t extent : shape)
    if (extent < 0 || extent > kMaxExtent)
      throw CallError(fmt::format("{}: shape {} is not possible; extents are 0 to {}", what.str(), shape, kMaxExtent), GLUINO_ERROR_SHAPE);
  return shape;
}

int64_t bytes_for(const Shape& shape, DType dtype, Where what) {
  int64_t bytes;
  if (__builtin_mul_overflow(shape.elements(), int64_t{dtype_bytes(dtype)}, &bytes))
    throw CallError(fmt::format("{}: shape {} is larger than all memory", what.str(), shape), GLUINO_ERROR_SHAPE);
  return bytes;
}

Tensor input_tensor(const gluino_buffer& b, Where what) {
  const DType dtype = checked_dtype(b.dtype, what);
  const Shape shape = checked_shape(b.shape, b.ndim, what);
  const int64_t needed = extent_in_memory(shape, b.strides, dtype, what);
  if (static_cast<uint64_t>(needed) > b.bytes)
    throw CallError(fmt::format("{}: shape {} of {} has {} bytes, the buffer {}", what.str(), shape, dtype, needed, b.bytes),
                    GLUINO_ERROR_TOO_SMALL);
  if (needed > 0 && !b.data) throw CallError(fmt::format("{}.data is a null pointer, and shape {} has elements", what.str(), shape));
  const auto width = static_cast<size_t>(dtype_bytes(dtype));
  if (!b.strides && is_aligned(b.data, dtype_bytes(dtype))) return borrow(b.data, shape, dtype);
  const Tensor copy = empty(shape, {.dtype = dtype});
  auto* to = static_cast<char*>(memory_of(copy));
  const auto* from = static_cast<const char*>(b.data);
  if (!b.strides) {
    if (needed > 0) std::memcpy(to, from, static_cast<size_t>(needed));
  } else {
    for_each_offset(shape, b.strides, [&](int64_t offset) {
      std::memcpy(to, from + offset * static_cast<int64_t>(width), width);
      to += width;
    });
  }
  return copy;
}

bool overlap(const gluino_buffer& a, const gluino_buffer& b) {
  const auto begin = [](const gluino_buffer& x) { return reinterpret_cast<uintptr_t>(x.data); };
  if (!a.data || !b.data) return false;
  return begin(a) <= begin(b) ? begin(b) - begin(a) < a.bytes : begin(a) - begin(b) < b.bytes;
}

Tensor destination(const gluino_buffer& b) {
  if (!b.data || b.strides || b.bytes > static_cast<uint64_t>(kMaxExtent) || !is_aligned(b.data, kWidestElement)) return {};
  return borrow(b.data, {static_cast<int64_t>(b.bytes)}, DType::uint8);
}

void describe(const Tensor& result, gluino_buffer& b, Where what) {
  const Shape& shape = result.shape();
  if (b.dtype != GLUINO_ANY_DTYPE && checked_dtype(b.dtype, what) != result.dtype()) {
    const DType expected = checked_dtype(b.dtype, what);
    b.dtype = static_cast<gluino_dtype>(result.dtype());
    throw CallError(
        fmt::format("{} is {}, {} was expected; set dtype to GLUINO_ANY_DTYPE to take what comes", what.str(), result.dtype(), expected),
        GLUINO_ERROR_DTYPE);
  }
  if (b.strides && !(b.ndim == shape.ndim() && std::equal(shape.begin(), shape.end(), b.shape)))
    throw CallError(fmt::format("{} has shape {}, which is not the one that its strides were given for", what.str(), shape),
                    GLUINO_ERROR_SHAPE);
  b.dtype = static_cast<gluino_dtype>(result.dtype());
  b.ndim = shape.ndim();
  std::copy(shape.begin(), shape.end(), b.shape);
}

void write_result(const Tensor& result, const gluino_buffer& b, Where what) {
  const void* from = memory_of(result);
  const int64_t needed = extent_in_memory(result.shape(), b.strides, result.dtype(), what);
  if (needed == 0) return;
  if (from == b.data && !b.strides) return;
  if (static_cast<uint64_t>(needed) > b.bytes)
    throw CallError(
        fmt::format("{} has shape {} of {}, {} bytes; the buffer has {}", what.str(), result.shape(), result.dtype(), needed, b.bytes),
        GLUINO_ERROR_TOO_SMALL);
  if (!b.data) throw CallError(fmt::format("{}.data is a null pointer, and shape {} has elements", what.str(), result.shape()));
  if (!b.strides) {
    std::memcpy(b.data, from, static_cast<size_t>(needed));
    return;
  }
  const auto width = static_cast<size_t>(dtype_bytes(result.dtype()));
  const auto* next = static_cast<const char*>(from);
  for_each_offset(result.shape(), b.strides, [&](int64_t offset) {
    std::memcpy(static_cast<char*>(b.data) + offset * static_cast<int64_t>(width), next, width);
    next += width;
  });
}

void* memory_of(const Tensor& tensor) {
  return visit_dtype(tensor.dtype(), [&]<class T>(T*) -> void* { return const_cast<T*>(tensor.data<T>()); });
}

}  // namespace gluino::c_api
