// The inner loops of float32 matrix products, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

inline constexpr int64_t kTileRows = 6, kTileColumns = 16;
// Rows are cut into tiles of nearly the same size: 4 + 4, not 6 + 2.
constexpr int64_t tiles_of(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }
// How many panels of kTileColumns columns are taken at once: tiles of few rows need more columns to keep the pipelines full.
constexpr int64_t panels_at_once(int64_t rows) {
  const int64_t tiles = tiles_of(rows), largest = (rows + tiles - 1) / tiles;
  return largest == 1 ? 4 : largest <= 3 ? 2 : largest == 4 ? 3 : 1;
}

// What a tile's sums begin with, what happens to them at the end, and the panel that is read after this one (null: not known). While many
// rows are multiplied it is brought nearer: the first of them would wait for every line of it.
enum class TileStart : uint8_t { zero, bias, output };
struct TilePlan {
  TileStart start = TileStart::zero;
  bool relu = false;
  const float* next = nullptr;
};

struct GemmTable {
  // c[rows, columns] = start + a * b over k terms, rows > 0; columns fill whole panels, panels_at_once(rows) or 1, for one row also 2, or a
  // part of one. Element (i, p) of a is a[i * row_step + p * k_step]; row p of panel q of b is b + q * panel_step + p * b_step and holds
  // kTileColumns numbers; those beyond `columns` mean nothing. bias has `columns` numbers.
  void (*columns)(int64_t rows, int64_t columns, int64_t k, const float* a, int64_t row_step, int64_t k_step, const float* b,
                  int64_t b_step, int64_t panel_step, const float* bias, float* c, int64_t c_step, TilePlan plan);
  // One row, the second factor as it lies: y[i] = start + dot(w + i * w_step, x) over k terms for i < n.
  void (*dots)(int64_t n, int64_t k, const float* x, const float* w, int64_t w_step, const float* bias, float* y, TilePlan plan);
  // y[i] = dot(a + i * step, x) over k terms for i < n, or y[i] += that; in no particular order of terms, but always the same.
  void (*times_vector)(int64_t n, int64_t k, const float* a, int64_t step, const float* x, float* y, bool add);
  // Columns [0, columns) of a k-row panel: to[p * kTileColumns + j] = from[j * step + p]; the rest is zero.
  void (*pack_transposed)(int64_t k, int64_t columns, const float* from, int64_t step, float* to);
};
const GemmTable& gemm_table();

}  // namespace gluino::kernels
