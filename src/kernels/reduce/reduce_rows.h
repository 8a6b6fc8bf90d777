// The inner loops of reductions, one table per instruction set.
#pragma once
#include "program/reduction.h"

namespace gluino::kernels {

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
