// The transforms of Winograd's algorithm on patches of 8 channels, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// Where a tile of results goes, and what happens to it on the way. The tile may be cut off at the right and at the bottom.
struct WinogradStore {
  const float* bias;  // 8 numbers
  bool accumulate, relu;
  float limit;
  int64_t row_step, rows, columns;
};

// For tiles of edge m: m * m outputs come from (m + 2) * (m + 2) inputs.
struct WinogradTransforms {
  // Element (y, x) of a 3 x 3 window is the vector at from + (y * 3 + x) * from_step.
  void (*weight)(const float* from, int64_t from_step, float* to, int64_t to_step);
  // And back: the window, as 9 vectors, from what it became.
  void (*restored_weight)(const float* from, int64_t from_step, float* to);
  // Element (y, x) of the patch is the vector at from + y * row_step + x * 8; number y * (m + 2) + x of what it becomes goes
  // to to + number * to_step.
  void (*input)(const float* from, int64_t row_step, float* to, int64_t to_step);
  // The other way: products into outputs. The outputs are at to + y * store.row_step + x * 8. False, and nothing is stored, where numbers
  // are not finite: the transforms mix those of a patch, so that a NaN would be seen by windows that it does not lie in.
  bool (*output)(const float* from, int64_t from_step, float* to, const WinogradStore& store);
  // The transposed transforms, for the gradient of the weight: m x m elements of the head as `input` takes the data, and the sums of
  // their products with transformed data into the 3 x 3 vectors of a window.
  void (*head)(const float* from, int64_t row_step, float* to, int64_t to_step);
  void (*window)(const float* from, int64_t from_step, float* to);
};
struct WinogradTable {
  WinogradTransforms tiles_of_2, tiles_of_4;
  // products[rows, 16] = data * panel over `channels` terms, for 1 to 6 rows that are `channels` apart. Meanwhile memory from
  // `ahead` on, ahead_step floats a term, is brought near: the next panel.
  void (*multiply)(int64_t rows, int64_t channels, const float* data, const float* panel, float* products, const float* ahead,
                   int64_t ahead_step);
};
const WinogradTable& winograd_table();

}  // namespace gluino::kernels
