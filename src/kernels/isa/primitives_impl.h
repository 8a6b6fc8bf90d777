// Included by primitives_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set; GLUINO_ISA names the namespace.
// Only built-in arithmetic and libm are used here: an inline function of another header compiled with AVX could
// be picked by the linker for the baseline too.
#include <math.h>
#include <stdint.h>

#include "kernels/isa/primitives.h"
#include "kernels/isa/scalar_functions.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <class F, class T, int kArity>
void run(const void* pa, const void* pb, const void* pc, void* po, int64_t n) {
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  const T* c = static_cast<const T*>(pc);
  T* o = static_cast<T*>(po);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kArity == 1)
      o[i] = F::template f<T>(a[i], T(), T());
    else if constexpr (kArity == 2)
      o[i] = F::template f<T>(a[i], b[i], T());
    else
      o[i] = F::template f<T>(a[i], b[i], c[i]);
  }
}

template <class F, class T, int kArity>
constexpr ScalarKernel kernel_of() {
  if constexpr (F::template has<T>)
    return run<F, T, kArity>;
  else
    return nullptr;
}

void half_to_float(const void* in, void* out, int64_t n) {
  const uint16_t* h = static_cast<const uint16_t*>(in);
  float* f = static_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) f[i] = math::half_to_float(h[i]);
}
void float_to_half(const void* in, void* out, int64_t n) {
  const float* f = static_cast<const float*>(in);
  uint16_t* h = static_cast<uint16_t*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) h[i] = math::float_to_half(f[i]);
}
void bfloat_to_float(const void* in, void* out, int64_t n) {
  const uint16_t* h = static_cast<const uint16_t*>(in);
  float* f = static_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) f[i] = math::bfloat_to_float(h[i]);
}
void float_to_bfloat(const void* in, void* out, int64_t n) {
  const float* f = static_cast<const float*>(in);
  uint16_t* h = static_cast<uint16_t*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) h[i] = math::float_to_bfloat(f[i]);
}

}  // namespace

// clang-format off
#define GLUINO_STRINGIZE2(x) #x
#define GLUINO_STRINGIZE(x) GLUINO_STRINGIZE2(x)
extern const PrimitiveTable kTable;
const PrimitiveTable kTable = {
    GLUINO_STRINGIZE(GLUINO_ISA),
    {
#define GLUINO_X(name, arity) \
  {kernel_of<F_##name, float, arity>(), kernel_of<F_##name, double, arity>(), kernel_of<F_##name, int32_t, arity>(), kernel_of<F_##name, int64_t, arity>()},
        GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef GLUINO_X
    },
    half_to_float,
    float_to_half,
    bfloat_to_float,
    float_to_bfloat,
};

// clang-format on

}  // namespace gluino::kernels::GLUINO_ISA
