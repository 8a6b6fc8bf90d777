// Writes out what blocks of elements share: a number, or a row.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "gluino/dtype.h"

namespace gluino::kernels {

// Writes `n` elements of a row that is read again and again, beginning with its element `at`: what is written is copied, twice as much each
// time.
template <class T>
void repeat_row(const T* row, int64_t extent, int64_t at, int64_t n, T* dst) {
  const int64_t rest = std::min(n, extent - at), before = std::min(n - rest, at);
  std::memcpy(dst, row + at, rest * sizeof(T));
  std::memcpy(dst + rest, row, before * sizeof(T));
  for (int64_t done = rest + before; done < n; done *= 2) std::memcpy(dst + done, dst, std::min(done, n - done) * sizeof(T));
}

// One number, at the beginning of dst, becomes n.
inline void spread(void* dst, int64_t width, int64_t n) {
  if (width == 4)
    std::fill_n(static_cast<uint32_t*>(dst), n, *static_cast<uint32_t*>(dst));
  else
    std::fill_n(static_cast<uint64_t*>(dst), n, *static_cast<uint64_t*>(dst));
}

inline void fill_constant(double value, DType type, void* dst, int64_t n) {
  switch (type) {
    case DType::float32: std::fill_n(static_cast<float*>(dst), n, static_cast<float>(value)); return;
    case DType::float64: std::fill_n(static_cast<double*>(dst), n, value); return;
    case DType::int32: std::fill_n(static_cast<int32_t*>(dst), n, static_cast<int32_t>(static_cast<int64_t>(value))); return;
    default: std::fill_n(static_cast<int64_t*>(dst), n, static_cast<int64_t>(value)); return;
  }
}

}  // namespace gluino::kernels
