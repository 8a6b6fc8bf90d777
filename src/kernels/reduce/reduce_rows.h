// The inner loops of reductions, one table per instruction set.
#pragma once
#include "program/reduction.h"

namespace gluino::kernels {

struct ReduceTable {
  // Combines each of some rows of n elements, `step` apart, and what came before it into one number. A row cut after every kReduceBlock
  // elements gives the same.
  void (*each_f32[kReduceOps])(const float* x, int64_t n, int64_t rows, int64_t step, double* totals);
  void (*each_f64[kReduceOps])(const double* x, int64_t n, int64_t rows, int64_t step, double* totals);
  // acc[i] = combine(acc[i], map(x[i])) for i < n, row after row.
  void (*together_f32[kReduceOps])(const float* x, int64_t n, int64_t rows, int64_t step, double* acc);
  void (*together_f64[kReduceOps])(const double* x, int64_t n, int64_t rows, int64_t step, double* acc);
  // The same of float16 and bfloat16, carried on in double after every kWidenedBlock elements.
  void (*each_narrow[2][kReduceOps])(const uint16_t* x, int64_t n, int64_t rows, int64_t step, double* totals);
  void (*together_narrow[2][kReduceOps])(const uint16_t* x, int64_t n, int64_t rows, int64_t step, double* acc);
  // The same of whole numbers; overflow wraps.
  void (*each_i32[kReduceOps])(const int32_t* x, int64_t n, int64_t rows, int64_t step, int64_t* totals);
  void (*each_i64[kReduceOps])(const int64_t* x, int64_t n, int64_t rows, int64_t step, int64_t* totals);
  void (*together_i32[kReduceOps])(const int32_t* x, int64_t n, int64_t rows, int64_t step, int64_t* acc);
  void (*together_i64[kReduceOps])(const int64_t* x, int64_t n, int64_t rows, int64_t step, int64_t* acc);
};
const ReduceTable& reduce_table();

}  // namespace gluino::kernels
