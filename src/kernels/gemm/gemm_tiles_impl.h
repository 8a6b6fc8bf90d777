// Included by gemm_tiles_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set and with contraction of a * b + c where
// that set has it. Every sum adds its terms one after the other: a row's numbers are the same in every batch, packed or not.
#include <type_traits>

#include "kernels/gemm/gemm_tiles.h"
#include "kernels/isa/lanes.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

// kVectors neighbouring vectors of columns, the first one in half kFirst of the panel at b: with few rows two vectors alone would
// leave the pipelines waiting.
template <int kRows, int kVectors, int kFirst = 0>
void full_tile(int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step, int64_t panel_step,
               const float* bias, float* c, int64_t c_step, TilePlan how) {
  Lanes sum[kRows][kVectors];  // in registers, which they are only where all loops over them are unrolled
  const auto for_each_sum = [](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 8
      for (int h = 0; h < kVectors; ++h) f(i, h);
  };
  if (how.start == TileStart::zero)
    for_each_sum([&](int i, int h) { sum[i][h] = spread(0.0f); });
  else if (how.start == TileStart::bias)
    for_each_sum([&](int i, int h) { sum[i][h] = load(bias + h * kLanes); });
  else
    for_each_sum([&](int i, int h) { sum[i][h] = load(c + i * c_step + h * kLanes); });
  const auto add_products = [&](auto along_k, auto along_b) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int64_t p = 0; p < k; ++p) {
      Lanes row[kVectors];
#pragma GCC unroll 8
      for (int h = 0; h < kVectors; ++h) row[h] = load(b + (kFirst + h) / 2 * panel_step + (kFirst + h) % 2 * kLanes);
#pragma GCC unroll 12
      for (int i = 0; i < kRows; ++i) {
        const Lanes x = spread(a[i * row_step]);
#pragma GCC unroll 8
        for (int h = 0; h < kVectors; ++h) sum[i][h] += x * row[h];
      }
      a += along_k;
      b += along_b;
    }
  };
  // Known steps are part of the loads' addresses: two instructions less a term, which shows where a neighbour shares the core (2 %). Tiles
  // of more than two vectors were 3 % slower that way.
  if (kVectors == 2 && k_step == 1 && b_step == kTileColumns)
    add_products(std::integral_constant<int64_t, 1>(), std::integral_constant<int64_t, kTileColumns>());
  else
    add_products(k_step, b_step);
  if (how.relu) for_each_sum([&](int i, int h) { sum[i][h] = relu(sum[i][h]); });
  for_each_sum([&](int i, int h) { store(c + i * c_step + h * kLanes, sum[i][h]); });
}

template <int kRows>
void full_columns(int64_t panels, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step,
                  int64_t panel_step, const float* bias, float* c, int64_t c_step, TilePlan how) {
  constexpr int kMost = static_cast<int>(panels_at_once(kRows));
  if constexpr (kRows == 1)  // one sum would wait for the other
    if (panels == 2) return full_tile<1, 4>(k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
  if (panels != kMost) {
    for (int64_t q = 0; q < panels; ++q)
      full_tile<kRows, 2>(k, a, row_step, k_step, b + q * panel_step, b_step, panel_step, bias ? bias + q * kTileColumns : nullptr,
                          c + q * kTileColumns, c_step, how);
  } else if constexpr (kMost == 3) {  // two tiles of one and a half panels: their sums just fit into the registers
    constexpr int64_t kHalf = 3 * kLanes;
    full_tile<kRows, 3>(k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
    full_tile<kRows, 3, 1>(k, a, row_step, k_step, b + panel_step, b_step, panel_step, bias ? bias + kHalf : nullptr, c + kHalf, c_step,
                           how);
  } else {
    full_tile<kRows, 2 * kMost>(k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
  }
}

void full_rows(int64_t rows, int64_t panels, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step,
               int64_t panel_step, const float* bias, float* c, int64_t c_step, TilePlan how) {
  const int64_t tiles = tiles_of(rows), least = rows / tiles, larger = rows % tiles;
  constexpr int64_t kWorthFetching = 3;  // tiles; fewer are done before the lines arrive
  const float* ahead = tiles < kWorthFetching ? nullptr : how.next;
  const int64_t lines = (k + tiles - 1) / tiles;  // a row of a panel is a line of the cache
  for (int64_t t = 0; t < tiles; ++t) {
    for (int64_t i = 0; ahead && i < lines; ++i, ahead += kTileColumns) __builtin_prefetch(ahead, 0, 2);
    const int64_t here = least + (t < larger);
    switch (here) {
      case 1: full_columns<1>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how); break;
      case 2: full_columns<2>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how); break;
      case 3: full_columns<3>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how); break;
      case 4: full_columns<4>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how); break;
      case 5: full_columns<5>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how); break;
      default: full_columns<6>(panels, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
    }
    a += here * row_step;
    c += here * c_step;
  }
}

void columns_of(int64_t rows, int64_t columns, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b, int64_t b_step,
                int64_t panel_step, const float* bias, float* c, int64_t c_step, TilePlan how) {
  if (columns % kTileColumns == 0)
    return full_rows(rows, columns / kTileColumns, k, a, row_step, k_step, b, b_step, panel_step, bias, c, c_step, how);
  // At the right edge: whole tiles beside the matrix; where one vector holds the columns, of twice as many rows.
  constexpr int64_t kTallRows = 2 * kTileRows;
  float edge_bias[kTileColumns] = {};
  if (how.start == TileStart::bias) memcpy(edge_bias, bias, columns * sizeof(float));
  for (int64_t first = 0, here; first < rows; first += here) {
    const bool is_tall = columns <= kLanes && rows - first >= kTallRows;
    here = is_tall ? kTallRows : rows - first < kTileRows ? rows - first : kTileRows;
    float edge[kTallRows * kTileColumns] = {};
    const float* from = a + first * row_step;
    float* own = c + first * c_step;
    if (how.start == TileStart::output)
      for (int64_t i = 0; i < here; ++i)
        for (int64_t j = 0; j < columns; ++j) edge[i * kTileColumns + j] = own[i * c_step + j];
    if (is_tall)
      full_tile<kTallRows, 1>(k, from, row_step, k_step, b, b_step, panel_step, edge_bias, edge, kTileColumns, how);
    else
      full_rows(here, 1, k, from, row_step, k_step, b, b_step, panel_step, edge_bias, edge, kTileColumns, how);
    for (int64_t i = 0; i < here; ++i)
      for (int64_t j = 0; j < columns; ++j) own[i * c_step + j] = edge[i * kTileColumns + j];
  }
}

// Blocks of 8 columns of the result. Their weights lie along k: eight rows are turned into eight columns in registers, so that
// every sum still adds its terms in their order.
template <int kBlocks>
void dot_columns(int64_t columns, int64_t k, const float* x, const float* w, int64_t w_step, const float* bias, float* y, TilePlan how) {
  constexpr int64_t kColumns = kBlocks * kLanes;
  const float* rows[kColumns];
  for (int64_t j = 0; j < kColumns; ++j) rows[j] = w + (j < columns ? j : columns - 1) * w_step;  // those beyond the end are dropped
  float total[kColumns] = {};
  if (how.start != TileStart::zero) memcpy(total, how.start == TileStart::bias ? bias : y, columns * sizeof(float));
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

void dots(int64_t n, int64_t k, const float* x, const float* w, int64_t w_step, const float* bias, float* y, TilePlan how) {
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

// Rows of a matrix times a vector, both along k: sums run in lanes, of several rows side by side.
template <int rows>
inline void row_dots(int64_t k, const float* a, int64_t step, const float* x, float* y, bool add) {
  constexpr int kSums = 2;
  Lanes sums[rows][kSums] = {};
  int64_t p = 0;
  for (; p + kSums * kLanes <= k; p += kSums * kLanes)
    for (int s = 0; s < kSums; ++s) {
      const Lanes v = load(x + p + s * kLanes);
      for (int r = 0; r < rows; ++r) sums[r][s] += v * load(a + r * step + p + s * kLanes);
    }
  for (int r = 0; r < rows; ++r) {
    const Lanes both = sums[r][0] + sums[r][1];
    float total = ((both[0] + both[4]) + (both[2] + both[6])) + ((both[1] + both[5]) + (both[3] + both[7]));
    for (int64_t q = p; q < k; ++q) total += x[q] * a[r * step + q];
    y[r] = add ? y[r] + total : total;
  }
}
void times_vector(int64_t n, int64_t k, const float* a, int64_t step, const float* x, float* y, bool add) {
  constexpr int kRows = 4;
  int64_t i = 0;
  for (; i + kRows <= n; i += kRows) row_dots<kRows>(k, a + i * step, step, x, y + i, add);
  for (; i < n; ++i) row_dots<1>(k, a + i * step, step, x, y + i, add);
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
const GemmTable kGemmTable = {columns_of, dots, times_vector, pack_transposed};

}  // namespace gluino::kernels::GLUINO_ISA
