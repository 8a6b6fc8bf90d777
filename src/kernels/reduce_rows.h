// The inner loops of reductions, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// How elements are mapped and combined.
enum class ReduceOp : uint8_t { sum, sum_abs, sum_square, nansum, prod, nanprod, max, min };
inline constexpr int kReduceOps = 8;
enum class ReduceFinish : uint8_t { none, divide, sqrt };  // divide: by the number of elements reduced
inline constexpr int64_t kReduceBlock = 2048;              // sums are carried on in double after so many elements
inline constexpr int64_t kWidenedBlock = 512;              // the same for arrays of 16-bit floats, which are widened block by block

struct ReduceTable {
  // Combines n elements and what came before them into one number. A row cut after every kReduceBlock elements gives the same.
  double (*row_f32[kReduceOps])(const float* x, int64_t n, double total);
  double (*row_f64[kReduceOps])(const double* x, int64_t n, double total);
  // acc[i] = combine(acc[i], map(x[i])) for i < n.
  void (*rows_f32[kReduceOps])(const float* x, int64_t n, double* acc);
  void (*rows_f64[kReduceOps])(const double* x, int64_t n, double* acc);
};
const ReduceTable& reduce_table();

}  // namespace gluino::kernels
