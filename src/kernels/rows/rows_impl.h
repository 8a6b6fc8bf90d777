// Included by rows_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set; GLUINO_ISA names the namespace.
// Sums run in a fixed number of lanes, so their order depends neither on threads nor on the instruction set.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/isa/independent_steps.h"
#include "kernels/isa/vector_math.h"
#include "kernels/isa/wide_vectors.h"
#include "kernels/rows/rows.h"
#include "program/reduce_formulas.h"
#include "program/row_formulas.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

// The places of a row in arrays.
template <class T>
struct EagerRows {
  int64_t n;

  T count() const { return static_cast<T>(n); }
  static T exp(T x) { return math::exp(x); }
  static T sqrt(T x) { return math::sqrt(x); }
  static T wide_log(T x) { return GLUINO_ISA::wide_log(x); }

  template <class F>
  T sum(F&& f) const {
    Vector<T> sums[kVectors] = {};
    int64_t i = 0;
    for (; i + kLanes<T> <= n; i += kLanes<T>)
      for (int v = 0; v < kVectors; ++v) sums[v] += f([&](const T* x) { return load<Vector<T>>(x + i + v * kWidth<T>); });
    T lanes[kLanes<T>];
    memcpy(lanes, &sums, sizeof sums);
    for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += f([&](const T* x) { return x[i]; });
    return halved<kLanes<T>>(lanes, [](const auto& a, const auto& b) { return a + b; });
  }

  // NaN is passed over here; it spreads through the sum.
  template <class F>
  T largest(F&& f) const {
    T largest = -static_cast<T>(HUGE_VAL);
    int64_t i = 0;
    Vector<T> most[kVectors];
    for (int v = 0; v < kVectors; ++v) most[v] = Vector<T>{} + largest;
    for (; i + kLanes<T> <= n; i += kLanes<T>)
      for (int v = 0; v < kVectors; ++v)
        most[v] = larger_of(most[v], f([&](const T* x) { return load<Vector<T>>(x + i + v * kWidth<T>); }));
    T lanes[kLanes<T>];
    memcpy(lanes, &most, sizeof most);
    for (; i < n; ++i) largest = larger_of(largest, f([&](const T* x) { return x[i]; }));
    return larger_of(largest, halved<kLanes<T>>(lanes, [](const auto& a, const auto& b) { return larger_of(a, b); }));
  }

  template <class F>
  void each(F&& f) const {
    GLUINO_INDEPENDENT_STEPS
    for (int64_t i = 0; i < n; ++i)
      f([i](const T* x) { return x[i]; }, [i](T* x, T value) { x[i] = value; }, [i](T* x, T value) { x[i] += value; });
  }
};

template <class T>
void softmax(T* x, int64_t n, T scale, bool logarithm, T* exps) {
  if (scale != 1)
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
  if (logarithm)
    log_softmax_of(EagerRows<T>{n}, x, exps, x);
  else
    softmax_of(EagerRows<T>{n}, x, x, x);
}
template <class T>
void softmax_grad(const T* head, const T* y, int64_t n, T scale, bool logarithm, T* out) {
  if (logarithm)
    log_softmax_grad_of(EagerRows<T>{n}, head, y, scale, out);
  else
    softmax_grad_of(EagerRows<T>{n}, head, y, scale, out);
}

// Sums of columns: so many elements at a time, so that their order costs no more digits than lanes do.
constexpr int64_t kColumnBlock = 32;
template <class T, class F>
inline void sum_columns(int64_t extent, int64_t n, T* sums, F&& add_element) {
  for (int64_t c = 0; c < n; ++c) sums[c] = 0;
  for (int64_t first = 0; first < extent; first += kColumnBlock) {
    T block[kMostColumns] = {};
    for (int64_t i = first; i < extent && i < first + kColumnBlock; ++i) add_element(i, block);
    for (int64_t c = 0; c < n; ++c) sums[c] += block[c];
  }
}

template <class T>
void softmax_columns(const T* x, int64_t extent, int64_t step, int64_t n, T scale, bool logarithm, T* out) {
  T largest[kMostColumns], sums[kMostColumns];
  for (int64_t c = 0; c < n; ++c) largest[c] = -static_cast<T>(HUGE_VAL);
  for (int64_t i = 0; i < extent; ++i)
    for (int64_t c = 0; c < n; ++c) largest[c] = larger_of(largest[c], x[i * step + c] * scale);
  sum_columns(extent, n, sums, [&](int64_t i, T* block) {
    const T* from = x + i * step;
    T* to = out + i * step;
    if (logarithm)
      for (int64_t c = 0; c < n; ++c) block[c] += math::exp(from[c] * scale - largest[c]);
    else
      GLUINO_INDEPENDENT_STEPS
    for (int64_t c = 0; c < n; ++c) {
      const T e = math::exp(from[c] * scale - largest[c]);
      block[c] += e;
      to[c] = e;
    }
  });
  for (int64_t c = 0; c < n; ++c) sums[c] = logarithm ? GLUINO_ISA::wide_log(sums[c]) : 1 / sums[c];
  for (int64_t i = 0; i < extent * step; i += step) {
    GLUINO_INDEPENDENT_STEPS
    for (int64_t c = 0; c < n; ++c) out[i + c] = logarithm ? x[i + c] * scale - largest[c] - sums[c] : out[i + c] * sums[c];
  }
}
template <class T>
void softmax_grad_columns(const T* head, const T* y, int64_t extent, int64_t step, int64_t n, T scale, bool logarithm, T* out) {
  T sums[kMostColumns];
  sum_columns(extent, n, sums, [&](int64_t i, T* block) {
    for (int64_t c = 0; c < n; ++c) block[c] += logarithm ? head[i * step + c] : head[i * step + c] * y[i * step + c];
  });
  for (int64_t i = 0; i < extent * step; i += step) {
    GLUINO_INDEPENDENT_STEPS
    for (int64_t c = 0; c < n; ++c)
      out[i + c] = logarithm ? scale * (head[i + c] - math::exp(y[i + c]) * sums[c]) : scale * y[i + c] * (head[i + c] - sums[c]);
  }
}

template <class T>
void moments(const T* x, int64_t n, T* mean, T* variance) {
  const Moments<T> found = moments_of(EagerRows<T>{n}, x);
  *mean = found.mean;
  *variance = found.variance;
}
template <class T>
void layer_norm(const T* x, int64_t n, T eps, const T* gamma, const T* beta, T* out, T* mean, T* deviation) {
  layer_norm_of(EagerRows<T>{n}, x, eps, gamma, beta, out, *mean, *deviation);
}
template <class T>
void layer_norm_grad(const T* head, const T* x, int64_t n, const T* gamma, T mean, T deviation, T* out, T* gamma_sum, T* beta_sum) {
  layer_norm_grad_of(EagerRows<T>{n}, head, x, gamma, mean, deviation, out, gamma_sum, beta_sum);
}

template <class T>
inline T sigmoid(T x) {
  return math::tanh(x * T(0.5)) * T(0.5) + T(0.5);
}

template <class T>
void lstm(int64_t n, T* gates, const T* cell_before, T* hidden, T* cell) {
  T *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
  GLUINO_INDEPENDENT_STEPS
  for (int64_t k = 0; k < n; ++k) {
    i[k] = sigmoid(i[k]);
    f[k] = sigmoid(f[k]);
    g[k] = math::tanh(g[k]);
    o[k] = sigmoid(o[k]);
    cell[k] = f[k] * cell_before[k] + i[k] * g[k];
    hidden[k] = math::tanh(cell[k]) * o[k];
  }
}

}  // namespace

extern const RowTable kRowTable;
const RowTable kRowTable = {{softmax<float>, softmax_grad<float>, softmax_columns<float>, softmax_grad_columns<float>, moments<float>,
                             layer_norm<float>, layer_norm_grad<float>, lstm<float>},
                            {softmax<double>, softmax_grad<double>, softmax_columns<double>, softmax_grad_columns<double>, moments<double>,
                             layer_norm<double>, layer_norm_grad<double>, lstm<double>}};

}  // namespace gluino::kernels::GLUINO_ISA
