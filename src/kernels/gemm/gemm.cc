#include "kernels/gemm/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <cstring>

#include "base/fork.h"
#include "base/format.h"
#include "base/parallel.h"
#include "kernels/gemm/cache_distance.h"
#include "kernels/gemm/costs.h"
#include "kernels/gemm/gemm_tiles.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(GemmTable, kGemmTable, gemm_table)

namespace {

constexpr int64_t kBlockK = 256;     // a panel of this depth stays in the first-level cache
constexpr int64_t kBlockRows = 144;  // rows of the first factor that stay in the second-level cache
constexpr int64_t kFewRows = 12;     // below, packing the second factor costs more than it saves

// The second factor as tiles read it: panels of kTileColumns columns. The last one may stand elsewhere, padded.
struct Panels {
  const float* data;
  int64_t panel_step, row_step;
  const float* last;  // rows kTileColumns apart, or null: it is like the others
  bool is_far = false;
  const float* at(int64_t panel, int64_t row) const { return data + panel * panel_step + row * row_step; }
};

struct Factors {
  int64_t m, n, k;
  const float* a;
  int64_t row_step, k_step;
};

int64_t panels_of(int64_t n) { return (n + kTileColumns - 1) / kTileColumns; }
int64_t packed_bytes(int64_t k, int64_t n) { return packed_elements(k, n) * int64_t{sizeof(float)}; }

// Terms are added in blocks of kBlockK, unless one tile holds all rows and a panel is read only once; the first block starts from `start`,
// the others from what is there.
void multiply(const Factors& f, const Panels& b, TileStart start, float* c, int64_t ldc, const Epilogue& epilogue) {
  const GemmTable& table = gemm_table();
  const int64_t panels = panels_of(f.n), whole = f.n / kTileColumns, row_blocks = (f.m + kBlockRows - 1) / kBlockRows;
  const int64_t work = std::min(f.m, kBlockRows) * kTileColumns * f.k, block_k = f.m <= kTileRows ? std::max<int64_t>(f.k, 1) : kBlockK;
  parallel_for(panels * row_blocks, kGrain / std::max<int64_t>(work, 1), [&](int64_t begin, int64_t end) {
    // Panels of one block of rows follow each other: the block stays in the cache.
    for (int64_t first = begin; first < end;) {
      const int64_t block = first / panels, last = std::min(end, (block + 1) * panels);
      const int64_t row_begin = block * kBlockRows, row_end = std::min(f.m, row_begin + kBlockRows), rows_here = row_end - row_begin;
      for (int64_t k0 = 0; k0 < std::max<int64_t>(f.k, 1); k0 += block_k) {
        const int64_t depth = std::min(block_k, f.k - k0);
        TilePlan plan{k0 == 0 ? start : TileStart::output, epilogue.relu && k0 + block_k >= f.k};
        int64_t together = 1;
        for (int64_t t = first; t < last; t += together) {
          const int64_t panel = t - block * panels, column = panel * kTileColumns;
          const bool apart = b.last && panel == panels - 1;
          together = panels_at_once(rows_here);
          if (const int64_t left = std::min(last - t, whole - panel); together > left) together = rows_here == 1 && left >= 2 ? 2 : 1;
          const int64_t columns = std::min(together * kTileColumns, f.n - column), row_step = apart ? kTileColumns : b.row_step;
          const float* rows = apart ? b.last + k0 * kTileColumns : b.at(panel, k0);
          if (b.is_far)
            plan.next = t + 1 < last ? b.at(panel + 1, k0) : k0 + block_k < f.k ? b.at(first - block * panels, k0 + block_k) : nullptr;
          table.columns(rows_here, columns, depth, f.a + row_begin * f.row_step + k0 * f.k_step, f.row_step, f.k_step, rows, row_step,
                        b.panel_step, epilogue.bias ? epilogue.bias + column : nullptr, c + row_begin * ldc + column, ldc, plan);
        }
      }
      first = last;
    }
  });
}

void pack_panel(bool trans_b, int64_t panel, int64_t k, int64_t n, const float* b, int64_t ldb, float* to) {
  const int64_t column = panel * kTileColumns, columns = std::min(kTileColumns, n - column);
  if (trans_b) return gemm_table().pack_transposed(k, columns, b + column * ldb, ldb, to);
  if (columns == kTileColumns) {  // copies of a fixed size need no call
    for (int64_t p = 0; p < k; ++p) std::memcpy(to + p * kTileColumns, b + p * ldb + column, kTileColumns * sizeof(float));
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    std::copy_n(b + p * ldb + column, columns, to + p * kTileColumns);
    std::fill(to + p * kTileColumns + columns, to + (p + 1) * kTileColumns, 0.0f);
  }
}

Factors factors_of(const ProductSize& s, const Factor<float>& a) {
  return {s.m, s.n, s.k, a.data, a.is_transposed ? 1 : a.step, a.is_transposed ? a.step : 1};
}

void multiply_any(const ProductSize& s, const Factor<float>& a, const Factor<float>& b, TileStart start, const Matrix<float>& c,
                  const Epilogue& epilogue) {
  const auto [m, n, k] = s;
  const Factors f = factors_of(s, a);
  if (m == 1 && b.is_transposed && (f.k_step == 1 || k == 1)) {  // one row: the second factor is streamed as it lies
    parallel_for(n, kGrain / std::max<int64_t>(k, 1), [&, k = k](int64_t begin, int64_t end) {
      gemm_table().dots(end - begin, k, a.data, b.data + begin * b.step, b.step, epilogue.bias ? epilogue.bias + begin : nullptr,
                        c.data + begin, {start, epilogue.relu});
    });
    return;
  }
  if (!b.is_transposed && m <= kFewRows) {
    const bool ragged = n % kTileColumns != 0;
    const auto last = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(ragged ? k * kTileColumns : 0));
    if (ragged) pack_panel(false, panels_of(n) - 1, k, n, b.data, b.step, last.get());
    return multiply(f, {b.data, kTileColumns, b.step, ragged ? last.get() : nullptr}, start, c.data, c.step, epilogue);
  }
  const PackedFactor packed(b.is_transposed, k, n, b.data, b.step);
  multiply(f, {packed.data(), k * kTileColumns, kTileColumns, nullptr, outgrows_cache(packed_bytes(k, n))}, start, c.data, c.step,
           epilogue);
}

// c = a * b, where b and c are vectors.
void multiply_vector(int64_t m, int64_t k, const Factor<float>& a, const float* b, bool add, float* c) {
  if (a.is_transposed) return multiply_any({1, m, k}, {b, k}, {a.data, a.step}, add ? TileStart::output : TileStart::zero, {c, m}, {});
  parallel_for(m, kGrain / k, [&](int64_t begin, int64_t end) {
    gemm_table().times_vector(end - begin, k, a.data + begin * a.step, a.step, b, c + begin, add);
  });
}

blasint as_blas(int64_t v) {
  if (v > INT32_MAX) raise<ShapeError>("an extent of {} is more than the matrix library can count", v);
  return static_cast<blasint>(std::max<int64_t>(v, 1));
}

}  // namespace

int64_t packed_elements(int64_t k, int64_t n) { return panels_of(n) * kTileColumns * k; }

void pack_factor(bool trans_b, int64_t k, int64_t n, const float* b, int64_t ldb, float* packed) {
  comes_from_afar(packed, packed_bytes(k, n));  // no longer: a product that follows soon finds it near
  parallel_for(panels_of(n), kGrain / std::max<int64_t>(k, 1) / kTileColumns, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) pack_panel(trans_b, panel, k, n, b, ldb, packed + panel * k * kTileColumns);
  });
}

void gemm_packed(const ProductSize& s, const Factor<float>& a, const float* packed, bool accumulate, const Matrix<float>& c,
                 const Epilogue& epilogue) {
  const TileStart start = accumulate ? TileStart::output : epilogue.bias ? TileStart::bias : TileStart::zero;
  const bool is_far = comes_from_afar(packed, packed_bytes(s.k, s.n));
  multiply(factors_of(s, a), {packed, s.k * kTileColumns, kTileColumns, nullptr, is_far}, start, c.data, c.step, epilogue);
}

void gemm_with_epilogue(const ProductSize& size, const Factor<float>& a, const Factor<float>& b, const Matrix<float>& c,
                        const Epilogue& epilogue) {
  multiply_any(size, a, b, epilogue.bias ? TileStart::bias : TileStart::zero, c, epilogue);
}

template <class T>
void gemm(const ProductSize& size, const Factor<T>& a, const Factor<T>& b, const Matrix<T>& c, const Scales<T>& scales) {
  const auto [m, n, k] = size;
  const auto [alpha, beta] = scales;
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c.data[i * c.step + j] = beta == 0 ? T(0) : beta * c.data[i * c.step + j];
    return;
  }
  if constexpr (sizeof(T) == 4) {
    const bool is_plain = alpha == 1 && (beta == 0 || beta == 1);
    if (is_plain && n == 1 && m > 1 && c.step == 1 && (b.is_transposed || b.step == 1))
      return multiply_vector(m, k, a, b.data, beta == 1, c.data);
    if (is_plain) return multiply_any(size, a, b, beta == 0 ? TileStart::zero : TileStart::output, c, {});
  }
  const NoForkScope scope;
  const auto run = [&, m = m, n = n, k = k, alpha = alpha, beta = beta](auto blas) {
    const auto ta = a.is_transposed ? CblasTrans : CblasNoTrans, tb = b.is_transposed ? CblasTrans : CblasNoTrans;
    blas(CblasRowMajor, ta, tb, as_blas(m), as_blas(n), as_blas(k), alpha, a.data, as_blas(a.step), b.data, as_blas(b.step), beta, c.data,
         as_blas(c.step));
  };
  if constexpr (sizeof(T) == 4)
    run(cblas_sgemm);
  else
    run(cblas_dgemm);
}

template void gemm(const ProductSize&, const Factor<float>&, const Factor<float>&, const Matrix<float>&, const Scales<float>&);
template void gemm(const ProductSize&, const Factor<double>&, const Factor<double>&, const Matrix<double>&, const Scales<double>&);

}  // namespace gluino::kernels
