// 16-bit floats in files that are compiled once per instruction set: sixteen of them become float32, or are made of it, in registers.
// Everything here belongs to the file that includes it.
#pragma once
#include <stdint.h>

#include "kernels/isa/vector_math.h"
#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace gluino::kernels::GLUINO_ISA {
namespace {

// Elements of arrays.
struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};
constexpr int64_t kNarrowSet = 16;  // elements at once

inline float widened(Half x) { return math::half_to_float(x.bits); }
inline float widened(BFloat x) { return math::bfloat_to_float(x.bits); }

// float16 has instructions of its own, with the results of the formulas; a NaN becomes the one that the formula gives.
#if defined(__AVX512F__)
constexpr __mmask16 kAll = 0xffff;  // GCC warns of the functions without masks
__attribute__((always_inline)) inline void widen_set(const Half* from, float* to) {
  _mm512_storeu_ps(to, _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
__attribute__((always_inline)) inline void narrow_set(const float* from, Half* to) {
  const __m512 x = _mm512_loadu_ps(from);
  const __m512i sign = _mm512_set1_epi32(INT32_MIN), nan = _mm512_set1_epi32(0x7fc00000);
  const __m512i known = _mm512_mask_ternarylogic_epi32(_mm512_castps_si512(x), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), sign, nan,
                                                       0xea);  // (x & sign) | nan
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtps_ph(kAll, _mm512_castsi512_ps(known), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
__attribute__((always_inline)) inline void widen_set(const BFloat* from, float* to) {
  const __m512i x = _mm512_maskz_cvtepu16_epi32(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  _mm512_storeu_ps(to, _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, x, 16)));
}
__attribute__((always_inline)) inline void narrow_set(const float* from, BFloat* to) {
  const __m512 x = _mm512_loadu_ps(from);
  const __m512i u = _mm512_castps_si512(x), high = _mm512_maskz_srli_epi32(kAll, u, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_maskz_srli_epi32(kAll, _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __m512i result = _mm512_mask_or_epi32(nearest, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), high, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(kAll, result));
}
#elif defined(__F16C__)
__attribute__((always_inline)) inline void widen_set(const Half* from, float* to) {
  for (int64_t i = 0; i < kNarrowSet; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
}
__attribute__((always_inline)) inline void narrow_set(const float* from, Half* to) {
  for (int64_t i = 0; i < kNarrowSet; i += 8) {
    const __m256 x = _mm256_loadu_ps(from + i), sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    const __m256 nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    const __m256 known = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(known, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
}
#else
__attribute__((always_inline)) inline void widen_set(const Half* from, float* to) {
  for (int64_t i = 0; i < kNarrowSet; ++i) to[i] = widened(from[i]);
}
__attribute__((always_inline)) inline void narrow_set(const float* from, Half* to) {
  for (int64_t i = 0; i < kNarrowSet; ++i) to[i].bits = math::float_to_half(from[i]);
}
#endif
#if !defined(__AVX512F__)
__attribute__((always_inline)) inline void widen_set(const BFloat* from, float* to) {
  for (int64_t i = 0; i < kNarrowSet; ++i) to[i] = widened(from[i]);
}
__attribute__((always_inline)) inline void narrow_set(const float* from, BFloat* to) {
  for (int64_t i = 0; i < kNarrowSet; ++i) to[i].bits = math::float_to_bfloat(from[i]);
}
#endif

// The same for so many elements as a vector has.
template <int64_t count, class N>
__attribute__((always_inline)) inline void widen_vector(const N* from, float* to) {
  if constexpr (count == kNarrowSet) return widen_set(from, to);
  for (int64_t i = 0; i < count; ++i) to[i] = widened(from[i]);
}
#if defined(__AVX512F__) || defined(__F16C__)
template <>
__attribute__((always_inline)) inline void widen_vector<8, Half>(const Half* from, float* to) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
#if defined(__AVX512F__)
  _mm256_storeu_ps(to, _mm256_maskz_cvtph_ps(0xff, x));
#else
  _mm256_storeu_ps(to, _mm256_cvtph_ps(x));
#endif
}
#endif
#if defined(__F16C__)
template <>
__attribute__((always_inline)) inline void widen_vector<4, Half>(const Half* from, float* to) {
  _mm_storeu_ps(to, _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
#endif

// So many elements that there are, of a set; the others are 0.
template <class T>
__attribute__((always_inline)) inline void load_part(const T* from, int64_t count, T* set) {
  for (int64_t i = 0; i < kNarrowSet; ++i) set[i] = i < count ? from[i] : T();
}

}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA
