// Functions of tensors that are made of several operators, by NumPy's and PyTorch's names. They run, record and trace like any other.
#pragma once
#include "gluino/tensor.h"

namespace gluino {

Tensor pow(const Tensor& x, const Tensor& exponent);
Tensor pow(const Tensor& x, double exponent);
Tensor pow(double base, const Tensor& exponent);
Tensor maximum(const Tensor& a, const Tensor& b);  // elementwise, broadcasting
Tensor maximum(const Tensor& a, double b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, double b);

// Products of matrices by NumPy's rule: vectors are rows or columns as it fits, leading axes broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);

Tensor tril(const Tensor& x, int64_t diagonal = 0);  // what is not above the diagonal; 0 elsewhere
Tensor triu(const Tensor& x, int64_t diagonal = 0);
Tensor roll(const Tensor& x, int64_t shift, std::optional<int64_t> axis = {});  // without an axis: of all elements in a row
Tensors meshgrid(const Tensors& axes);                                          // ij: one axis per vector

Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdims = false);

// These two read values, so a hybridized function goes on in another segment.
Tensor nonzero(const Tensor& x);  // (how many, ndim) of int64: where elements are not 0
Tensor unique(const Tensor& x);   // the different elements, sorted

struct Svd {
  Tensor u, s, vt;  // x = u * diag(s) * vt
};
Svd svd(const Tensor& x);
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& x);  // at least as many rows as columns

// Fourier transforms along an axis. Complex numbers are two tensors of real ones; inverses divide by the extent, as NumPy's do.
struct Complex {
  Tensor real, imag;
};
Complex fft(const Tensor& x, int64_t axis = -1);
Complex fft(const Complex& x, int64_t axis = -1);
Complex ifft(const Complex& x, int64_t axis = -1);
Complex rfft(const Tensor& x, int64_t axis = -1);  // the first extent / 2 + 1 numbers, which say all about a real signal
// What rfft came from; `extent` is that of the result, which must be told when it is odd.
Tensor irfft(const Complex& x, int64_t axis = -1, std::optional<int64_t> extent = {});
Complex fft2(const Tensor& x);  // over the last two axes
Complex fft2(const Complex& x);
Complex ifft2(const Complex& x);

}  // namespace gluino
