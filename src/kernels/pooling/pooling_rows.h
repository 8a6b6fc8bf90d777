// Pooling of neighbouring windows in vectors of 8, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// Windows of one size that lie inside the data, whose channels are neighbours. Steps are in floats: to the next row and the next column of
// a window, from window to window, from output to output.
struct PoolRow {
  int64_t count, height, width, row_step, tap_step, window_step, out_step;
  float divisor;  // of sums
};
struct PoolTable {
  void (*max)(const PoolRow& row, const float* data, float* out);
  void (*sum)(const PoolRow& row, const float* data, float* out);
  // The gradient of max goes to the first element of a window that is the largest: it is added to what is there.
  void (*max_grad)(const PoolRow& row, const float* data, const float* values, const float* head, float* data_grad);
  // The largest of windows of 2 x 2 that lie side by side in the plain layout, and its gradient, which goes to the first element
  // that is the largest. `top` and `bottom` are two rows of 2 * count numbers.
  void (*max_of_squares)(int64_t count, const float* top, const float* bottom, float* out);
  void (*max_of_squares_grad)(int64_t count, const float* top, const float* bottom, const float* values, const float* head, float* top_grad,
                              float* bottom_grad);
};
const PoolTable& pool_table();

}  // namespace gluino::kernels
