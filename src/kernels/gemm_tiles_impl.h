// Included by gemm_tiles_<isa>.cc, each compiled with its own instruction set and with contraction of a * b + c where
// that set has it. The order of additions in a tile depends on k alone, never on its size: a row's numbers are the same in
// every batch of two rows or more, packed or not. One row alone (`dots`) is summed in another order.
#include <stdint.h>
#include <string.h>

#include "kernels/gemm_tiles.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

typedef float Lanes __attribute__((vector_size(32)));
constexpr int64_t kLanes = 8;

inline Lanes load(const float* p) {
  Lanes v;
  memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Lanes v) { memcpy(p, &v, sizeof v); }
inline Lanes spread(float x) { return Lanes{x, x, x, x, x, x, x, x}; }
// NaN stays and -0 becomes 0, as in the elementwise relu.
inline Lanes relu(Lanes v) { return (v <= spread(0.0f)) ? spread(0.0f) : v; }
inline float relu(float v) { return v <= 0.0f ? 0.0f : v; }

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

// Rows become columns: pairs, then groups of four, then halves change places.
inline void transpose(Lanes (&v)[kLanes]) {
  typedef int32_t Order __attribute__((vector_size(32)));
  constexpr Order kLow = {0, 8, 1, 9, 4, 12, 5, 13}, kHigh = {2, 10, 3, 11, 6, 14, 7, 15};
  constexpr Order kPairLow = {0, 1, 8, 9, 4, 5, 12, 13}, kPairHigh = {2, 3, 10, 11, 6, 7, 14, 15};
  constexpr Order kHalfLow = {0, 1, 2, 3, 8, 9, 10, 11}, kHalfHigh = {4, 5, 6, 7, 12, 13, 14, 15};
  Lanes t[kLanes], u[kLanes];
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shuffle(v[i], v[i + 1], kLow);
    t[i + 1] = __builtin_shuffle(v[i], v[i + 1], kHigh);
  }
  for (int i = 0; i < 8; i += 4)
    for (int h = 0; h < 2; ++h) {
      u[i + 2 * h] = __builtin_shuffle(t[i + h], t[i + 2 + h], kPairLow);
      u[i + 2 * h + 1] = __builtin_shuffle(t[i + h], t[i + 2 + h], kPairHigh);
    }
  for (int i = 0; i < 4; ++i) {
    v[i] = __builtin_shuffle(u[i], u[i + 4], kHalfLow);
    v[i + 4] = __builtin_shuffle(u[i], u[i + 4], kHalfHigh);
  }
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
