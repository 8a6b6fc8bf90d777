#include "kernels/gemm.h"

#include <cblas.h>

#include <algorithm>

#include "base/format.h"

namespace gluino::kernels {

static blasint as_blas(int64_t v) {
  if (v > INT32_MAX) raise<ShapeError>("an extent of {} is more than the matrix library can count", v);
  return static_cast<blasint>(std::max<int64_t>(v, 1));
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
  if (m == 1 && ldc >= n && (!trans_a || lda == 1)) {  // one row: the matrix is streamed once, nothing is packed
    const auto order = trans_b ? CblasNoTrans : CblasTrans;
    const int64_t rows = trans_b ? n : k, columns = trans_b ? k : n;
    if constexpr (sizeof(T) == 4)
      return cblas_sgemv(CblasRowMajor, order, as_blas(rows), as_blas(columns), alpha, b, as_blas(ldb), a, 1, beta, c, 1);
    else
      return cblas_dgemv(CblasRowMajor, order, as_blas(rows), as_blas(columns), alpha, b, as_blas(ldb), a, 1, beta, c, 1);
  }
  const auto ta = trans_a ? CblasTrans : CblasNoTrans, tb = trans_b ? CblasTrans : CblasNoTrans;
  if constexpr (sizeof(T) == 4)
    cblas_sgemm(CblasRowMajor, ta, tb, as_blas(m), as_blas(n), as_blas(k), alpha, a, as_blas(lda), b, as_blas(ldb), beta, c, as_blas(ldc));
  else
    cblas_dgemm(CblasRowMajor, ta, tb, as_blas(m), as_blas(n), as_blas(k), alpha, a, as_blas(lda), b, as_blas(ldb), beta, c, as_blas(ldc));
}

template void gemm(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t, float, float*, int64_t);
template void gemm(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t, const double*, int64_t, double, double*, int64_t);

}  // namespace gluino::kernels
