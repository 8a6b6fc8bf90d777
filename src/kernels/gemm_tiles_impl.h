// Included by gemm_tiles_<isa>.cc, each compiled with its own instruction set and with contraction of a * b + c where
// that set has it. The order of additions in a tile depends on k alone, never on its size: a row's numbers are the same in
// every batch of two rows or more, packed or not. One row alone (`dots`) is summed in another order.
#include "kernels/gemm_tiles.h"
#include "kernels/lanes.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <int kRows>
void full_tile(int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step, const float* bias, float* c,
               int64_t c_step, TileStore how) {
  Lanes sum[kRows][2];
  for (int i = 0; i < kRows; ++i)
    for (int h = 0; h < 2; ++h)
      sum[i][h] = how.start == TileStart::zero   ? spread(0.0f)
                  : how.start == TileStart::bias ? load(bias + h * kLanes)
                                                 : load(c + i * c_step + h * kLanes);
  for (int64_t p = 0; p < k; ++p) {
    const Lanes low = load(b), high = load(b + kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const Lanes x = spread(a[i * row_step]);
      sum[i][0] += x * low;
      sum[i][1] += x * high;
    }
    a += k_step;
    b += b_step;
  }
  for (int i = 0; i < kRows; ++i)
    for (int h = 0; h < 2; ++h) store(c + i * c_step + h * kLanes, how.relu ? relu(sum[i][h]) : sum[i][h]);
}

void full_columns(int64_t rows, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step,
                  const float* bias, float* c, int64_t c_step, TileStore how) {
  switch (rows) {
    case 1: return full_tile<1>(k, a, row_step, k_step, b, b_step, bias, c, c_step, how);
    case 2: return full_tile<2>(k, a, row_step, k_step, b, b_step, bias, c, c_step, how);
    case 3: return full_tile<3>(k, a, row_step, k_step, b, b_step, bias, c, c_step, how);
    case 4: return full_tile<4>(k, a, row_step, k_step, b, b_step, bias, c, c_step, how);
    case 5: return full_tile<5>(k, a, row_step, k_step, b, b_step, bias, c, c_step, how);
    default: return full_tile<6>(k, a, row_step, k_step, b, b_step, bias, c, c_step, how);
  }
}

void tile(int64_t rows, int64_t columns, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step,
          const float* bias, float* c, int64_t c_step, TileStore how) {
  if (columns == kTileColumns) return full_columns(rows, k, a, row_step, k_step, b, b_step, bias, c, c_step, how);
  // At the right edge: a whole tile beside the matrix.
  float edge[kTileRows * kTileColumns] = {}, edge_bias[kTileColumns] = {};
  if (how.start == TileStart::bias) memcpy(edge_bias, bias, static_cast<size_t>(columns) * sizeof(float));
  if (how.start == TileStart::output)
    for (int64_t i = 0; i < rows; ++i) memcpy(edge + i * kTileColumns, c + i * c_step, static_cast<size_t>(columns) * sizeof(float));
  full_columns(rows, k, a, row_step, k_step, b, b_step, edge_bias, edge, kTileColumns, how);
  for (int64_t i = 0; i < rows; ++i) memcpy(c + i * c_step, edge + i * kTileColumns, static_cast<size_t>(columns) * sizeof(float));
}

inline float sum_lanes(Lanes v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

template <int kRows>
void dot_rows(int64_t k, const float* x, const float* w, int64_t w_step, const float* bias, float* y, TileStore how) {
  constexpr int kChains = 2;  // independent sums, so that additions need not wait for each other
  Lanes sum[kRows][kChains] = {};
  int64_t p = 0;
  for (; p + kChains * kLanes <= k; p += kChains * kLanes)
    for (int h = 0; h < kChains; ++h) {
      const Lanes v = load(x + p + h * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum[i][h] += v * load(w + i * w_step + p + h * kLanes);
    }
  for (int i = 0; i < kRows; ++i) {
    float rest = 0;
    for (int64_t q = p; q < k; ++q) rest += x[q] * w[i * w_step + q];
    const float first = how.start == TileStart::zero ? 0.0f : how.start == TileStart::bias ? bias[i] : y[i];
    const float total = first + (sum_lanes(sum[i][0] + sum[i][1]) + rest);
    y[i] = how.relu ? relu(total) : total;
  }
}

void dots(int64_t n, int64_t k, const float* x, const float* w, int64_t w_step, const float* bias, float* y, TileStore how) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) dot_rows<4>(k, x, w + i * w_step, w_step, bias ? bias + i : nullptr, y + i, how);
  for (; i < n; ++i) dot_rows<1>(k, x, w + i * w_step, w_step, bias ? bias + i : nullptr, y + i, how);
}

void pack_transposed(int64_t k, int64_t columns, const float* from, int64_t step, float* to) {
  int64_t p = 0;
  if (columns == kTileColumns) {
    for (; p + kLanes <= k; p += kLanes)
      for (int64_t j = 0; j < kTileColumns; j += kLanes) {
        Lanes v[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) v[i] = load(from + (j + i) * step + p);
        transpose(v);
        for (int64_t i = 0; i < kLanes; ++i) store(to + (p + i) * kTileColumns + j, v[i]);
      }
  }
  for (; p < k; ++p)
    for (int64_t j = 0; j < kTileColumns; ++j) to[p * kTileColumns + j] = j < columns ? from[j * step + p] : 0.0f;
}

}  // namespace

extern const GemmTable kGemmTable;
const GemmTable kGemmTable = {tile, dots, pack_transposed};

}  // namespace gluino::kernels::GLUINO_ISA
