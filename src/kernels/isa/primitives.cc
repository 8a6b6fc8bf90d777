#include "kernels/isa/primitives.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/copy_bytes.h"
#include "base/env.h"

namespace gluino::kernels {

namespace baseline {
extern const PrimitiveTable kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const PrimitiveTable kTable;
}
namespace avx512 {
extern const PrimitiveTable kTable;
}

static const PrimitiveTable& choose() {
  // Best first; a lesser one may be asked for, to test it on a better CPU.
  const auto wanted = env_text("GLUINO_ISA");
  const bool can_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool can_avx512 = can_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  if (can_avx512 && (!wanted || *wanted == "avx512")) return avx512::kTable;
  if (can_avx2 && (!wanted || *wanted != "baseline")) return avx2::kTable;
  return baseline::kTable;
}
#else
static const PrimitiveTable& choose() { return baseline::kTable; }
#endif

const PrimitiveTable& primitives() {
  static const PrimitiveTable& table = choose();
  return table;
}

ComputeType compute_type(DType dtype) {
  switch (dtype) {
    case DType::float64: return ComputeType::f64;
    case DType::int64: return ComputeType::i64;
    case DType::float32:
    case DType::float16:
    case DType::bfloat16: return ComputeType::f32;
    default: return ComputeType::i32;
  }
}

DType storage_of(ComputeType type) {
  switch (type) {
    case ComputeType::f32: return DType::float32;
    case ComputeType::f64: return DType::float64;
    case ComputeType::i32: return DType::int32;
    case ComputeType::i64: return DType::int64;
  }
  return DType::float32;
}

namespace {

constexpr int64_t kBlock = 512;

template <class From, class To>
void convert_loop(const From* in, To* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<To, bool>) {
      out[i] = in[i] != From(0);
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      // Out of range is undefined in C++; going through 64 bits gives what NumPy gives on x86.
      out[i] = static_cast<To>(in[i] >= -9.2e18 && in[i] <= 9.2e18 ? static_cast<int64_t>(in[i]) : INT64_MIN);
    } else {
      out[i] = static_cast<To>(in[i]);
    }
  }
}

template <class F>
void visit_native(DType dtype, F&& f) {  // the types C++ converts by itself
  switch (dtype) {
    case DType::float64: return f(static_cast<double*>(nullptr));
    case DType::uint8: return f(static_cast<uint8_t*>(nullptr));
    case DType::int8: return f(static_cast<int8_t*>(nullptr));
    case DType::int32: return f(static_cast<int32_t*>(nullptr));
    case DType::int64: return f(static_cast<int64_t*>(nullptr));
    case DType::boolean: return f(static_cast<bool*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

void convert_native(const void* in, DType from, void* out, DType to, int64_t n) {
  visit_native(from, [&]<class From>(From*) {
    visit_native(to, [&]<class To>(To*) { convert_loop(static_cast<const From*>(in), static_cast<To*>(out), n); });
  });
}

// f(block, begin, count) for n elements, which pass through a block of floats.
template <class F>
void through_blocks(int64_t n, F f) {
  alignas(64) float block[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) f(block, i, std::min(kBlock, n - i));
}

}  // namespace

void convert(const void* in, DType from, void* out, DType to, int64_t n) {
  if (n == 0) return;  // there may be no memory at all
  const PrimitiveTable& t = primitives();
  if (from == to) {
    if (in != out) copy_bytes(out, in, n * dtype_bytes(from));
  } else if (is_narrow_float(from)) {
    const ConvertKernel widen = from == DType::float16 ? t.half_to_float : t.bfloat_to_float;
    if (to == DType::float32) return widen(in, out, n);
    through_blocks(n, [&](float* block, int64_t i, int64_t count) {
      widen(static_cast<const char*>(in) + i * 2, block, count);
      convert(block, DType::float32, static_cast<char*>(out) + i * dtype_bytes(to), to, count);
    });
  } else if (is_narrow_float(to)) {
    const ConvertKernel narrow = to == DType::float16 ? t.float_to_half : t.float_to_bfloat;
    if (from == DType::float32) return narrow(in, out, n);
    through_blocks(n, [&](float* block, int64_t i, int64_t count) {
      convert_native(static_cast<const char*>(in) + i * dtype_bytes(from), from, block, DType::float32, count);
      narrow(block, static_cast<char*>(out) + i * 2, count);
    });
  } else {
    convert_native(in, from, out, to, n);
  }
}

}  // namespace gluino::kernels
