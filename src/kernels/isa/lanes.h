// Vectors of 8 floats, for files that are compiled once per instruction set: everything here belongs to the file that
// includes it, so that no two instruction sets share a function.
#pragma once
#include <stdint.h>
#include <string.h>

namespace gluino::kernels::GLUINO_ISA {
namespace {

typedef float Lanes __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;

inline Lanes load(const float* p) {
  Lanes v;
  memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Lanes v) { memcpy(p, &v, sizeof v); }
inline Lanes spread(float x) { return Lanes{x, x, x, x, x, x, x, x}; }
inline bool is_zero(Lanes v) {
  uint64_t bits[4];
  memcpy(bits, &v, sizeof v);
  constexpr uint64_t kWithoutSigns = 0x7fffffff'7fffffff;
  return ((bits[0] | bits[1] | bits[2] | bits[3]) & kWithoutSigns) == 0;
}
// NaN stays and -0 becomes 0, as in the elementwise relu.
inline Lanes relu(Lanes v) { return (v <= spread(0.0f)) ? spread(0.0f) : v; }
inline Lanes relu(Lanes v, float limit) {
  const Lanes positive = relu(v);
  return positive > spread(limit) ? spread(limit) : positive;
}
inline float relu(float v) { return v <= 0.0f ? 0.0f : v; }

// Rows become columns: pairs, then groups of four, then halves change places.
inline void transpose(Lanes (&v)[kLanes]) {
  Lanes t[kLanes], u[kLanes];
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int h = 0; h < 2; ++h) {
      u[i + 2 * h] = __builtin_shufflevector(t[i + h], t[i + 2 + h], 0, 1, 8, 9, 4, 5, 12, 13);
      u[i + 2 * h + 1] = __builtin_shufflevector(t[i + h], t[i + 2 + h], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    v[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    v[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA
