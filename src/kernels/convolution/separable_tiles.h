// The inner loops of separable convolutions over blocked activations, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// A window of one place: pixels x channels of the input times the weight. Pixels of a block are 8 floats apart.
struct PointwiseCall {
  int64_t pixels, in_blocks, out_blocks;
  const float* data;
  int64_t data_block;   // to the next block of 8 channels
  const float* weight;  // (out_blocks, in_blocks, 8 input channels, 8 output channels)
  const float* bias;    // (out_blocks, 8)
  const float* added;   // to the results, laid out as these; or null
  float* out;
  int64_t out_block;
  bool relu;
  float limit;
};

// One row of outputs of one block of channels, each channel with a window of its own.
struct DepthwiseRow {
  int64_t columns, in_columns, kernel_width, stride, pad;
  int64_t rows;              // of the window, without those that lie in the padding
  const float* const* data;  // for each of these rows
  const float* weight;       // (rows, kernel_width, 8)
  const float* bias;
  float* out;
  bool relu;
  float limit;
};

// One row of outputs of one channel in the plain layout: what their neighbours see are neighbours, too.
struct PlaneRow {
  int64_t columns;
  int64_t rows, width;  // of the window, without rows that lie in the padding
  const float* data;    // what output 0 sees under the first of them; kPlaneLanes numbers behind the last may be read
  int64_t row_step;     // to the next row of the window,
  const int64_t* taps;  // and to the elements of one
};
inline constexpr int64_t kPlaneLanes = 8;

struct SeparableTable {
  void (*pointwise)(const PointwiseCall& call);
  void (*depthwise)(const DepthwiseRow& row);
  void (*plane_row)(const PlaneRow& row, const float* weight, float bias, float* out);
  void (*add_row)(int64_t n, float factor, const float* from, float* to);  // to[i] += factor * from[i]
  // sums[element of the window][i % kPlaneLanes] += head[i] * what output i sees
  void (*plane_grad)(const PlaneRow& row, const float* head, float* sums);
};
const SeparableTable& separable_table();

}  // namespace gluino::kernels
