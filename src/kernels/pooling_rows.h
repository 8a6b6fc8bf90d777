// Pooling of neighbouring windows in vectors of 8 channels, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// Windows of one size that lie inside the data. Steps are in floats: to the next row and the next column of a window, from
// window to window, from output to output.
struct PoolRow {
  int64_t count, height, width, row_step, tap_step, window_step, out_step;
  float divisor;  // of sums
};
struct PoolTable {
  void (*max)(const PoolRow& row, const float* data, float* out);
  void (*sum)(const PoolRow& row, const float* data, float* out);
};
const PoolTable& pool_table();

}  // namespace gluino::kernels
