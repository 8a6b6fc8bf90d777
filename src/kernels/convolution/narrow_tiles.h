// The inner loop of direct convolution for few input channels, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// One row of outputs in the blocked layout, for one block of 8 output channels or two. The outputs of a block are `columns`
// vectors one after the other.
struct NarrowRow {
  int64_t columns, channels, kernel_height, kernel_width;
  int64_t first_row, last_row;  // rows of the window that see data; the others lie in the padding
  const float* data;            // what output 0 sees under the first element of the window; its neighbour in the row is data_step further
  int64_t plane_step;           // to the next channel, or to the next 8 where channels are blocked
  int64_t row_step, tap_step;   // to what the window's next row and next column see
  const float* weight;          // (channels, kernel_height, kernel_width, 8)
  int64_t weight_block;         // to the second block's weight
  const float* bias;            // 8 or 16 numbers
  float* out;
  int64_t out_block;
  bool accumulate, relu;
  float limit;
};

// The weight's gradient from one image, for one input channel in the plain layout and one block of output channels or two.
struct NarrowGrad {
  int64_t rows, columns, kernel_height, kernel_width;
  const float* head;  // (rows, columns, 8)
  int64_t head_block;
  const float* data;  // what output 0 sees under the first element of the window
  int64_t data_row;
  float* weight_grad;  // (kernel_height, kernel_width, 8): added to
  int64_t weight_block;
};

struct NarrowTable {
  void (*plain[2])(const NarrowRow& row);    // [blocks - 1]; data_step is 1
  void (*blocked[2])(const NarrowRow& row);  // 8
  void (*weight_grad[2])(const NarrowGrad& image);
};
const NarrowTable& narrow_table();

}  // namespace gluino::kernels
