// The inner loops of reductions, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// How elements are mapped and combined.
enum class ReduceOp : uint8_t { sum, sum_abs, sum_square, nansum, prod, nanprod, max, min };
inline constexpr int kReduceOps = 8;

struct ReduceTable {
  // Combines n elements into one number.
  double (*row_f32[kReduceOps])(const float* x, int64_t n);
  double (*row_f64[kReduceOps])(const double* x, int64_t n);
  // acc[i] = combine(acc[i], map(x[i])) for i < n.
  void (*rows_f32[kReduceOps])(const float* x, int64_t n, double* acc);
  void (*rows_f64[kReduceOps])(const double* x, int64_t n, double* acc);
};
const ReduceTable& reduce_table();

}  // namespace gluino::kernels
