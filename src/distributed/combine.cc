#include "distributed/combine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "base/format.h"
#include "kernels/isa/primitives.h"

namespace gluino::distributed {
namespace {

constexpr int64_t kBlock = 2048;  // elements whose sums stay in the first-level cache

template <class T>
void combine_row(T* acc, const T* x, int64_t n, Reduce how) {
  if (how == Reduce::max)
    for (int64_t i = 0; i < n; ++i) acc[i] = x[i] > acc[i] || x[i] != x[i] ? x[i] : acc[i];  // NaN wins, on every rank
  else if (how == Reduce::min)
    for (int64_t i = 0; i < n; ++i) acc[i] = x[i] < acc[i] || x[i] != x[i] ? x[i] : acc[i];
  else if constexpr (std::is_integral_v<T>)  // wraps
    for (int64_t i = 0; i < n; ++i)
      acc[i] = static_cast<T>(static_cast<std::make_unsigned_t<T>>(acc[i]) + static_cast<std::make_unsigned_t<T>>(x[i]));
  else
    for (int64_t i = 0; i < n; ++i) acc[i] += x[i];
}

template <class T>
void combine_all(std::span<const char* const> sources, char* out, int64_t count, Reduce how) {
  const double ranks = static_cast<double>(sources.size());
  std::array<T, kBlock> acc;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const auto block = [&](size_t s) { return reinterpret_cast<const T*>(sources[s]) + begin; };
    std::copy_n(block(0), n, acc.data());
    for (size_t s = 1; s < sources.size(); ++s) combine_row(acc.data(), block(s), n, how);
    if (how == Reduce::mean)
      for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<T>(acc[i] / ranks);
    std::copy_n(acc.data(), n, reinterpret_cast<T*>(out) + begin);
  }
}

void combine_narrow(std::span<const char* const> sources, char* out, int64_t count, DType dtype, Reduce how) {
  const double ranks = static_cast<double>(sources.size());
  std::array<float, kBlock> acc, wide;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    kernels::convert(sources[0] + 2 * begin, dtype, acc.data(), DType::float32, n);
    for (size_t s = 1; s < sources.size(); ++s) {
      kernels::convert(sources[s] + 2 * begin, dtype, wide.data(), DType::float32, n);
      combine_row(acc.data(), wide.data(), n, how);
    }
    if (how == Reduce::mean)
      for (int64_t i = 0; i < n; ++i) acc[i] = static_cast<float>(acc[i] / ranks);
    kernels::convert(acc.data(), DType::float32, out + 2 * begin, dtype, n);
  }
}

}  // namespace

void combine(std::span<const char* const> sources, char* out, int64_t count, DType dtype, Reduce how) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16: return combine_narrow(sources, out, count, dtype, how);
    case DType::float32: return combine_all<float>(sources, out, count, how);
    case DType::float64: return combine_all<double>(sources, out, count, how);
    case DType::int8: return combine_all<int8_t>(sources, out, count, how);
    case DType::uint8: return combine_all<uint8_t>(sources, out, count, how);
    case DType::int32: return combine_all<int32_t>(sources, out, count, how);
    case DType::int64: return combine_all<int64_t>(sources, out, count, how);
    case DType::boolean: break;
  }
  throw DTypeError("truth values cannot be added up over ranks; convert them with astype()");
}

}  // namespace gluino::distributed
