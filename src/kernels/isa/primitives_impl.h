// Included by primitives_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set; GLUINO_ISA names the namespace.
// Only built-in arithmetic and libm are used here: an inline function of another header compiled with AVX could
// be picked by the linker for the baseline too.
#include <math.h>
#include <stdint.h>

#include "kernels/isa/independent_steps.h"
#include "kernels/isa/primitives.h"
#include "kernels/isa/scalar_functions.h"
#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#endif

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <class F, class T, int kArity>
void run(const void* pa, const void* pb, const void* pc, void* po, int64_t n) {
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  const T* c = static_cast<const T*>(pc);
  T* o = static_cast<T*>(po);
  GLUINO_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kArity == 1)
      o[i] = F::template f<T>(a[i], T(), T());
    else if constexpr (kArity == 2)
      o[i] = F::template f<T>(a[i], b[i], T());
    else
      o[i] = F::template f<T>(a[i], b[i], c[i]);
  }
}

// Far numbers are left to a function that is no vector code; they are looked for in a block before it is computed.
template <class F, class T>
void run_near(const void* pa, const void*, const void*, void* po, int64_t n) {
  constexpr int64_t kBlock = 256;
  const T* a = static_cast<const T*>(pa);
  T* o = static_cast<T*>(po);
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t end = n - first < kBlock ? n : first + kBlock;
    int far = 0;
    for (int64_t i = first; i < end; ++i) far |= F::is_far(a[i]);
    if (far) {
      for (int64_t i = first; i < end; ++i) o[i] = F::template f<T>(a[i], T(), T());
    } else {
      GLUINO_INDEPENDENT_STEPS
      for (int64_t i = first; i < end; ++i) o[i] = F::template near<T>(a[i]);
    }
  }
}

// The same with one number as the first or second operand.
template <class F, class T, bool kFirst>
void run_with_one(const void* pa, const void* pb, const void*, void* po, int64_t n) {
  const T* x = static_cast<const T*>(kFirst ? pb : pa);
  const T one = *static_cast<const T*>(kFirst ? pa : pb);
  T* o = static_cast<T*>(po);
  GLUINO_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) o[i] = kFirst ? F::template f<T>(one, x[i], T()) : F::template f<T>(x[i], one, T());
}

enum class Operands { all, one_first, one_second };
// Of two operands, of which one may be a single number.
template <class F, class T, Operands kOperands>
void run_near_of_two(const void* pa, const void* pb, const void*, void* po, int64_t n) {
  constexpr int64_t kBlock = 256, a_step = kOperands == Operands::one_first ? 0 : 1, b_step = kOperands == Operands::one_second ? 0 : 1;
  const T* a = static_cast<const T*>(pa);
  const T* b = static_cast<const T*>(pb);
  T* o = static_cast<T*>(po);
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t end = n - first < kBlock ? n : first + kBlock;
    int far = 0;
    for (int64_t i = first; i < end; ++i) far |= F::is_far(a[i * a_step], b[i * b_step]);
    if (far) {
      for (int64_t i = first; i < end; ++i) o[i] = F::template f<T>(a[i * a_step], b[i * b_step], T());
    } else {
      GLUINO_INDEPENDENT_STEPS
      for (int64_t i = first; i < end; ++i) o[i] = F::near(a[i * a_step], b[i * b_step]);
    }
  }
}
template <class F, class T, int kArity, Operands kOperands>
constexpr ScalarKernel kernel_of() {
  if constexpr (!F::template has<T> || (kArity != 2 && kOperands != Operands::all))
    return nullptr;
  else if constexpr (requires { F::near(T()); })
    return run_near<F, T>;
  else if constexpr (requires { F::near(T(), T()); })
    return run_near_of_two<F, T, kOperands>;
  else if constexpr (kOperands == Operands::all)
    return run<F, T, kArity>;
  else
    return run_with_one<F, T, kOperands == Operands::one_first>;
}

template <class From, class To, To (*kFunction)(From)>
void convert_each(const void* in, void* out, int64_t n) {
  const From* from = static_cast<const From*>(in);
  To* to = static_cast<To*>(out);
  GLUINO_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) to[i] = kFunction(from[i]);
}

// 16-bit floats have instructions of their own, with the same results; a NaN becomes the one that the formula gives.
#if defined(__AVX512F__)
void halves_to_floats(const void* in, void* out, int64_t n) {
  const uint16_t* from = static_cast<const uint16_t*>(in);
  float* to = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
  for (; i < n; ++i) to[i] = math::half_to_float(from[i]);
}
void floats_to_halves(const void* in, void* out, int64_t n) {
  const float* from = static_cast<const float*>(in);
  uint16_t* to = static_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 x = _mm512_loadu_ps(from + i);
    const __m512i sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN));
    const __m512 nan = _mm512_castsi512_ps(_mm512_or_si512(sign, _mm512_set1_epi32(0x7fc00000)));
    const __m512 known = _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x, nan);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm512_cvtps_ph(known, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  for (; i < n; ++i) to[i] = math::float_to_half(from[i]);
}
#elif defined(__F16C__)
void halves_to_floats(const void* in, void* out, int64_t n) {
  const uint16_t* from = static_cast<const uint16_t*>(in);
  float* to = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  for (; i < n; ++i) to[i] = math::half_to_float(from[i]);
}
void floats_to_halves(const void* in, void* out, int64_t n) {
  const float* from = static_cast<const float*>(in);
  uint16_t* to = static_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(from + i), sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    const __m256 nan = _mm256_or_ps(sign, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
    const __m256 known = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(known, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  for (; i < n; ++i) to[i] = math::float_to_half(from[i]);
}
#else
constexpr ConvertKernel halves_to_floats = convert_each<uint16_t, float, math::half_to_float>;
constexpr ConvertKernel floats_to_halves = convert_each<float, uint16_t, math::float_to_half>;
#endif

template <class T>
void fill_each(const void* in, void* out, int64_t n) {
  const T value = *static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = value;
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
  {kernel_of<F_##name, float, arity, OPERANDS>(), kernel_of<F_##name, double, arity, OPERANDS>(), \
   kernel_of<F_##name, int32_t, arity, OPERANDS>(), kernel_of<F_##name, int64_t, arity, OPERANDS>()},
#define OPERANDS Operands::all
        GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef OPERANDS
    },
    {{
#define OPERANDS Operands::one_first
        GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef OPERANDS
     },
     {
#define OPERANDS Operands::one_second
        GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef OPERANDS
#undef GLUINO_X
     }},
    halves_to_floats,
    floats_to_halves,
    convert_each<uint16_t, float, math::bfloat_to_float>,
    convert_each<float, uint16_t, math::float_to_bfloat>,
    {fill_each<uint8_t>, fill_each<uint16_t>, fill_each<uint32_t>, fill_each<uint64_t>},
};

// clang-format on

}  // namespace gluino::kernels::GLUINO_ISA
