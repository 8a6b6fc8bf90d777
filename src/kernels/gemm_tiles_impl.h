// Included by gemm_tiles_<isa>.cc, each compiled with its own instruction set and with contraction of a * b + c where
// that set has it. Every sum adds its terms one after the other: a row's numbers are the same in every batch, packed or not.
#include "kernels/gemm_tiles.h"
#include "kernels/lanes.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

// kPanels neighbouring panels of 16 columns at once: with few rows one panel alone would leave the pipelines waiting.
template <int kRows, int kPanels>
void full_tile(int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step, int64_t panel_step,
               const float* bias, float* c, int64_t c_step, TileStore how) {
  constexpr int kParts = 2 * kPanels;
  Lanes sum[kRows][kParts];
  for (int i = 0; i < kRows; ++i)
    for (int h = 0; h < kParts; ++h)
      sum[i][h] = how.start == TileStart::zero   ? spread(0.0f)
                  : how.start == TileStart::bias ? load(bias + h * kLanes)
                                                 : load(c + i * c_step + h * kLanes);
  for (int64_t p = 0; p < k; ++p) {
    Lanes row[kParts];
    for (int h = 0; h < kParts; ++h) row[h] = load(b + h / 2 * panel_step + h % 2 * kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const Lanes x = spread(a[i * row_step]);
#pragma GCC unroll 8
      for (int h = 0; h < kParts; ++h) sum[i][h] += x * row[h];
    }
    a += k_step;
    b += b_step;
  }
  for (int i = 0; i < kRows; ++i)
    for (int h = 0; h < kParts; ++h) store(c + i * c_step + h * kLanes, how.relu ? relu(sum[i][h]) : sum[i][h]);
}

template <int kRows>
void full_columns(int64_t panels, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step,
                  int64_t panel_step, const float* bias, float* c, int64_t c_step, TileStore how) {
  constexpr int kMost = static_cast<int>(panels_at_once(kRows));
  if (panels == kMost) return full_tile<kRows, kMost>(k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
  for (int64_t q = 0; q < panels; ++q)
    full_tile<kRows, 1>(k, a, row_step, k_step, b + q * panel_step, b_step, panel_step, bias ? bias + q * kTileColumns : nullptr,
                        c + q * kTileColumns, c_step, how);
}

void full_rows(int64_t rows, int64_t panels, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step,
               int64_t panel_step, const float* bias, float* c, int64_t c_step, TileStore how) {
  switch (rows) {
    case 1: return full_columns<1>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
    case 2: return full_columns<2>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
    case 3: return full_columns<3>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
    case 4: return full_columns<4>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
    case 5: return full_columns<5>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
    default: return full_columns<6>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
  }
}

void tile(int64_t rows, int64_t columns, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step,
          int64_t panel_step, const float* bias, float* c, int64_t c_step, TileStore how) {
  if (columns % kTileColumns == 0)
    return full_rows(rows, columns / kTileColumns, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
  // At the right edge: a whole tile beside the matrix.
  float edge[kTileRows * kTileColumns] = {}, edge_bias[kTileColumns] = {};
  if (how.start == TileStart::bias) memcpy(edge_bias, bias, static_cast<size_t>(columns) * sizeof(float));
  if (how.start == TileStart::output)
    for (int64_t i = 0; i < rows; ++i) memcpy(edge + i * kTileColumns, c + i * c_step, static_cast<size_t>(columns) * sizeof(float));
  full_rows(rows, 1, k, a, row_step, k_step, b, b_step, panel_step, edge_bias, edge, kTileColumns, how);
  for (int64_t i = 0; i < rows; ++i) memcpy(c + i * c_step, edge + i * kTileColumns, static_cast<size_t>(columns) * sizeof(float));
}

// Blocks of 8 columns of the result. Their weights lie along k: eight rows are turned into eight columns in registers, so that
// every sum still adds its terms in their order.
template <int kBlocks>
void dot_columns(int64_t columns, int64_t k, const float* x, const float* w, int64_t w_step, const float* bias, float* y, TileStore how) {
  constexpr int64_t kColumns = kBlocks * kLanes;
  const float* rows[kColumns];
  for (int64_t j = 0; j < kColumns; ++j) rows[j] = w + (j < columns ? j : columns - 1) * w_step;  // those beyond the end are dropped
  float total[kColumns] = {};
  if (how.start != TileStart::zero) memcpy(total, how.start == TileStart::bias ? bias : y, static_cast<size_t>(columns) * sizeof(float));
  Lanes sum[kBlocks];
  for (int h = 0; h < kBlocks; ++h) sum[h] = load(total + h * kLanes);
  int64_t p = 0;
  for (; p + kLanes <= k; p += kLanes)
    for (int h = 0; h < kBlocks; ++h) {
      Lanes v[kLanes];
      for (int i = 0; i < kLanes; ++i) v[i] = load(rows[h * kLanes + i] + p);
      transpose(v);
      for (int i = 0; i < kLanes; ++i) sum[h] += spread(x[p + i]) * v[i];
    }
  for (int h = 0; h < kBlocks; ++h) store(total + h * kLanes, sum[h]);
  for (; p < k; ++p)
    for (int64_t j = 0; j < columns; ++j) total[j] += x[p] * rows[j][p];
  for (int64_t j = 0; j < columns; ++j) y[j] = how.relu ? relu(total[j]) : total[j];
}

void dots(int64_t n, int64_t k, const float* x, const float* w, int64_t w_step, const float* bias, float* y, TileStore how) {
  constexpr int kBlocks = 2;  // rows a power of two apart share few places in the cache: not more than 16 at a time
  for (int64_t i = 0; i < n;) {
    const bool many = n - i >= kBlocks * kLanes;
    const int64_t columns = many ? kBlocks * kLanes : n - i < kLanes ? n - i : kLanes;
    const float* own_bias = bias ? bias + i : nullptr;
    if (many)
      dot_columns<kBlocks>(columns, k, x, w + i * w_step, w_step, own_bias, y + i, how);
    else
      dot_columns<1>(columns, k, x, w + i * w_step, w_step, own_bias, y + i, how);
    i += columns;
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
