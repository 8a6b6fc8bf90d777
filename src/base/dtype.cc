#include "gluino/dtype.h"

#include "base/format.h"

namespace gluino {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int bytes;
};
constexpr DTypeInfo kInfo[] = {
    {DType::float32, "float32", 4}, {DType::float64, "float64", 8}, {DType::float16, "float16", 2},
    {DType::uint8, "uint8", 1},     {DType::int32, "int32", 4},     {DType::int8, "int8", 1},
    {DType::int64, "int64", 8},     {DType::boolean, "bool", 1},    {DType::bfloat16, "bfloat16", 2},
};

const DTypeInfo& info(DType dtype) {
  if (static_cast<int>(dtype) < 8) return kInfo[static_cast<int>(dtype)];
  return kInfo[8];
}

// Order of promotion among floating types; 0 for the others.
int float_rank(DType d) {
  switch (d) {
    case DType::float16:
    case DType::bfloat16: return 1;
    case DType::float32: return 2;
    case DType::float64: return 3;
    default: return 0;
  }
}

}  // namespace

int dtype_bytes(DType dtype) { return info(dtype).bytes; }
std::string_view dtype_name(DType dtype) { return info(dtype).name; }
bool is_floating(DType dtype) { return float_rank(dtype) > 0; }
bool is_integer(DType dtype) { return !is_floating(dtype) && dtype != DType::boolean; }

std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeInfo& i : kInfo)
    if (i.name == name) return i.dtype;
  if (name == "half") return DType::float16;
  if (name == "float") return DType::float32;
  if (name == "double") return DType::float64;
  if (name == "int") return DType::int32;
  if (name == "long") return DType::int64;
  if (name == "boolean") return DType::boolean;
  return std::nullopt;
}

DType parse_dtype(std::string_view name) {
  if (const auto found = find_dtype(name)) return *found;
  std::string known;
  for (DType d : kAllDTypes) known += (known.empty() ? "" : ", ") + std::string(dtype_name(d));
  raise<AttrError>("'{}' is not a dtype; known are {}", name, known);
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const int fa = float_rank(a), fb = float_rank(b);
  if (fa || fb) return fa == fb ? DType::float32 : (fa > fb ? a : b);
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (a == DType::int64 || b == DType::int64) return DType::int64;
  return DType::int32;  // int8 with uint8 needs 9 bits
}

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t float_to_half(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {                                               // subnormal: adding 0.5 aligns and rounds
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

}  // namespace gluino
