// Matrix products of row-major matrices. float32 runs on tiles of our own, float64 and scaled products on the BLAS.
#pragma once
#include <cstdint>
#include <memory>

namespace gluino::kernels {

// c[m, n] = alpha * op(a)[m, k] * op(b)[k, n] + beta * c, where op transposes when asked to; ld* are the lengths of stored rows.
// T is float or double. With beta = 0 the old content of c is not read.
template <class T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b, int64_t ldb, T beta,
          T* c, int64_t ldc);

// What follows a product, done while its result is still in registers.
struct Epilogue {
  const float* bias = nullptr;  // one number per column
  bool relu = false;
};

// c = op(a) * op(b) + bias, then relu, in float32; the same bits whether b was packed before or not.
void gemm_with_epilogue(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
                        int64_t ldb, float* c, int64_t ldc, const Epilogue& epilogue);

// A second factor rearranged into panels of columns, for many products with it.
int64_t packed_elements(int64_t k, int64_t n);
void pack_factor(bool trans_b, int64_t k, int64_t n, const float* b, int64_t ldb, float* packed);
class PackedFactor {
 public:
  PackedFactor(bool trans_b, int64_t k, int64_t n, const float* b, int64_t ldb)
      : data_(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(packed_elements(k, n)))) {
    pack_factor(trans_b, k, n, b, ldb, data_.get());
  }
  const float* data() const { return data_.get(); }

 private:
  std::unique_ptr<float[]> data_;
};
// c = op(a) * packed, or c += op(a) * packed when `accumulate`.
void gemm_packed(bool trans_a, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* packed, bool accumulate, float* c,
                 int64_t ldc, const Epilogue& epilogue = {});

}  // namespace gluino::kernels
