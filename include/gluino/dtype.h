// DType: the element types of a tensor, and the two 16-bit floats as C++ types.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gluino {

// The numbers are those of MXNet's files.
enum class DType : uint8_t {
  float32 = 0,
  float64 = 1,
  float16 = 2,
  uint8 = 3,
  int32 = 4,
  int8 = 5,
  int64 = 6,
  boolean = 7,
  bfloat16 = 12,
};
inline constexpr DType kAllDTypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::int8,
                                       DType::uint8,   DType::int32,    DType::int64,   DType::boolean};

int dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);                // "float32", "bool", ...
std::optional<DType> find_dtype(std::string_view name);  // accepts NumPy's and MXNet's spellings
DType parse_dtype(std::string_view name);                // raises AttrError
bool is_floating(DType dtype);
bool is_integer(DType dtype);     // bool is not an integer
DType promote(DType a, DType b);  // the smallest type that holds both, as in PyTorch

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);  // round to nearest even

struct float16 {
  uint16_t bits = 0;
  float16() = default;
  float16(float v) : bits(float_to_half(v)) {}
  operator float() const { return half_to_float(bits); }
};
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  bfloat16(float v) {
    const uint32_t u = std::bit_cast<uint32_t>(v);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<uint16_t>((u >> 16) | 0x40) : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<long long> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Calls f with a null pointer of the C++ type of dtype: visit_dtype(d, [&]<class T>(T*) { ... }).
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: return f(static_cast<float*>(nullptr));
    case DType::float64: return f(static_cast<double*>(nullptr));
    case DType::float16: return f(static_cast<float16*>(nullptr));
    case DType::bfloat16: return f(static_cast<bfloat16*>(nullptr));
    case DType::uint8: return f(static_cast<uint8_t*>(nullptr));
    case DType::int8: return f(static_cast<int8_t*>(nullptr));
    case DType::int32: return f(static_cast<int32_t*>(nullptr));
    case DType::int64: return f(static_cast<int64_t*>(nullptr));
    case DType::boolean: break;
  }
  return f(static_cast<bool*>(nullptr));
}

}  // namespace gluino
