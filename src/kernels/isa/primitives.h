// Vector kernels of the scalar functions, one table per instruction set, chosen once at run time.
#pragma once
#include <string_view>

#include "gluino/dtype.h"
#include "gluino/expr.h"

namespace gluino::kernels {

// out[i] = fn(a[i], b[i], c[i]) for i < n; unused operands may be null; out may be one of the operands.
using ScalarKernel = void (*)(const void* a, const void* b, const void* c, void* out, int64_t n);
using ConvertKernel = void (*)(const void* in, void* out, int64_t n);

struct PrimitiveTable {
  const char* name;                          // "baseline", "avx2", "avx512"
  ScalarKernel scalar[kScalarFunctions][4];  // [fn][compute type]; null where the function has no meaning
  // The same with one number as the first, or as the second of two operands; null where there are not two.
  ScalarKernel with_one[2][kScalarFunctions][4];
  // The same for arrays of float16 and bfloat16, computed in float32; one number is a float32. [fn][dtype][no one number, first, second]
  ScalarKernel narrow[kScalarFunctions][2][3];
  ConvertKernel half_to_float, float_to_half, bfloat_to_float, float_to_bfloat;
  ConvertKernel fill[4];  // n times the element at `in`, of 1, 2, 4, 8 bytes
};

const PrimitiveTable& primitives();  // the best table this CPU can run; GLUINO_ISA may name a lesser one

// Defines `const Table& function()`: the kTable of the same instruction set. Each has one, in a file compiled for it: cmake/isa.cmake says
// which there are on which CPU. To be used in namespace gluino::kernels.
#if defined(__x86_64__)
#define GLUINO_TABLE_FOR_CPU(Table, kTable, function)                                                               \
  namespace baseline {                                                                                              \
  extern const Table kTable;                                                                                        \
  }                                                                                                                 \
  namespace avx2 {                                                                                                  \
  extern const Table kTable;                                                                                        \
  }                                                                                                                 \
  namespace avx512 {                                                                                                \
  extern const Table kTable;                                                                                        \
  }                                                                                                                 \
  const Table& function() {                                                                                         \
    static const std::string_view isa = primitives().name;                                                          \
    static const Table& table = isa == "avx512" ? avx512::kTable : isa == "avx2" ? avx2::kTable : baseline::kTable; \
    return table;                                                                                                   \
  }
#else
#define GLUINO_TABLE_FOR_CPU(Table, kTable, function) \
  namespace baseline {                                \
  extern const Table kTable;                          \
  }                                                   \
  const Table& function() { return baseline::kTable; }
#endif

ComputeType compute_type(DType dtype);
inline bool is_narrow_float(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
// Converts n elements between any two dtypes (C++ conversion; to bool: != 0).
void convert(const void* in, DType from, void* out, DType to, int64_t n);
DType storage_of(ComputeType type);

}  // namespace gluino::kernels
