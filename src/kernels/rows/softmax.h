// Softmax along the middle of (outer, extent, inner), and its gradient.
#pragma once
#include <cstdint>

namespace gluino::kernels {

struct SoftmaxLayout {
  int64_t outer, extent, inner;
  int64_t rows() const { return outer * inner; }
  int64_t base(int64_t row) const { return row / inner * extent * inner + row % inner; }  // first element of a row; its step is inner
};

// out = softmax(scale * data), or its logarithm. lengths: how many elements of each row count, null for all; the rest becomes 0.
// out may be data.
template <class T>
void softmax(const SoftmaxLayout& l, const T* data, T* out, T scale, bool logarithm, const int64_t* lengths);
// out = scale * y * (head - sum(head * y)). out may be head or y.
template <class T>
void softmax_grad(const SoftmaxLayout& l, const T* head, const T* y, T* out, T scale);
// out = scale * (head - exp(y) * sum(head)).
template <class T>
void log_softmax_grad(const SoftmaxLayout& l, const T* head, const T* y, T* out, T scale);

}  // namespace gluino::kernels
