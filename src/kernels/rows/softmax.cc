#include "kernels/rows/softmax.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/rows/rows.h"

namespace gluino::kernels {

namespace {

// Rows with a step lie side by side. As many are taken together as stay in the cache, and at least a line of it: f(first element, how
// many).
template <class F>
void for_each_column(const SoftmaxLayout& l, F&& f) {
  const int64_t most = std::clamp<int64_t>(65536 / std::max<int64_t>(l.extent, 1) / 16 * 16, 16, kMostColumns);
  const int64_t groups = (l.inner + most - 1) / most;
  parallel_for(l.outer * groups, row_grain(l.extent * most), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const int64_t column = g % groups * most;
      f(g / groups * l.extent * l.inner + column, std::min(most, l.inner - column));
    }
  });
}

}  // namespace

template <class T>
void softmax(const SoftmaxLayout& l, const T* data, T* out, T scale, bool logarithm, const int64_t* lengths) {
  if (l.extent == 0) return;
  if (l.inner > 1 && !lengths)
    return for_each_column(
        l, [&](int64_t at, int64_t n) { row_functions<T>().softmax_columns(data + at, l.extent, l.inner, n, scale, logarithm, out + at); });
  parallel_for(l.rows(), row_grain(l.extent), [&](int64_t begin, int64_t end) {
    std::vector<T> buffer(2 * l.extent);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t base = l.base(r), n = lengths ? std::clamp<int64_t>(lengths[r], 0, l.extent) : l.extent;
      T* row = l.inner == 1 ? out + base : buffer.data();
      for (int64_t i = 0; i < n; ++i) row[i] = data[base + i * l.inner];
      if (n > 0) row_functions<T>().softmax(row, n, scale, logarithm, buffer.data() + l.extent);
      if (l.inner != 1)
        for (int64_t i = 0; i < n; ++i) out[base + i * l.inner] = row[i];
      for (int64_t i = n; i < l.extent; ++i) out[base + i * l.inner] = 0;
    }
  });
}

template <class T>
static void grad_of_rows(const SoftmaxLayout& l, const T* head, const T* y, T* out, T scale, bool logarithm) {
  const RowFunctions<T>& functions = row_functions<T>();
  if (l.inner > 1)
    return for_each_column(l, [&](int64_t at, int64_t n) {
      functions.softmax_grad_columns(head + at, y + at, l.extent, l.inner, n, scale, logarithm, out + at);
    });
  parallel_for(l.rows(), row_grain(l.extent), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * l.extent; at < end * l.extent; at += l.extent)
      functions.softmax_grad(head + at, y + at, l.extent, scale, logarithm, out + at);
  });
}
template <class T>
void softmax_grad(const SoftmaxLayout& l, const T* head, const T* y, T* out, T scale) {
  grad_of_rows(l, head, y, out, scale, false);
}
template <class T>
void log_softmax_grad(const SoftmaxLayout& l, const T* head, const T* y, T* out, T scale) {
  grad_of_rows(l, head, y, out, scale, true);
}

#define INSTANTIATE(T)                                                                \
  template void softmax(const SoftmaxLayout&, const T*, T*, T, bool, const int64_t*); \
  template void softmax_grad(const SoftmaxLayout&, const T*, const T*, T*, T);        \
  template void log_softmax_grad(const SoftmaxLayout&, const T*, const T*, T*, T);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace gluino::kernels
