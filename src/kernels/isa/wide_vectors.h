// Vectors as wide as the instruction set's, for files that are compiled once per instruction set: everything here belongs to the
// file that includes it. 64 bytes of lanes at a time, in so many vectors, give every instruction set the same order of additions.
#pragma once
#include <stdint.h>

namespace gluino::kernels::GLUINO_ISA {
namespace {

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors never cross a function that is not inlined
#define GLUINO_INLINE __attribute__((always_inline)) inline

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
constexpr int kVectors = 64 / kBytes;
template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
constexpr int64_t kLanes = 64 / sizeof(T);
template <class T>
constexpr int64_t kWidth = kBytes / sizeof(T);

template <class V>
GLUINO_INLINE V load(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(V));
  return v;
}

}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA
