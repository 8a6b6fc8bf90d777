// Included by narrow_tiles_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set. The order of additions is that of the
// weight: it does not depend on where in a row an output stands.
#include "kernels/convolution/narrow_tiles.h"
#include "kernels/isa/lanes.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

// The sums of kColumns neighbouring outputs stay in registers, which they do only where all loops over them are unrolled.
template <int kBlocks, int kStep, int kColumns>
__attribute__((always_inline)) inline void tile(const NarrowRow& r, int64_t first) {
  Lanes sum[kBlocks][kColumns];
#pragma GCC unroll 2
  for (int b = 0; b < kBlocks; ++b)
#pragma GCC unroll 12
    for (int i = 0; i < kColumns; ++i) sum[b][i] = spread(0.0f);
  for (int64_t c = 0; c < r.channels; ++c) {
    const float* channel = r.data + first * kStep + c / kStep * r.plane_step + c % kStep;
    const float* weight = r.weight + (c * r.kernel_height + r.first_row) * r.kernel_width * kLanes;
    for (int64_t y = r.first_row; y < r.last_row; ++y) {
      const float* at = channel + y * r.row_step;
#pragma GCC unroll 2
      for (int64_t x = 0; x < r.kernel_width; ++x, at += r.tap_step, weight += kLanes) {
        Lanes w[kBlocks];
#pragma GCC unroll 2
        for (int b = 0; b < kBlocks; ++b) w[b] = load(weight + b * r.weight_block);
#pragma GCC unroll 12
        for (int i = 0; i < kColumns; ++i) {
          const Lanes v = spread(at[i * kStep]);
#pragma GCC unroll 2
          for (int b = 0; b < kBlocks; ++b) sum[b][i] += v * w[b];
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int b = 0; b < kBlocks; ++b) {
    const Lanes bias = load(r.bias + b * kLanes);
    float* to = r.out + b * r.out_block + first * kLanes;
#pragma GCC unroll 12
    for (int i = 0; i < kColumns; ++i) sum[b][i] += bias;
    if (r.accumulate)
#pragma GCC unroll 12
      for (int i = 0; i < kColumns; ++i) sum[b][i] += load(to + i * kLanes);
    if (r.relu)
#pragma GCC unroll 12
      for (int i = 0; i < kColumns; ++i) sum[b][i] = relu(sum[b][i], r.limit);
#pragma GCC unroll 12
    for (int i = 0; i < kColumns; ++i) store(to + i * kLanes, sum[b][i]);
  }
}

// As many columns as are asked for, at most kColumns.
template <int kBlocks, int kStep, int kColumns>
void tile_of(const NarrowRow& r, int64_t first, int64_t columns) {
  if constexpr (kColumns > 1)
    if (columns < kColumns) return tile_of<kBlocks, kStep, kColumns - 1>(r, first, columns);
  tile<kBlocks, kStep, kColumns>(r, first);
}

template <int kBlocks, int kStep>
void row(const NarrowRow& r) {
  constexpr int kMost = 12 / kBlocks;
  const int64_t tiles = (r.columns + kMost - 1) / kMost, width = (r.columns + tiles - 1) / tiles;  // even: 4 + 4, not 6 + 2
  for (int64_t x = 0; x < r.columns; x += width) tile_of<kBlocks, kStep, kMost>(r, x, x + width <= r.columns ? width : r.columns - x);
}

// The sums of kRows x kTaps elements of the window stay in registers, for both blocks.
template <int kBlocks, int kRows, int kTaps>
void taps(const NarrowGrad& g, int64_t first_row, int64_t first_tap) {
  Lanes sum[kRows][kTaps][kBlocks];
  const auto for_each_sum = [](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 6
      for (int t = 0; t < kTaps; ++t)
#pragma GCC unroll 2
        for (int b = 0; b < kBlocks; ++b) f(r, t, b);
  };
  for_each_sum([&](int r, int t, int b) { sum[r][t][b] = spread(0.0f); });
  for (int64_t y = 0; y < g.rows; ++y) {
    const float *head = g.head + y * g.columns * kLanes, *data = g.data + (y + first_row) * g.data_row + first_tap;
    for (int64_t x = 0; x < g.columns; ++x, head += kLanes, ++data) {
      Lanes h[kBlocks];
#pragma GCC unroll 2
      for (int b = 0; b < kBlocks; ++b) h[b] = load(head + b * g.head_block);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 6
        for (int t = 0; t < kTaps; ++t) {
          const Lanes v = spread(data[r * g.data_row + t]);
#pragma GCC unroll 2
          for (int b = 0; b < kBlocks; ++b) sum[r][t][b] += v * h[b];
        }
    }
  }
  for_each_sum([&](int r, int t, int b) {
    float* to = g.weight_grad + b * g.weight_block + ((first_row + r) * g.kernel_width + first_tap + t) * kLanes;
    store(to, load(to) + sum[r][t][b]);
  });
}

template <int kBlocks, int kRows, int kTaps>
void taps_of(const NarrowGrad& g, int64_t row, int64_t tap, int64_t count) {
  if constexpr (kTaps > 1)
    if (count < kTaps) return taps_of<kBlocks, kRows, kTaps - 1>(g, row, tap, count);
  taps<kBlocks, kRows, kTaps>(g, row, tap);
}

template <int kBlocks>
void weight_grad(const NarrowGrad& g) {
  constexpr int kMost = 6, kRows = 2 / kBlocks;
  const int64_t parts = (g.kernel_width + kMost - 1) / kMost, width = (g.kernel_width + parts - 1) / parts;
  for (int64_t y = 0; y < g.kernel_height; y += kRows)
    for (int64_t x = 0; x < g.kernel_width; x += width) {
      const int64_t count = x + width <= g.kernel_width ? width : g.kernel_width - x;
      if (y + kRows <= g.kernel_height)
        taps_of<kBlocks, kRows, kMost>(g, y, x, count);
      else
        taps_of<kBlocks, 1, kMost>(g, y, x, count);
    }
}

}  // namespace

extern const NarrowTable kNarrowTable;
const NarrowTable kNarrowTable = {{row<1, 1>, row<2, 1>}, {row<1, kLanes>, row<2, kLanes>}, {weight_grad<1>, weight_grad<2>}};

}  // namespace gluino::kernels::GLUINO_ISA
