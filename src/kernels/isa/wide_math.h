// Functions that are computed in double: those of float32 are rounded once at the end, so that few terms suffice; exp, log, sin and cos
// also for float64. Branch-free, as in vector_math.h, which includes this. Without fused multiply-add (the baseline) they are libm's.
#pragma once

namespace gluino::kernels::GLUINO_ISA {
namespace {
namespace math {

constexpr double kPi = 3.14159265358979323846, kHalfPi = kPi / 2;

inline uint64_t bits(double x) { return __builtin_bit_cast(uint64_t, x); }
inline double from_bits(uint64_t u) { return __builtin_bit_cast(double, u); }
inline double mad(double a, double b, double c) { return __builtin_fma(a, b, c); }
template <class... Coefficients>
inline double polynomial(double x, double first, Coefficients... rest) {
  double p = first;
  ((p = mad(p, x, rest)), ...);
  return p;
}

namespace wide {

// `full`: good for float64, else for a result that is rounded to float32.
constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, found in the low bits

template <bool full>
inline double exp(double x) {
  constexpr double most = full ? 710.0 : 200.0, least = full ? -746.0 : -200.0;
  x = x > most ? most : x;
  x = x < least ? least : x;
  const double shifted = mad(x, 1.4426950408889634, kShift), n = shifted - kShift;
  const double r = mad(n, -2.3190468138462996e-17, mad(n, -0.6931471805599453, x));
  double q = full ? polynomial(r, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880) : 0;
  q = full ? polynomial(r, q, 1.0 / 40320) : 1.0 / 40320;
  const double p = mad(mad(polynomial(r, q, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6), r, 0.5), r * r, r) + 1;
  const uint64_t whole = bits(shifted) - bits(kShift);  // modulo 2^64
  if constexpr (!full) return p * from_bits((whole + 1023) << 52);
  // 2^n in two factors, so that results below the normal range round correctly.
  const uint64_t half = ((whole + 2048) >> 1) - 1024;
  return p * from_bits((half + 1023) << 52) * from_bits((whole - half + 1023) << 52);
}

// Of 1 + f times 2^e, f between sqrt(1/2) - 1 and sqrt(2) - 1.
template <bool full>
inline double log_of_parts(double f, double e) {
  const double s = f / (2 + f), z = s * s;
  double q = full ? polynomial(z, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17) : 0;
  q = full ? polynomial(z, q, 2.0 / 15) : 2.0 / 15;
  q = z * polynomial(z, q, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3);
  if constexpr (!full) return mad(e, 0.6931471805599453, mad(s, q, s + s));
  // log(1 + f) = f - (f^2 / 2 - s (f^2 / 2 + q)); the first part of log 2 has so few bits that e times it is exact.
  const double half = 0.5 * f * f;
  return e * 0.6931471804855391 - ((half - mad(s, half + q, e * 7.440617110012397e-11)) - f);
}
struct Parts {
  double f, e;
};
// Of a positive normal number.
inline Parts parts_of(double x) {
  constexpr uint64_t kRoot = 0x3fe6a09e667f3bcd, kOne = 0x3ff0000000000000;  // sqrt(1/2), 1
  const uint64_t u = bits(x) + (kOne - kRoot);
  const double m = from_bits((u & 0x000fffffffffffff) + kRoot);
  return {m - 1, from_bits((u >> 52) | 0x4330000000000000) - (4503599627370496.0 + 1023)};
}
inline double with_special_logs(double x, double result) {
  result = x == HUGE_VAL ? x : result;
  result = x == 0 ? -HUGE_VAL : result;
  return x < 0 || x != x ? __builtin_nan("") : result;
}
template <bool full>
inline double log(double x) {
  const bool tiny = full && x < 2.2250738585072014e-308;
  Parts p = parts_of(tiny ? x * 0x1p54 : x);
  p.e = tiny ? p.e - 54 : p.e;
  return with_special_logs(x, log_of_parts<full>(p.f, p.e));
}
// log(1 + t) without losing digits of small t.
inline double log1p(double t) {
  const double u = 1 + t, lost = t - (u - 1);
  const Parts p = parts_of(u);
  const double result = log_of_parts<false>(mad(lost, (p.f + 1) / u, p.f), p.e);
  return u == HUGE_VAL ? u : result;
}

// x = quadrant * pi / 2 + r + rest; the quadrant is in the last bits.
struct Angle {
  double r, rest;
  uint64_t quadrant;
};
inline Angle reduced(float x) {
  const double d = x, shifted = mad(d, 2 / kPi, kShift), n = shifted - kShift;
  return {mad(n, -6.123233995736766e-17, mad(n, -1.5707963267948966, d)), 0, bits(shifted)};
}
// pi / 2 in parts of 33 bits: n times each of them is exact.
inline Angle reduced(double x) {
  const double shifted = mad(x, 2 / kPi, kShift), n = shifted - kShift;
  const double first = x - n * 1.5707963267341256, second = n * 6.077100506303966e-11, third = n * 2.0222662487111665e-21;
  const double two = first - second, two_rest = (first - two) - second;
  const double sum = two - third, sum_rest = ((two - sum) - third) + (two_rest - n * 8.4784276603689e-32);
  const double r = sum + sum_rest;
  return {r, (sum - r) + sum_rest, bits(shifted)};
}
template <bool full>
inline double sin_of(double r, double rest) {
  const double z = r * r;
  double q = full ? polynomial(z, 1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800) : 0;
  q = full ? polynomial(z, q, 1.0 / 362880) : 1.0 / 362880;
  q = polynomial(z, q, -1.0 / 5040, 1.0 / 120, -1.0 / 6);
  return full ? r + mad(r * z, q, rest * mad(-0.5, z, 1)) : r * mad(z, q, 1);  // keeps the sign of zero
}
template <bool full>
inline double cos_of(double r, double rest) {
  const double z = r * r;
  double q = full ? polynomial(z, 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600) : 0;
  q = full ? polynomial(z, q, -1.0 / 3628800) : -1.0 / 3628800;
  q = polynomial(z, q, 1.0 / 40320, -1.0 / 720, 1.0 / 24);
  if constexpr (!full) return mad(z * z, q, mad(-0.5, z, 1));
  const double half = 0.5 * z, one = 1 - half;
  return one + (((1 - one) - half) + mad(z * z, q, -r * rest));
}
// The sine of the angle and `ahead` right angles.
template <bool full>
inline double sin_ahead(const Angle& a, uint64_t ahead) {
  const uint64_t quadrant = a.quadrant + ahead;
  const double value = quadrant & 1 ? cos_of<full>(a.r, a.rest) : sin_of<full>(a.r, a.rest);
  return from_bits(bits(value) ^ (quadrant & 2) << 62);
}

// atan(u) / u of u^2 up to 1, and asin(u) / u of u^2 up to 1/4, fitted for the least relative error.
inline double atan_ratio(double z) {
  return polynomial(z, 0.0010844927927014917, -0.007166165107893501, 0.022203455371548494, -0.04427366881956599, 0.06710114029132422,
                    -0.08796117575766361, 0.11053784758404507, -0.1427904841775175, 0.199995958542478, -0.33333323665629583,
                    0.9999999996145261);
}
inline double asin_ratio(double z) {
  return polynomial(z, 0.03487368906241064, 0.007291883701443799, 0.024688179665150304, 0.030096185309220088, 0.04466168830947638,
                    0.07499939642410808, 0.1666666739918316, 0.9999999999854746);
}

// log(gamma(x)) of a positive number: a polynomial around its zeros, 1 and 2, and Stirling's series from 8 on; what lies between is brought
// there by gamma(x + 1) = x gamma(x).
inline double log_gamma(double x) {
  const double u = (x < 1 ? x + 1 : x) - 2;
  const double middle =
      (u + 1) * u *
      polynomial(u, -9.674235134298214e-06, 1.9308493281187112e-05, -7.292816535482421e-06, 2.025008364398672e-05, -9.172134436056467e-05,
                 0.00019579875191112707, -0.000401990131890031, 0.000910506645384146, -0.0021089394679178145, 0.004999480443059534,
                 -0.01238411538141386, 0.03296494688058068, -0.10031730377216187, 0.42278433565702417);
  const double z = x < 8 ? x + 5 : x, w = 1 / z;
  const double far =
      mad(z - 0.5, log<false>(z), 0.91893853320467274178 - z) + w * polynomial(w * w, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12);
  const double steps = x * (x + 1) * (x + 2) * (x + 3) * (x + 4), between = x < 3 || x >= 8 ? 1 : steps;
  return (x < 3 ? middle : far) - log<false>(x < 1 ? x : between);
}
// Its derivative, of a positive number.
inline double digamma(double x) {
  double over = 1, under = x;  // 1 / x + 1 / (x + 1) + ...
  for (int i = 1; i < 8; ++i) {
    over = mad(over, x + i, under);
    under *= x + i;
  }
  const double z = x < 8 ? x + 8 : x, w = 1 / z, v = w * w;
  const double series = polynomial(v, -1.0 / 12, 691.0 / 32760, -1.0 / 132, 1.0 / 240, -1.0 / 252, 1.0 / 120, -1.0 / 12);
  return mad(v, series, mad(-0.5, w, log<false>(z))) - (x < 8 ? over / under : 0);
}

}  // namespace wide

// Where sin, cos and tan are left to libm: the reduction above would not be exact.
inline bool is_far(float x) { return fabs(x) > 0x1p47f; }
inline bool is_far(double x) { return fabs(x) > 0x1p20; }
// The same for the gamma functions: below 0 they have poles.
// And for remainders, where the quotient has more digits than a double. All remainders are exact, far or near.
inline bool has_far_fmod(float x, float y) { return !(fabs(x) < fabs(y) * 0x1p30f && fabs(y) < HUGE_VALF); }
inline bool has_far_gamma(float x) { return !(x > 0 && x < HUGE_VALF); }

#ifdef __FMA__
inline float near_sin(float x) { return static_cast<float>(wide::sin_ahead<false>(wide::reduced(x), 0)); }
inline float near_cos(float x) { return static_cast<float>(wide::sin_ahead<false>(wide::reduced(x), 1)); }
inline double near_sin(double x) { return x == 0 ? x : wide::sin_ahead<true>(wide::reduced(x), 0); }
inline double near_cos(double x) { return wide::sin_ahead<true>(wide::reduced(x), 1); }
inline float near_tan(float x) {
  const wide::Angle a = wide::reduced(x);
  const double s = wide::sin_of<false>(a.r, 0), c = wide::cos_of<false>(a.r, 0);
  return static_cast<float>(a.quadrant & 1 ? -c / s : s / c);
}
inline double near_tan(double x) { return ::tan(x); }

inline double exp(double x) { return wide::exp<true>(x); }
inline double log(double x) { return wide::log<true>(x); }
inline float log2(float x) {
  const double d = x;
  return static_cast<float>(wide::log<false>(d) * 1.4426950408889634);
}
inline float log10(float x) {
  const double d = x;
  return static_cast<float>(wide::log<false>(d) * 0.4342944819032518);
}

inline float atan(float x) {
  const double t = fabs(x), u = t > 1 ? 1 / t : t, p = u * wide::atan_ratio(u * u);
  return __builtin_copysignf(static_cast<float>(t > 1 ? kHalfPi - p : p), x);
}
inline float atan2(float y, float x) {
  const double b = fabs(y), a = fabs(x), least = b > a ? a : b, most = b > a ? b : a;
  const double ratio = least == most ? 1 : least / most, u = most == 0 ? 0 : ratio;
  const double p = u * wide::atan_ratio(u * u), first = b > a ? kHalfPi - p : p;
  const double turned = __builtin_copysign(1.0, static_cast<double>(x)) < 0 ? kPi - first : first;
  const float result = __builtin_copysignf(static_cast<float>(turned), y);
  return x != x || y != y ? __builtin_nanf("") : result;
}
inline float asin(float x) {
  const double t = fabs(x), z = t > 0.5 ? (1 - t) * 0.5 : t * t, s = t > 0.5 ? sqrt(z) : t, p = s * wide::asin_ratio(z);
  return __builtin_copysignf(static_cast<float>(t > 0.5 ? kHalfPi - 2 * p : p), x);
}
inline float acos(float x) {
  const double d = x, t = fabs(d), z = t > 0.5 ? (1 - t) * 0.5 : t * t, s = t > 0.5 ? sqrt(z) : d, p = s * wide::asin_ratio(z);
  const double far = d > 0 ? 2 * p : kPi - 2 * p;
  return static_cast<float>(t > 0.5 ? far : kHalfPi - p);
}

inline float sinh(float x) {
  const double d = x, z = d * d, e = wide::exp<false>(d);
  const double small = d * polynomial(z, 1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6, 1);
  return static_cast<float>(fabs(d) < 1 ? small : 0.5 * (e - 1 / e));
}
inline float cosh(float x) {
  const double e = wide::exp<false>(static_cast<double>(x));
  return static_cast<float>(0.5 * (e + 1 / e));
}
inline float asinh(float x) {
  const double t = fabs(x), z = t * t;
  const double result = wide::log1p(t + z / (1 + sqrt(1 + z)));
  return __builtin_copysignf(static_cast<float>(t == HUGE_VAL ? t : result), x);
}
inline float acosh(float x) {
  const double t = static_cast<double>(x) - 1;
  const double result = wide::log1p(t + sqrt(t * (t + 2)));
  return static_cast<float>(t < 0 ? __builtin_nan("") : result);
}
inline float atanh(float x) {
  const double t = fabs(x);
  const float result = __builtin_copysignf(static_cast<float>(0.5 * wide::log1p(2 * t / (1 - t))), x);
  return t > 1 ? __builtin_nanf("") : result;
}

inline float cbrt(float x) {
  const double t = fabs(x), root = wide::exp<false>(wide::log<false>(t) * (1.0 / 3));
  return __builtin_copysignf(static_cast<float>(t == 0 || t == HUGE_VAL ? t : root), x);
}
inline float hypot(float x, float y) {
  const double a = fabs(x), b = fabs(y), root = sqrt(a * a + b * b);
  return static_cast<float>(a == HUGE_VAL || b == HUGE_VAL ? HUGE_VAL : root);
}
inline float pow(float x, float y) {
  const double base = x, a = fabs(base), d = y;
  double result = wide::exp<false>(d * wide::log<false>(a));
  const double whole = __builtin_floor(d), even = 2 * __builtin_floor(0.5 * d), sign = __builtin_copysign(1.0, base);
  result = ((sign < 0) & (whole != d) & (a != 0) & (a != HUGE_VAL)) ? __builtin_nan("") : result;
  result = ((sign < 0) & (whole == d) & (even != d)) ? -result : result;
  return static_cast<float>(((base == 1) | (d == 0) | ((a == 1) & (fabs(d) == HUGE_VAL))) ? 1.0 : result);
}

// x times a function of log(1 - x^2), fitted in two parts for the least relative error.
inline float erfinv(float x) {
  const double d = x, w = -wide::log<false>((1 - d) * (1 + d)), u = sqrt(w) - 3.25;
  const double near = polynomial(w, -1.2383879604335204e-11, 4.698955650520354e-10, -7.139919684590262e-09, 4.9133218324766524e-08,
                                 -5.461932185261119e-08, -1.198992103872605e-06, 2.795733959654545e-06, 4.510324385584449e-05,
                                 -0.0001263855424146322, -0.002336120365382627, 0.0115496558820578, 0.2320136293843171, 0.8862269261707114);
  const double far = polynomial(u, -0.0002589637397318109, 0.0009402721711127645, -0.0017297077457563575, 0.0025006259085877535,
                                -0.0037447050469736586, 0.005369621540047943, 1.005258693881593, 3.0838856360167055);
  const double inside = d * (w < 6.25 ? near : far);
  return static_cast<float>(fabs(d) == 1 ? d * HUGE_VAL : inside);
}

inline float near_fmod(float x, float y) {
  const double a = fabs(x), b = fabs(y);
  double r = mad(-__builtin_floor(a / b), b, a);  // the quotient may be rounded to the next whole number
  r = r < 0 ? r + b : r;
  return __builtin_copysignf(static_cast<float>(r), x);
}
inline float near_lgamma(float x) { return static_cast<float>(wide::log_gamma(static_cast<double>(x))); }
inline float near_tgamma(float x) { return static_cast<float>(wide::exp<false>(wide::log_gamma(static_cast<double>(x)))); }
inline float near_digamma(float x) { return static_cast<float>(wide::digamma(static_cast<double>(x))); }
#else
// clang-format off
#define NEAR(fn) \
  inline float near_##fn(float x) { return ::fn##f(x); } \
  inline double near_##fn(double x) { return ::fn(x); }
NEAR(sin) NEAR(cos) NEAR(tan)
#undef NEAR
#define FLOAT(fn) \
  inline float fn(float x) { return ::fn##f(x); }
FLOAT(log2) FLOAT(log10) FLOAT(atan) FLOAT(asin) FLOAT(acos) FLOAT(sinh) FLOAT(cosh) FLOAT(asinh) FLOAT(acosh) FLOAT(atanh) FLOAT(cbrt)
#undef FLOAT
inline double exp(double x) { return ::exp(x); }
inline double log(double x) { return ::log(x); }
inline float atan2(float y, float x) { return ::atan2f(y, x); }
inline float hypot(float x, float y) { return ::hypotf(x, y); }
inline float pow(float x, float y) { return ::powf(x, y); }
inline float erfinv(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }
inline float near_fmod(float x, float y) { return ::fmodf(x, y); }
inline float near_lgamma(float x) { return far_lgamma(x); }
inline float near_tgamma(float x) { return ::tgammaf(x); }
inline float near_digamma(float x) { return far_digamma(x); }
// clang-format on
#endif

// clang-format off
#define ANY(fn) \
  inline float fn(float x) { return is_far(x) ? ::fn##f(x) : near_##fn(x); } \
  inline double fn(double x) { return is_far(x) ? ::fn(x) : near_##fn(x); }
ANY(sin) ANY(cos) ANY(tan)
#undef ANY
    // clang-format on
    inline float lgamma(float x) {
  return has_far_gamma(x) ? far_lgamma(x) : near_lgamma(x);
}
inline float tgamma(float x) { return has_far_gamma(x) ? ::tgammaf(x) : near_tgamma(x); }
inline float digamma(float x) { return has_far_gamma(x) ? far_digamma(x) : near_digamma(x); }

}  // namespace math
}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA
