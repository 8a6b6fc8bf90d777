// Compiled to LLVM bitcode, once per instruction set, and kept inside libgluino_jit: the scalar functions of the eager
// kernels, for fused loops to call and inline, gluino_<type>_<function>(a, b, c); and what reductions are made of.
#define GLUINO_ISA bitcode
#include "kernels/isa/scalar_functions.h"
#include "program/reduce_formulas.h"

namespace gluino::kernels::bitcode {

template <class T>
constexpr int kLanes = 64 / sizeof(T);

template <class F, class T>
static inline T call(T a, T b, T c) {
  if constexpr (F::template has<T>)
    return F::template f<T>(a, b, c);
  else
    return T();  // no program asks for it
}

extern "C" {
#define GLUINO_X(name, arity)                                                                    \
  float gluino_f32_##name(float a, float b, float c) { return call<F_##name>(a, b, c); }         \
  double gluino_f64_##name(double a, double b, double c) { return call<F_##name>(a, b, c); }     \
  int32_t gluino_i32_##name(int32_t a, int32_t b, int32_t c) { return call<F_##name>(a, b, c); } \
  int64_t gluino_i64_##name(int64_t a, int64_t b, int64_t c) { return call<F_##name>(a, b, c); }
GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef GLUINO_X

#define REDUCTION(T, type, how)                                                                                 \
  T gluino_##type##_map_##how(T x) { return map<ReduceOp::how>(x); }                                            \
  T gluino_##type##_combine_##how(T a, T x) { return combine<ReduceOp::how>(a, x); }                            \
  T gluino_##type##_identity_##how() { return identity<T>(ReduceOp::how); }                                     \
  Lane<ReduceOp::how, T> gluino_##type##_halved_##how(const Lane<ReduceOp::how, T>* lanes) {                    \
    return halved<kLanes<T>>(lanes, [](const auto& a, const auto& b) { return combine<ReduceOp::how>(a, b); }); \
  }
#define FINISH(T, type, how) \
  T gluino_##type##_finish_##how(double total, double count) { return static_cast<T>(finished(ReduceFinish::how, total, count)); }
#define ROWS(T, type)                                                                              \
  T gluino_##type##_larger_of(T a, T x) { return larger_of(a, x); }                                \
  T gluino_##type##_halved_larger(const T* lanes) {                                                \
    return halved<kLanes<T>>(lanes, [](const auto& a, const auto& b) { return larger_of(a, b); }); \
  }                                                                                                \
  T gluino_##type##_wide_log(T x) { return wide_log(x); }
#define GLUINO_X(how) REDUCTION(float, f32, how) REDUCTION(double, f64, how)
GLUINO_REDUCE_OPS(GLUINO_X)
#undef GLUINO_X
#define GLUINO_X(how) FINISH(float, f32, how) FINISH(double, f64, how)
GLUINO_REDUCE_FINISHES(GLUINO_X)
#undef GLUINO_X
ROWS(float, f32)
ROWS(double, f64)

float gluino_f32_from_float16(uint16_t x) { return math::half_to_float(x); }
float gluino_f32_from_bfloat16(uint16_t x) { return math::bfloat_to_float(x); }
uint16_t gluino_f32_as_float16(float x) { return math::float_to_half(x); }
uint16_t gluino_f32_as_bfloat16(float x) { return math::float_to_bfloat(x); }
}

}  // namespace gluino::kernels::bitcode
