#include "kernels/rows/normalization.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"
#include "kernels/isa/primitives.h"
#include "kernels/rows/channel_formulas.h"
#include "kernels/rows/channel_rows.h"
#include "kernels/rows/rows.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(ChannelTable, kChannelTable, channel_table)

namespace {

int64_t channel_grain(const ChannelLayout& l) {
  return std::max<int64_t>(kParallelGrain / std::max<int64_t>(l.outer * l.inner, 1), l.inner == 1 ? 16 : 1);
}

// Calls row(place) for every row of a channel.
template <class Row>
void for_rows(const ChannelLayout& l, int64_t channel, Row&& row) {
  for (int64_t o = 0; o < l.outer; ++o) row((o * l.channels + channel) * l.inner);
}

// out[i] = f(i, channel) where channels are the innermost axis, else row(place, channel) for every row.
template <class T, class F, class Row>
void channel_map(const ChannelLayout& l, T* out, F&& f, Row&& row) {
  parallel_for(l.outer * l.channels, kParallelGrain / std::max<int64_t>(l.inner, 1) + 1, [&](int64_t begin, int64_t end) {
    if (l.inner == 1) {
      int64_t c = begin % l.channels;
      for (int64_t i = begin; i < end; ++i, c = c + 1 == l.channels ? 0 : c + 1) out[i] = f(i, c);
      return;
    }
    for (int64_t r = begin; r < end; ++r) row(r * l.inner, r % l.channels);
  });
}

template <class T>
struct Pair {
  T first, second;
};

// Sums over one row with a step; a step of 1 is a constant so that the loop vectorises.
template <class T, class F>
Pair<T> row_sums(int64_t n, int64_t step, F&& f) {
  T u = 0, v = 0;
  if (step == 1) {
#pragma omp simd reduction(+ : u, v)
    for (int64_t i = 0; i < n; ++i) {
      const Pair<T> p = f(i, i);
      u += p.first;
      v += p.second;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const Pair<T> p = f(i, i * step);
      u += p.first;
      v += p.second;
    }
  }
  return {u, v};
}

template <class T>
Pair<T> row_moments(const T* x, int64_t n, int64_t step) {
  if (step == 1) {
    Pair<T> result;
    row_functions<T>().moments(x, n, &result.first, &result.second);
    return result;
  }
  const T mean = row_sums<T>(n, step, [&](int64_t, int64_t at) { return Pair<T>{x[at], 0}; }).first / static_cast<T>(n);
  const T var = row_sums<T>(n, step,
                            [&](int64_t, int64_t at) {
                              return Pair<T>{(x[at] - mean) * (x[at] - mean), 0};
                            })
                    .first /
                static_cast<T>(n);
  return {mean, var};
}

}  // namespace

template <class T>
void channel_moments(const ChannelLayout& l, const T* x, T* mean, T* var) {
  const double count = static_cast<double>(std::max<int64_t>(l.outer * l.inner, 1));
  const ChannelRows<T>& rows = channel_rows<T>();
  parallel_for(l.channels, channel_grain(l), [&](int64_t begin, int64_t end) {
    if (l.inner == 1) {
      const auto sums_of = [&](T* result, auto&& f) {
        std::vector<double> sum(end - begin, 0.0);
        for (int64_t o = 0; o < l.outer; ++o)
          for (int64_t c = begin; c < end; ++c) sum[c - begin] += f(x[o * l.channels + c], c);
        for (int64_t c = begin; c < end; ++c) result[c] = static_cast<T>(sum[c - begin] / count);
      };
      sums_of(mean, [](T v, int64_t) { return v; });
      sums_of(var, [&](T v, int64_t c) { return (v - mean[c]) * (v - mean[c]); });
      return;
    }
    for (int64_t c = begin; c < end; ++c) {
      double sum = 0, squares = 0;
      for_rows(l, c, [&](int64_t at) { sum += rows.sum(x + at, l.inner); });
      mean[c] = static_cast<T>(sum / count);
      for_rows(l, c, [&](int64_t at) { squares += rows.squares(x + at, l.inner, mean[c]); });
      var[c] = static_cast<T>(squares / count);
    }
  });
}

template <class T>
void channel_affine(const ChannelLayout& l, const T* x, const T* mean, const T* scale, const T* shift, T* out) {
  channel_map(
      l, out, [&](int64_t i, int64_t c) { return affine_of(x[i], mean[c], scale[c], shift[c]); },
      [&, &rows = channel_rows<T>()](int64_t at, int64_t c) { rows.affine(x + at, l.inner, mean[c], scale[c], shift[c], out + at); });
}

template <class T>
void channel_head_sums(const ChannelLayout& l, const T* head, const T* x, const T* mean, const T* rstd, T* head_sum, T* head_x_sum) {
  const ChannelRows<T>& rows = channel_rows<T>();
  parallel_for(l.channels, channel_grain(l), [&](int64_t begin, int64_t end) {
    std::vector<double> a(end - begin, 0.0), b = a;
    if (l.inner == 1) {
      for (int64_t o = 0; o < l.outer; ++o)
        for (int64_t c = begin; c < end; ++c) {
          const int64_t i = o * l.channels + c;
          a[c - begin] += head[i];
          b[c - begin] += head[i] * normalised(x[i], mean[c], rstd[c]);
        }
    } else {
      for (int64_t c = begin; c < end; ++c)
        for_rows(l, c, [&](int64_t at) {
          T u, v;
          rows.head_sums(head + at, x + at, l.inner, mean[c], rstd[c], &u, &v);
          a[c - begin] += u;
          b[c - begin] += v;
        });
    }
    for (int64_t c = begin; c < end; ++c) {
      head_sum[c] = static_cast<T>(a[c - begin]);
      head_x_sum[c] = static_cast<T>(b[c - begin]);
    }
  });
}

template <class T>
void channel_grad(const ChannelLayout& l, const T* head, const T* x, const T* mean, const T* rstd, const T* scale, const T* a, const T* b,
                  T* out) {
  channel_map(
      l, out, [&](int64_t i, int64_t c) { return grad_of(head[i], x[i], mean[c], rstd[c], scale[c], a[c], b[c]); },
      [&, &rows = channel_rows<T>()](int64_t at, int64_t c) {
        rows.grad(head + at, x + at, l.inner, mean[c], rstd[c], scale[c], a[c], b[c], out + at);
      });
}

template <class T>
void layer_norm(const RowLayout& l, const T* x, const T* gamma, const T* beta, T eps, T* out, T* mean, T* std) {
  parallel_for(l.rows(), row_grain(l.extent), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t base = l.base(r), step = l.inner;
      if (step == 1) {
        row_functions<T>().layer_norm(x + base, l.extent, eps, gamma, beta, out + base, mean + r, std + r);
        continue;
      }
      const auto [m, v] = row_moments(x + base, l.extent, step);
      const T s = std::sqrt(v + eps), inverse = 1 / s;
      mean[r] = m;
      std[r] = s;
      for (int64_t i = 0; i < l.extent; ++i) out[base + i * step] = (x[base + i * step] - m) * inverse * gamma[i] + beta[i];
    }
  });
}

template <class T>
void layer_norm_grad(const RowLayout& l, const T* head, const T* x, const T* gamma, const T* mean, const T* std, T* dx, T* dgamma,
                     T* dbeta) {
  const int64_t n = l.extent, step = l.inner;
  const RowParts parts(l.rows());
  std::vector<T> sums(parts.count * 2 * n);
  parallel_for(parts.count, parts.grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T *g = sums.data() + p * 2 * n, *b = g + n;
      for (int64_t r = parts.begin(p); r < parts.end(p); ++r) {
        const T *h = head + l.base(r), *row = x + l.base(r), m = mean[r], inverse = 1 / std[r];
        T* d = dx + l.base(r);
        if (step == 1) {
          row_functions<T>().layer_norm_grad(h, row, n, gamma, m, std[r], d, g, b);
          continue;
        }
        const auto [u, v] = row_sums<T>(n, step, [&](int64_t i, int64_t at) {
          const T scaled = h[at] * gamma[i];
          return Pair<T>{scaled, scaled * (row[at] - m) * inverse};
        });
        const T a = u / static_cast<T>(n), c = v / static_cast<T>(n);
        for (int64_t i = 0; i < n; ++i) {
          const T normal = (row[i * step] - m) * inverse, up = h[i * step];
          d[i * step] = (up * gamma[i] - a - normal * c) * inverse;
          g[i] += up * normal;
          b[i] += up;
        }
      }
    }
  });
  parts.add(sums.data(), 2 * n, n, dgamma);
  parts.add(sums.data() + n, 2 * n, n, dbeta);
}

template <class T>
void group_norm(const GroupLayout& l, const T* x, const T* gamma, const T* beta, T eps, T* out, T* mean, T* std) {
  parallel_for(l.batch * l.groups, row_grain(l.extent()), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* row = x + r * l.extent();
      const auto [m, v] = row_moments(row, l.extent(), 1);
      mean[r] = m;
      std[r] = std::sqrt(v + eps);
      for (int64_t s = 0; s < l.segments; ++s) {
        const int64_t c = r % l.groups * l.segments + s;
        const T scale = gamma[c] / std[r], shift = beta[c];
        for (int64_t i = s * l.segment; i < (s + 1) * l.segment; ++i) out[r * l.extent() + i] = (row[i] - m) * scale + shift;
      }
    }
  });
}

template <class T>
void group_norm_grad(const GroupLayout& l, const T* head, const T* x, const T* gamma, const T* mean, const T* std, T* dx, T* dgamma,
                     T* dbeta) {
  std::fill_n(dgamma, l.groups * l.segments, T(0));
  std::fill_n(dbeta, l.groups * l.segments, T(0));
  // Parallel over groups only: a number of gamma belongs to one group, so its sum over the batch has one order.
  parallel_for(l.groups, row_grain(l.extent() * l.batch), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g)
      for (int64_t n = 0; n < l.batch; ++n) {
        const int64_t r = n * l.groups + g, base = r * l.extent();
        const T *h = head + base, *row = x + base, m = mean[r], inverse = 1 / std[r];
        T total = 0, total_normal = 0;
        for (int64_t s = 0; s < l.segments; ++s) {
          const int64_t c = g * l.segments + s, first = s * l.segment;
          const auto [u, v] = row_sums<T>(l.segment, 1, [&](int64_t i, int64_t) {
            return Pair<T>{h[first + i], h[first + i] * (row[first + i] - m) * inverse};
          });
          dbeta[c] += u;
          dgamma[c] += v;
          total += u * gamma[c];
          total_normal += v * gamma[c];
        }
        const T a = total / static_cast<T>(l.extent()), b = total_normal / static_cast<T>(l.extent());
        for (int64_t s = 0; s < l.segments; ++s) {
          const T scale = gamma[g * l.segments + s];
          for (int64_t i = s * l.segment; i < (s + 1) * l.segment; ++i)
            dx[base + i] = (h[i] * scale - a - (row[i] - m) * inverse * b) * inverse;
        }
      }
  });
}

#define INSTANTIATE(T)                                                                                                        \
  template void channel_moments(const ChannelLayout&, const T*, T*, T*);                                                      \
  template void channel_affine(const ChannelLayout&, const T*, const T*, const T*, const T*, T*);                             \
  template void channel_head_sums(const ChannelLayout&, const T*, const T*, const T*, const T*, T*, T*);                      \
  template void channel_grad(const ChannelLayout&, const T*, const T*, const T*, const T*, const T*, const T*, const T*, T*); \
  template void layer_norm(const RowLayout&, const T*, const T*, const T*, T, T*, T*, T*);                                    \
  template void layer_norm_grad(const RowLayout&, const T*, const T*, const T*, const T*, const T*, T*, T*, T*);              \
  template void group_norm(const GroupLayout&, const T*, const T*, const T*, T, T*, T*, T*);                                  \
  template void group_norm_grad(const GroupLayout&, const T*, const T*, const T*, const T*, const T*, T*, T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace gluino::kernels
