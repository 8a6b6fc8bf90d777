// Compiled to LLVM bitcode, once per instruction set, and kept inside libgluino_jit: the scalar functions of the eager
// kernels, for fused loops to call and inline. gluino_<type>_<function>(a, b, c).
#define GLUINO_ISA bitcode
#include "kernels/scalar_functions.h"

namespace gluino::kernels::bitcode {

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
}

}  // namespace gluino::kernels::bitcode
