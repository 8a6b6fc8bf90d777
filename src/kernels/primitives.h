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
  ConvertKernel half_to_float, float_to_half, bfloat_to_float, float_to_bfloat;
};

const PrimitiveTable& primitives();  // the best table this CPU can run; GLUINO_ISA may name a lesser one

// The table of another kind that belongs to the same instruction set.
template <class Table>
const Table& table_for_cpu(const Table& baseline, const Table& avx2, const Table& avx512) {
  const std::string_view isa = primitives().name;
  return isa == "avx512" ? avx512 : isa == "avx2" ? avx2 : baseline;
}

ComputeType compute_type(DType dtype);
// Converts n elements between any two dtypes (C++ conversion; to bool: != 0).
void convert(const void* in, DType from, void* out, DType to, int64_t n);
DType storage_of(ComputeType type);

}  // namespace gluino::kernels
