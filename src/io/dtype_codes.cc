#include "io/dtype_codes.h"

#include <cstring>

#include "tensor/impl.h"

namespace gluino::io {

static constexpr FileDType kTypes[] = {
    {0, "f4", 4, DType::float32, true},         {1, "f8", 8, DType::float64, true}, {2, "f2", 2, DType::float16, true},
    {3, "u1", 1, DType::uint8, true},           {4, "i4", 4, DType::int32, true},   {5, "i1", 1, DType::int8, true},
    {6, "i8", 8, DType::int64, true},           {7, "b1", 1, DType::boolean, true}, {8, "i2", 2, DType::int32, false},
    {9, "u2", 2, DType::int32, false},          {10, "u4", 4, DType::int64, false}, {11, "u8", 8, DType::int64, false},
    {12, "bfloat16", 2, DType::bfloat16, true},
};

const FileDType* file_dtype(int code) {
  for (const FileDType& t : kTypes)
    if (t.code == code) return &t;
  return nullptr;
}
const FileDType* file_dtype(std::string_view npy) {
  for (const FileDType& t : kTypes)
    if (t.npy == npy) return &t;
  return nullptr;
}
const FileDType& file_dtype(DType dtype) { return *file_dtype(static_cast<int>(dtype)); }

template <class From, class To>
static void widen(std::string_view data, To* out) {
  for (size_t i = 0; i < data.size() / sizeof(From); ++i) {
    From v;
    std::memcpy(&v, data.data() + i * sizeof(From), sizeof v);
    out[i] = static_cast<To>(v);
  }
}

Tensor tensor_from_file(const FileDType& type, const Shape& shape, std::string_view data) {
  Tensor t = make_tensor(shape, type.loaded_as, current_device());
  switch (type.code) {
    case 7:  // a byte that is neither 0 nor 1 must not become a bool
      for (size_t i = 0; i < data.size(); ++i) t.mutable_data<bool>()[i] = data[i] != 0;
      break;
    case 8: widen<int16_t>(data, t.mutable_data<int32_t>()); break;
    case 9: widen<uint16_t>(data, t.mutable_data<int32_t>()); break;
    case 10: widen<uint32_t>(data, t.mutable_data<int64_t>()); break;
    case 11: widen<uint64_t>(data, t.mutable_data<int64_t>()); break;
    default:
      if (!data.empty()) std::memcpy(bytes_of(t), data.data(), data.size());
  }
  return t;
}

}  // namespace gluino::io
