// Scalar mathematics that compilers turn into vector code: branch-free, no calls on the common paths.
// Bounds on the error in units in the last place (ulp), checked by tests/unit/kernels/vector_math_test.cc over all
// exponents: exp 2, expm1 3, log 2, log1p 3, tanh 7, erf 7 (float32); 1 for those of wide_math.h in float32 (erfinv 2; the gamma
// functions of positive numbers), and 2 for exp, log, sin and cos in float64. Everything else is libm.
// Included only from scalar_functions.h, inside one translation unit per instruction set.
#pragma once
#include <math.h>
#include <stdint.h>

namespace gluino::kernels::GLUINO_ISA {
namespace {
namespace math {

// clang-format off
template <class T> struct UnsignedOf;
template <> struct UnsignedOf<int32_t> { using type = uint32_t; };
template <> struct UnsignedOf<int64_t> { using type = uint64_t; };
template <> struct UnsignedOf<float> { using type = uint32_t; };
template <> struct UnsignedOf<double> { using type = uint64_t; };

inline uint32_t bits(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float from_bits(uint32_t u) { return __builtin_bit_cast(float, u); }

#define LIBM(fn) \
  inline float fn(float x) { return ::fn##f(x); } \
  inline double fn(double x) { return ::fn(x); }
LIBM(round) LIBM(ceil) LIBM(floor) LIBM(trunc)
#undef LIBM
inline float fmod(float x, float y) { return ::fmodf(x, y); }
inline double fmod(double x, double y) { return ::fmod(x, y); }
// Their float32 forms, and all of sin, cos, tan, are in wide_math.h.
#define LIBM(fn) \
  inline double fn(double x) { return ::fn(x); }
LIBM(cbrt) LIBM(log2) LIBM(log10) LIBM(asin) LIBM(acos) LIBM(atan) LIBM(sinh) LIBM(cosh) LIBM(asinh) LIBM(acosh) LIBM(atanh) LIBM(tgamma)
#undef LIBM
#define LIBM2(fn) \
  inline double fn(double x, double y) { return ::fn(x, y); }
LIBM2(pow) LIBM2(hypot) LIBM2(atan2)
#undef LIBM2
    // clang-format on

    inline float fabs(float x) {
  return __builtin_fabsf(x);
}
inline double fabs(double x) { return __builtin_fabs(x); }
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline double sqrt(double x) { return __builtin_sqrt(x); }
// The reentrant form: lgamma itself writes a global.
inline float far_lgamma(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}
inline double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
// Ties go down, as MXNet documents: rint(1.5) = 1, rint(-1.5) = -2.
template <class T>
inline T rint(T x) {
  const T low = floor(x), high = ceil(x);
  return x - low <= high - x ? low : high;
}

// a * b + c: rounded once where the instruction set has it. Every mode on one CPU uses the same instruction set.
inline float mad(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
// first * x^n + ... + last
template <class... Coefficients>
inline float polynomial(float x, float first, Coefficients... rest) {
  float p = first;
  ((p = mad(p, x, rest)), ...);
  return p;
}

inline float exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, found in the low bits
  const float shifted = mad(x, 1.44269504088896f, kShift);
  const float n = shifted - kShift;
  const float r = mad(n, 2.12194440e-4f, mad(n, -0.693359375f, x));
  const float q = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f);
  const float p = mad(q, r * r, r) + 1.0f;
  // 2^n in two factors, so that results below the normal range round correctly. NaN is kept by p.
  const int32_t whole = static_cast<int32_t>(bits(shifted) - bits(kShift));
  const int32_t half = whole >> 1;
  const float scale1 = from_bits(static_cast<uint32_t>(half + 127) << 23);
  const float scale2 = from_bits(static_cast<uint32_t>(whole - half + 127) << 23);
  return p * scale1 * scale2;
}

inline float expm1(float x) {
  // Taylor series below 0.5, where exp(x) - 1 would cancel.
  const float p = polynomial(x, 2.4801587e-5f, 1.9841270e-4f, 1.3888889e-3f, 8.3333333e-3f, 4.1666667e-2f, 1.6666667e-1f, 0.5f);
  const float small = mad(p, x * x, x);
  const float large = exp(x) - 1.0f;
  return fabs(x) < 0.5f ? __builtin_copysignf(small, x) : large;  // the sum loses the sign of zero
}
inline double expm1(double x) { return ::expm1(x); }

inline float log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const uint32_t u = bits(scaled);
  int32_t e = static_cast<int32_t>(u >> 23) - 126 - (tiny ? 23 : 0);
  float m = from_bits((u & 0x007fffffu) | 0x3f000000u);  // in [0.5, 1)
  const bool low = m < 0.707106781f;
  e = low ? e - 1 : e;
  m = (low ? m + m : m) - 1.0f;
  const float z = m * m;
  const float p = polynomial(m, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                             -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  const float fe = static_cast<float>(e);
  const float y = mad(-0.5f, z, mad(fe, -2.12194440e-4f, p * m * z));
  float result = mad(fe, 0.693359375f, m + y);
  result = x == __builtin_inff() ? x : result;
  result = x == 0.0f ? -__builtin_inff() : result;
  result = x < 0.0f || x != x ? __builtin_nanf("") : result;
  return result;
}

inline float log1p(float x) {
  const float u = 1.0f + x;
  const float exact = log(u) * (x / (u - 1.0f));
  float result = u == 1.0f ? x : exact;
  return u == __builtin_inff() ? u : result;
}
inline double log1p(double x) { return ::log1p(x); }

// x times a rational function in x^2, fitted for the least relative error up to 9.1; beyond it the result is 1 in float32.
inline float tanh(float x) {
  float c = x > 9.1f ? 9.1f : x;
  c = c < -9.1f ? -9.1f : c;
  const float z = c * c;
  const float p = polynomial(z, 1.3177529101745e-08f, 2.0481193786335e-05f, 3.4878115706547e-03f, 1.3374475653315e-01f, 1.0f);
  const float q = polynomial(z, 7.7040495297504e-07f, 3.2729209785010e-04f, 2.5847390648981e-02f, 4.6707789432202e-01f, 1.0f);
  float y = c * p / q;
  y = y > 1.0f ? 1.0f : y;
  return y < -1.0f ? -1.0f : y;
}
inline double tanh(double x) { return ::tanh(x); }

// A rational function in x^2 times x; beyond 4 the result is 1 in float32.
inline float erf(float x) {
  float c = x > 4.0f ? 4.0f : x;
  c = c < -4.0f ? -4.0f : c;
  const float z = c * c;
  const float p = polynomial(z, -2.72614225801306e-10f, 2.77068142495902e-08f, -2.10102402082508e-06f, -5.69250639462346e-05f,
                             -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f);
  const float q =
      polynomial(z, -1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f, -7.37332916720468e-03f, -1.42647390514189e-02f);
  return c * (p / q);  // c * p would leave the normal range for small c
}
inline double erf(double x) { return ::erf(x); }

// A rough start in the log of 1 - x^2, then Newton's method on erf.
inline double erfinv(double x) {
  if (!(fabs(x) < 1.0)) return fabs(x) == 1.0 ? __builtin_copysign(HUGE_VAL, x) : __builtin_nan("");
  if (fabs(x) < 1e-8) return x * 0.88622692545275801365;
  const double l = ::log1p(-x * x), t = 2.0 / (3.14159265358979323846 * 0.147) + l / 2;
  double y = __builtin_copysign(::sqrt(::sqrt(t * t - l / 0.147) - t), x);
  for (int i = 0; i < 3; ++i) {
    const double excess = x < 0 ? ::erfc(-y) - (1 + x) : (1 - x) - ::erfc(y);  // erf(y) - x without cancellation
    y -= excess * 0.88622692545275801365 * ::exp(y * y);
  }
  return y;
}

// Recurrence up to 8, reflection below 0, then the asymptotic series with Bernoulli numbers.
inline double digamma(double x) {
  double result = 0;
  if (x <= 0) {
    if (x == ::floor(x)) return __builtin_nan("");
    result = -3.14159265358979323846 / ::tan(3.14159265358979323846 * x);
    x = 1 - x;
  }
  for (; x < 8; x += 1) result -= 1 / x;
  const double z = 1 / (x * x);
  return result + ::log(x) - 0.5 / x -
         z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
}
inline float far_digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }

#if defined(__clang__) && (defined(__AVX512F__) || defined(__F16C__))
// Clang makes vectors of the instructions for it; GCC 12 does not, nor of the formulas below as short ones.
inline float half_to_float(uint16_t h) { return static_cast<float>(__builtin_bit_cast(_Float16, h)); }
inline uint16_t float_to_half(float x) {
  const float known = x != x ? __builtin_copysignf(__builtin_nanf(""), x) : x;
  return __builtin_bit_cast(uint16_t, static_cast<_Float16>(known));
}
#else
inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  // Shifted into place the exponent is 112 too small; the multiplication mends that for subnormals too.
  const float scaled = from_bits(magnitude << 13) * 0x1p112f;
  const uint32_t special = (magnitude << 13) | (magnitude > 0x7c00u ? 0x7fc00000u : 0x7f800000u);  // as instructions do: NaN is quiet
  return from_bits(sign | (magnitude >= 0x7c00u ? special : bits(scaled)));
}
inline uint16_t float_to_half(float x) {
  const uint32_t u = bits(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t subnormal = bits(from_bits(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return static_cast<uint16_t>(sign | result);
}
#endif
inline float bfloat_to_float(uint16_t h) { return from_bits(static_cast<uint32_t>(h) << 16); }
inline uint16_t float_to_bfloat(float x) {
  const uint32_t u = bits(x);
  return static_cast<uint16_t>(x != x ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

}  // namespace math
}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA

#include "kernels/isa/wide_math.h"
