// Matrix products of row-major matrices. float32 runs on tiles of our own, float64 and scaled products on the BLAS.
#pragma once
#include <cstdint>
#include <memory>

namespace gluino::kernels {

struct ProductSize {
  int64_t m, n, k;  // c[m, n] = a[m, k] * b[k, n]
};
// A matrix as it lies in memory: row i begins at data + i * step.
template <class T>
struct Matrix {
  T* data;
  int64_t step;
};
template <class T>
struct Factor {
  const T* data;
  int64_t step;
  bool is_transposed = false;  // it enters the product as its transpose
};
template <class T>
struct Scales {
  T product = 1, old = 0;
};

// c = product * a * b + old * c, of float or double. With old = 0 the old content of c is not read.
template <class T>
void gemm(const ProductSize& size, const Factor<T>& a, const Factor<T>& b, const Matrix<T>& c, const Scales<T>& scales = {});

// What follows a product, done while its result is still in registers.
struct Epilogue {
  const float* bias = nullptr;  // one number per column
  bool relu = false;
};

// c = a * b + bias, then relu, in float32; the same bits whether b was packed before or not.
void gemm_with_epilogue(const ProductSize& size, const Factor<float>& a, const Factor<float>& b, const Matrix<float>& c,
                        const Epilogue& epilogue);

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
// c = a * packed, or c += a * packed when `accumulate`.
void gemm_packed(const ProductSize& size, const Factor<float>& a, const float* packed, bool accumulate, const Matrix<float>& c,
                 const Epilogue& epilogue = {});

}  // namespace gluino::kernels
