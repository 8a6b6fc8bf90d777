// The scalar functions, each written once: struct F_<name> with f<T>(a, b, c). The eager kernels instantiate them for whole
// arrays (primitives_impl.h), src/jit takes the same definitions as LLVM bitcode: so both give the same bits.
// Only built-in arithmetic and libm are used here.
#pragma once
#include "gluino/expr.h"
#include "kernels/isa/vector_math.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

// One line per entry reads best.
// clang-format off
template <class T> constexpr bool kFloat = false;
template <> constexpr bool kFloat<float> = true;
template <> constexpr bool kFloat<double> = true;

// Each struct is one scalar function: f<T>(a, b, c). has<T> tells where it is defined.
struct AnyType { template <class T> static constexpr bool has = true; };
struct FloatOnly { template <class T> static constexpr bool has = kFloat<T>; };
struct SingleOnly { template <class T> static constexpr bool has = kFloat<T> && sizeof(T) == 4; };

#define UNARY(fn, kind, expression) \
  struct F_##fn : kind { template <class T> static inline T f(T x, T, T) { return static_cast<T>(expression); } };
#define BINARY(fn, kind, expression) \
  struct F_##fn : kind { template <class T> static inline T f(T x, T y, T) { return static_cast<T>(expression); } };

template <class T> using Unsigned = typename math::UnsignedOf<T>::type;
// Integer arithmetic wraps: computed unsigned, so that overflow is defined.
template <class T> inline T wrap_add(T x, T y) { if constexpr (kFloat<T>) return x + y; else return static_cast<T>(static_cast<Unsigned<T>>(x) + static_cast<Unsigned<T>>(y)); }
template <class T> inline T wrap_sub(T x, T y) { if constexpr (kFloat<T>) return x - y; else return static_cast<T>(static_cast<Unsigned<T>>(x) - static_cast<Unsigned<T>>(y)); }
template <class T> inline T wrap_mul(T x, T y) { if constexpr (kFloat<T>) return x * y; else return static_cast<T>(static_cast<Unsigned<T>>(x) * static_cast<Unsigned<T>>(y)); }
// Integer division by zero gives 0, as NumPy's does; the minimum divided by -1 wraps.
template <class T> inline T safe_div(T x, T y) {
  if constexpr (kFloat<T>) return x / y;
  else return y == 0 ? T(0) : y == T(-1) ? wrap_sub(T(0), x) : static_cast<T>(x / y);
}
// The sign of the result is that of the divisor, as in Python; mod by zero gives 0 for integers.
template <class T> inline T with_sign_of(T y, T r) { return r != 0 && ((r < 0) != (y < 0)) ? r + y : r; }
template <class T> inline T floor_mod(T x, T y) {
  if constexpr (kFloat<T>) {
    return with_sign_of(y, math::fmod(x, y));
  } else {
    if (y == 0 || y == T(-1)) return 0;
    const T r = static_cast<T>(x % y);
    return r != 0 && ((r < 0) != (y < 0)) ? static_cast<T>(r + y) : r;
  }
}
template <class T> inline T int_power(T x, T y) {
  if (y < 0) return x == 1 ? T(1) : x == T(-1) ? (y % 2 ? T(-1) : T(1)) : T(0);
  T result = 1;
  for (; y; y = static_cast<T>(y >> 1), x = wrap_mul(x, x)) if (y & 1) result = wrap_mul(result, x);
  return result;
}
template <class T> inline T power_of(T x, T y) {
  if constexpr (kFloat<T>) return math::pow(x, y);
  else return int_power(x, y);
}

struct F_negative : AnyType { template <class T> static inline T f(T x, T, T) { if constexpr (kFloat<T>) return -x; else return wrap_sub(T(0), x); } };
// Of zeros +0, of NaN itself: what x + 0 is.
template <class T> inline T sign_of(T x) {
  if constexpr (!kFloat<T>) return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0);
  const T one = sizeof(T) == sizeof(float) ? static_cast<T>(__builtin_copysignf(1.0f, static_cast<float>(x))) : static_cast<T>(__builtin_copysign(1.0, static_cast<double>(x)));
  return ((x < T(0)) | (x > T(0))) ? one : x + T(0);
}
UNARY(sign, AnyType, sign_of(x))
UNARY(logical_not, AnyType, x == T(0))
struct F_abs : AnyType { template <class T> static inline T f(T x, T, T) { if constexpr (kFloat<T>) return math::fabs(x); else return x < 0 ? wrap_sub(T(0), x) : x; } };
UNARY(round, FloatOnly, math::round(x)) UNARY(rint, FloatOnly, math::rint(x)) UNARY(ceil, FloatOnly, math::ceil(x))
UNARY(floor, FloatOnly, math::floor(x)) UNARY(trunc, FloatOnly, math::trunc(x)) UNARY(sqrt, FloatOnly, math::sqrt(x))
UNARY(cbrt, FloatOnly, math::cbrt(x)) UNARY(exp, FloatOnly, math::exp(x)) UNARY(expm1, FloatOnly, math::expm1(x))
UNARY(log, FloatOnly, math::log(x)) UNARY(log2, FloatOnly, math::log2(x)) UNARY(log10, FloatOnly, math::log10(x))
UNARY(log1p, FloatOnly, math::log1p(x))
// near: the same for all numbers that are not far.
#define NEAR(fn) \
  struct F_##fn : FloatOnly { \
    template <class T> static inline T f(T x, T, T) { return math::fn(x); } \
    template <class T> static inline T near(T x) { return math::near_##fn(x); } \
    template <class T> static inline bool is_far(T x) { return math::is_far(x); } \
  };
NEAR(sin) NEAR(cos) NEAR(tan)
#undef NEAR
#define NEAR(fn, function) \
  struct F_##fn : FloatOnly { \
    template <class T> static inline T f(T x, T, T) { return math::function(x); } \
    template <class T> static inline T near(T x) requires(sizeof(T) == 4) { return math::near_##function(x); } \
    template <class T> static inline bool is_far(T x) { return math::has_far_gamma(x); } \
  };
NEAR(gamma, tgamma) NEAR(gammaln, lgamma) NEAR(digamma, digamma)
#undef NEAR
UNARY(arcsin, FloatOnly, math::asin(x)) UNARY(arccos, FloatOnly, math::acos(x))
UNARY(arctan, FloatOnly, math::atan(x)) UNARY(sinh, FloatOnly, math::sinh(x)) UNARY(cosh, FloatOnly, math::cosh(x))
UNARY(tanh, FloatOnly, math::tanh(x)) UNARY(arcsinh, FloatOnly, math::asinh(x)) UNARY(arccosh, FloatOnly, math::acosh(x))
UNARY(arctanh, FloatOnly, math::atanh(x)) UNARY(erf, FloatOnly, math::erf(x)) UNARY(erfinv, FloatOnly, math::erfinv(x))
UNARY(isnan, FloatOnly, x != x) UNARY(isinf, FloatOnly, math::fabs(x) == static_cast<T>(HUGE_VAL))
UNARY(widen, AnyType, x) UNARY(to_float16, SingleOnly, math::half_to_float(math::float_to_half(x)))
UNARY(to_bfloat16, SingleOnly, math::bfloat_to_float(math::float_to_bfloat(x))) UNARY(to_bool, AnyType, x != T(0))
BINARY(add, AnyType, wrap_add(x, y)) BINARY(subtract, AnyType, wrap_sub(x, y)) BINARY(multiply, AnyType, wrap_mul(x, y))
struct F_mod : AnyType {
  template <class T> static inline T f(T x, T y, T) { return floor_mod(x, y); }
  template <class T> static inline T near(T x, T y) requires(kFloat<T> && sizeof(T) == 4) { return with_sign_of(y, math::near_fmod(x, y)); }
  template <class T> static inline bool is_far(T x, T y) { return math::has_far_fmod(x, y); }
};
BINARY(divide, AnyType, safe_div(x, y)) BINARY(power, AnyType, power_of(x, y))
// NaN in either operand gives NaN, as in NumPy.
BINARY(maximum, AnyType, x != x || x > y ? x : y) BINARY(minimum, AnyType, x != x || x < y ? x : y)
BINARY(hypot, FloatOnly, math::hypot(x, y)) BINARY(arctan2, FloatOnly, math::atan2(x, y))
BINARY(equal, AnyType, x == y) BINARY(not_equal, AnyType, x != y) BINARY(greater, AnyType, x > y)
BINARY(greater_equal, AnyType, x >= y) BINARY(lesser, AnyType, x < y) BINARY(lesser_equal, AnyType, x <= y)
BINARY(logical_and, AnyType, (x != T(0)) & (y != T(0))) BINARY(logical_or, AnyType, (x != T(0)) | (y != T(0)))
BINARY(logical_xor, AnyType, (x != T(0)) != (y != T(0)))
struct F_select : AnyType { template <class T> static inline T f(T c, T x, T y) { return c != T(0) ? x : y; } };
struct Leaf { template <class T> static constexpr bool has = false; };
struct F_input : Leaf {};
struct F_constant : Leaf {};
#undef UNARY
#undef BINARY

// clang-format on

}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA
