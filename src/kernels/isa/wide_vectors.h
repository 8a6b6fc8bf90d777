// Vectors as wide as the instruction set's, for files that are compiled once per instruction set: everything here belongs to the
// file that includes it. 64 bytes of lanes at a time, in so many vectors, give every instruction set the same order of additions.
#pragma once
#include <stdint.h>

#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

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
// By value: what has its address taken, GCC keeps in memory.
template <class V>
GLUINO_INLINE void store(void* to, V v) {
  __builtin_memcpy(to, &v, sizeof(V));
}
// Of float32 to double GCC 12 makes conversions of pairs and what joins them.
template <class To, class From>
GLUINO_INLINE To converted(const From& v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(To) == 64 && sizeof(From) == 32) return To(_mm512_maskz_cvtps_pd(0xff, __m256(v)));
#elif defined(__AVX2__)
  if constexpr (sizeof(To) == 32 && sizeof(From) == 16) return To(_mm256_cvtps_pd(__m128(v)));
#endif
  return __builtin_convertvector(v, To);
}

// All lanes of some vectors in one, as halved() does it with memory: GCC would keep in memory, all the time, what is read there in the end.
template <class T, class V, size_t... i, class Combine>
GLUINO_INLINE T vector_in_one(const V& v, std::index_sequence<i...>, Combine&& combine_both) {
  constexpr int half = sizeof...(i);
  const auto both = combine_both(__builtin_shufflevector(v, v, i...), __builtin_shufflevector(v, v, (i + half)...));
  if constexpr (half == 2)
    return combine_both(both[0], both[1]);
  else
    return vector_in_one<T>(both, std::make_index_sequence<half / 2>(), combine_both);
}
template <int vectors, int width, class T, class V, class Combine>
GLUINO_INLINE T lanes_in_one(const V* v, Combine&& combine_both) {
  if constexpr (vectors > 1) {
    V half[vectors / 2];
    for (int i = 0; i < vectors / 2; ++i) half[i] = combine_both(v[i], v[i + vectors / 2]);
    return lanes_in_one<vectors / 2, width, T>(half, combine_both);
  } else if constexpr (width == 2) {
    return combine_both(v[0][0], v[0][1]);
  } else {
    return vector_in_one<T>(v[0], std::make_index_sequence<width / 2>(), combine_both);
  }
}

}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA
