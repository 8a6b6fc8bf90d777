// Matrix product of row-major matrices, through the BLAS.
#pragma once
#include <cstdint>

namespace gluino::kernels {

// c[m, n] = alpha * op(a)[m, k] * op(b)[k, n] + beta * c, where op transposes when asked to; ld* are the lengths of stored rows.
// T is float or double. With beta = 0 the old content of c is not read.
template <class T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
          T* c, int64_t ldc);

}  // namespace gluino::kernels
