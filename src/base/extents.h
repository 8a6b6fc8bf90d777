// Arithmetic of shape rules on whatever numbers a caller or a file gives: a result that does not fit stays at the last number that
// does, and the shape it gets into is refused by infer_shapes as too large or negative.
#pragma once
#include <cstdint>
#include <limits>

namespace gluino {

inline constexpr int64_t kMaxExtent = int64_t{1} << 47;  // of an axis of a tensor: more than any memory holds

inline int64_t saturated_product(int64_t a, int64_t b) {
  int64_t result;
  if (!__builtin_mul_overflow(a, b, &result)) return result;
  return (a < 0) == (b < 0) ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}
inline int64_t saturated_sum(int64_t a, int64_t b) {
  int64_t result;
  if (!__builtin_add_overflow(a, b, &result)) return result;
  return a > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

}  // namespace gluino
