#include "kernels/rows/softmax.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/isa/primitives.h"
#include "kernels/rows/rows.h"

namespace gluino::kernels {

namespace {

template <class T>
void vector_exp(const T* in, T* out, int64_t n) {
  constexpr auto type = sizeof(T) == 4 ? ComputeType::f32 : ComputeType::f64;
  primitives().scalar[static_cast<int>(ScalarFn::exp)][static_cast<int>(type)](in, nullptr, nullptr, out, n);
}

// Calls f(row, buffer of two rows) for all rows in parallel.
template <class T, class F>
void for_each_row(const SoftmaxLayout& l, F&& f) {
  parallel_for(l.rows(), row_grain(l.extent), [&](int64_t begin, int64_t end) {
    std::vector<T> buffer(2 * l.extent);
    for (int64_t r = begin; r < end; ++r) f(r, buffer.data());
  });
}

}  // namespace

template <class T>
void softmax(const SoftmaxLayout& l, const T* data, T* out, T scale, bool logarithm, const int64_t* lengths) {
  for_each_row<T>(l, [&](int64_t r, T* buffer) {
    const int64_t base = l.base(r), n = lengths ? std::clamp<int64_t>(lengths[r], 0, l.extent) : l.extent;
    T* row = l.inner == 1 ? out + base : buffer;
    for (int64_t i = 0; i < n; ++i) row[i] = data[base + i * l.inner];
    if (n > 0) row_functions<T>().softmax(row, n, scale, logarithm, buffer + l.extent);
    if (l.inner != 1)
      for (int64_t i = 0; i < n; ++i) out[base + i * l.inner] = row[i];
    for (int64_t i = n; i < l.extent; ++i) out[base + i * l.inner] = 0;
  });
}

// Rows with a step.
template <class T>
static inline void grad_with_step(const T* head, const T* y, int64_t n, int64_t step, T* out, T scale) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += head[i * step] * y[i * step];
  for (int64_t i = 0; i < n; ++i) out[i * step] = scale * y[i * step] * (head[i * step] - sum);
}
template <class T>
static inline void log_grad_with_step(const T* head, const T* y, int64_t n, int64_t step, T* out, T scale, T* exps) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += head[i * step];
  for (int64_t i = 0; i < n; ++i) exps[i] = y[i * step];
  vector_exp(exps, exps, n);
  for (int64_t i = 0; i < n; ++i) out[i * step] = scale * (head[i * step] - exps[i] * sum);
}

template <class T>
void softmax_grad(const SoftmaxLayout& l, const T* head, const T* y, T* out, T scale) {
  for_each_row<T>(l, [&](int64_t r, T*) {
    const int64_t base = l.base(r);
    if (l.inner == 1)
      row_functions<T>().softmax_grad(head + base, y + base, l.extent, scale, false, out + base);
    else
      grad_with_step(head + base, y + base, l.extent, l.inner, out + base, scale);
  });
}
template <class T>
void log_softmax_grad(const SoftmaxLayout& l, const T* head, const T* y, T* out, T scale) {
  for_each_row<T>(l, [&](int64_t r, T* buffer) {
    const int64_t base = l.base(r);
    if (l.inner == 1)
      row_functions<T>().softmax_grad(head + base, y + base, l.extent, scale, true, out + base);
    else
      log_grad_with_step(head + base, y + base, l.extent, l.inner, out + base, scale, buffer);
  });
}

#define INSTANTIATE(T)                                                                \
  template void softmax(const SoftmaxLayout&, const T*, T*, T, bool, const int64_t*); \
  template void softmax_grad(const SoftmaxLayout&, const T*, const T*, T*, T);        \
  template void log_softmax_grad(const SoftmaxLayout&, const T*, const T*, T*, T);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace gluino::kernels
