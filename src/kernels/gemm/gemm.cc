#include "kernels/gemm/gemm.h"

#include <cblas.h>

#include <algorithm>

#include "base/fork.h"
#include "base/format.h"
#include "base/parallel.h"
#include "kernels/gemm/cache_distance.h"
#include "kernels/gemm/gemm_tiles.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(GemmTable, kGemmTable, gemm_table)

namespace {

constexpr int64_t kBlockK = 256;     // a panel of this depth stays in the first-level cache
constexpr int64_t kBlockRows = 144;  // rows of the first factor that stay in the second-level cache
constexpr int64_t kFewRows = 12;     // below, packing the second factor costs more than it saves
constexpr int64_t kGrain = 1 << 18;  // multiplications worth a thread

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
          if (t + together > last || panel + together > whole) together = 1;
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
  for (int64_t p = 0; p < k; ++p) {
    std::copy_n(b + p * ldb + column, columns, to + p * kTileColumns);
    std::fill(to + p * kTileColumns + columns, to + (p + 1) * kTileColumns, 0.0f);
  }
}

void multiply_any(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb,
                  TileStart start, float* c, int64_t ldc, const Epilogue& epilogue) {
  const Factors f{m, n, k, a, trans_a ? 1 : lda, trans_a ? lda : 1};
  if (m == 1 && trans_b && (f.k_step == 1 || k == 1)) {  // one row: the second factor is streamed as it lies
    parallel_for(n, kGrain / std::max<int64_t>(k, 1), [&](int64_t begin, int64_t end) {
      gemm_table().dots(end - begin, k, a, b + begin * ldb, ldb, epilogue.bias ? epilogue.bias + begin : nullptr, c + begin,
                        {start, epilogue.relu});
    });
    return;
  }
  if (!trans_b && m <= kFewRows) {
    const bool ragged = n % kTileColumns != 0;
    const auto last = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(ragged ? k * kTileColumns : 0));
    if (ragged) pack_panel(false, panels_of(n) - 1, k, n, b, ldb, last.get());
    return multiply(f, {b, kTileColumns, ldb, ragged ? last.get() : nullptr}, start, c, ldc, epilogue);
  }
  const PackedFactor packed(trans_b, k, n, b, ldb);
  multiply(f, {packed.data(), k * kTileColumns, kTileColumns, nullptr, outgrows_cache(packed_bytes(k, n))}, start, c, ldc, epilogue);
}

// c = op(a) * b, where b and c are vectors.
void multiply_vector(bool trans_a, int64_t m, int64_t k, const float* a, int64_t lda, const float* b, bool add, float* c) {
  if (trans_a) return multiply_any(false, false, 1, m, k, b, k, a, lda, add ? TileStart::output : TileStart::zero, c, m, {});
  parallel_for(m, kGrain / k,
               [&](int64_t begin, int64_t end) { gemm_table().times_vector(end - begin, k, a + begin * lda, lda, b, c + begin, add); });
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

void gemm_packed(bool trans_a, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* packed, bool accumulate, float* c,
                 int64_t ldc, const Epilogue& epilogue) {
  const TileStart start = accumulate ? TileStart::output : epilogue.bias ? TileStart::bias : TileStart::zero;
  const bool is_far = comes_from_afar(packed, packed_bytes(k, n));
  multiply({m, n, k, a, trans_a ? 1 : lda, trans_a ? lda : 1}, {packed, k * kTileColumns, kTileColumns, nullptr, is_far}, start, c, ldc,
           epilogue);
}

void gemm_with_epilogue(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                        int64_t ldb, float* c, int64_t ldc, const Epilogue& epilogue) {
  multiply_any(trans_a, trans_b, m, n, k, a, lda, b, ldb, epilogue.bias ? TileStart::bias : TileStart::zero, c, ldc, epilogue);
}

template <class T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
          T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = beta == 0 ? T(0) : beta * c[i * ldc + j];
    return;
  }
  const auto ta = trans_a ? CblasTrans : CblasNoTrans, tb = trans_b ? CblasTrans : CblasNoTrans;
  if constexpr (sizeof(T) == 4) {
    const bool is_plain = alpha == 1 && (beta == 0 || beta == 1);
    if (is_plain && n == 1 && m > 1 && ldc == 1 && (trans_b || ldb == 1)) return multiply_vector(trans_a, m, k, a, lda, b, beta == 1, c);
    if (is_plain)
      return multiply_any(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta == 0 ? TileStart::zero : TileStart::output, c, ldc, {});
    const NoForkScope scope;
    cblas_sgemm(CblasRowMajor, ta, tb, as_blas(m), as_blas(n), as_blas(k), alpha, a, as_blas(lda), b, as_blas(ldb), beta, c, as_blas(ldc));
  } else {
    const NoForkScope scope;
    cblas_dgemm(CblasRowMajor, ta, tb, as_blas(m), as_blas(n), as_blas(k), alpha, a, as_blas(lda), b, as_blas(ldb), beta, c, as_blas(ldc));
  }
}

template void gemm(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t, float, float*, int64_t);
template void gemm(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t, const double*, int64_t, double, double*, int64_t);

}  // namespace gluino::kernels
