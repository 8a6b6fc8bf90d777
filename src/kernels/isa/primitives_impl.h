// Included by primitives_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set; GLUINO_ISA names the namespace.
// Only built-in arithmetic and libm are used here: an inline function of another header compiled with AVX could
// be picked by the linker for the baseline too.
#include <math.h>
#include <stdint.h>

#include "kernels/isa/independent_steps.h"
#include "kernels/isa/narrow_floats.h"
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

// Arrays of 16-bit floats, a set at a time: body(set of each array, result) computes one in float32.
template <class N, class Body>
inline void each_narrow_set(const N* a, const N* b, const N* c, N* o, int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kNarrowSet <= n; i += kNarrowSet) body(a + i, b + i, c + i, o + i);
  if (i == n) return;
  N sets[3][kNarrowSet], last[kNarrowSet];
  load_part(a + i, n - i, sets[0]);
  load_part(b + i, n - i, sets[1]);
  load_part(c + i, n - i, sets[2]);
  body(sets[0], sets[1], sets[2], last);
  for (int64_t k = 0; k < n - i; ++k) o[i + k] = last[k];
}
// run and run_with_one for such arrays; the one number is a float32. What is unused is read as if it were the first array.
template <class F, class N, int kArity, Operands kOperands>
void run_narrow(const void* pa, const void* pb, const void* pc, void* po, int64_t n) {
  constexpr bool one_first = kOperands == Operands::one_first, one_second = kOperands == Operands::one_second;
  const N* a = static_cast<const N*>(one_first ? pb : pa);
  const N* b = static_cast<const N*>(kArity > 1 && !one_second ? pb : a);
  const N* c = static_cast<const N*>(kArity > 2 ? pc : a);
  const float one = one_first ? *static_cast<const float*>(pa) : one_second ? *static_cast<const float*>(pb) : 0.0f;
  each_narrow_set(a, b, c, static_cast<N*>(po), n, [&](const N* a_set, const N* b_set, const N* c_set, N* o_set) {
    alignas(64) float x[kNarrowSet], y[kNarrowSet], z[kNarrowSet], out[kNarrowSet];
    widen_set(a_set, x);
    if constexpr (kArity > 1 && kOperands == Operands::all) widen_set(b_set, y);
    if constexpr (kArity > 2) widen_set(c_set, z);
    GLUINO_INDEPENDENT_STEPS
    for (int64_t i = 0; i < kNarrowSet; ++i) {
      if constexpr (one_first)
        out[i] = F::template f<float>(one, x[i], 0.0f);
      else if constexpr (one_second)
        out[i] = F::template f<float>(x[i], one, 0.0f);
      else if constexpr (kArity == 1)
        out[i] = F::template f<float>(x[i], 0.0f, 0.0f);
      else if constexpr (kArity == 2)
        out[i] = F::template f<float>(x[i], y[i], 0.0f);
      else
        out[i] = F::template f<float>(x[i], y[i], z[i]);
    }
    narrow_set(out, o_set);
  });
}
// Beside a long function conversions block by block cost little, and GCC stops inlining those, and then makes no vectors of them, in a file
// with many calls.
constexpr bool is_short(ScalarFn fn) {
  switch (fn) {
    case ScalarFn::negative:
    case ScalarFn::abs:
    case ScalarFn::sign:
    case ScalarFn::round:
    case ScalarFn::rint:
    case ScalarFn::ceil:
    case ScalarFn::floor:
    case ScalarFn::trunc:
    case ScalarFn::sqrt:
    case ScalarFn::add:
    case ScalarFn::subtract:
    case ScalarFn::multiply:
    case ScalarFn::divide:
    case ScalarFn::maximum:
    case ScalarFn::minimum:
    case ScalarFn::select: return true;
    default: return fn >= ScalarFn::equal && fn <= ScalarFn::logical_xor;
  }
}
template <class F, ScalarFn fn, class N, int kArity, Operands kOperands>
constexpr ScalarKernel narrow_kernel_of() {
  if constexpr (!is_short(fn) || (kArity != 2 && kOperands != Operands::all))
    return nullptr;
  else
    return run_narrow<F, N, kArity, kOperands>;
}

template <class N>
void widen_each(const void* in, void* out, int64_t n) {
  const N* from = static_cast<const N*>(in);
  float* to = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + kNarrowSet <= n; i += kNarrowSet) widen_set(from + i, to + i);
  for (; i < n; ++i) to[i] = widened(from[i]);
}
template <class N>
void narrow_each(const void* in, void* out, int64_t n) {
  const float* from = static_cast<const float*>(in);
  N* to = static_cast<N*>(out);
  int64_t i = 0;
  for (; i + kNarrowSet <= n; i += kNarrowSet) narrow_set(from + i, to + i);
  if (i == n) return;
  float rest[kNarrowSet];
  N last[kNarrowSet];
  load_part(from + i, n - i, rest);
  narrow_set(rest, last);
  for (int64_t k = 0; k < n - i; ++k) to[i + k] = last[k];
}

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
    {
#define GLUINO_X(name, arity) \
  {{narrow_kernel_of<F_##name, ScalarFn::name, Half, arity, Operands::all>(), narrow_kernel_of<F_##name, ScalarFn::name, Half, arity, Operands::one_first>(), \
    narrow_kernel_of<F_##name, ScalarFn::name, Half, arity, Operands::one_second>()}, \
   {narrow_kernel_of<F_##name, ScalarFn::name, BFloat, arity, Operands::all>(), narrow_kernel_of<F_##name, ScalarFn::name, BFloat, arity, Operands::one_first>(), \
    narrow_kernel_of<F_##name, ScalarFn::name, BFloat, arity, Operands::one_second>()}},
        GLUINO_SCALAR_FUNCTIONS(GLUINO_X)
#undef GLUINO_X
    },
    widen_each<Half>,
    narrow_each<Half>,
    widen_each<BFloat>,
    narrow_each<BFloat>,
    {fill_each<uint8_t>, fill_each<uint16_t>, fill_each<uint32_t>, fill_each<uint64_t>},
};

// clang-format on

}  // namespace gluino::kernels::GLUINO_ISA
