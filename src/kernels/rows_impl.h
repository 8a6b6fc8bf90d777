// Included by rows_<isa>.cc, each compiled with its own instruction set; GLUINO_ISA names the namespace.
// Sums run in a fixed number of lanes, so their order depends neither on threads nor on the instruction set.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/rows.h"
#include "kernels/vector_math.h"
#include "kernels/wide_vectors.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

// The sum of f(at) over n places, where at(x) reads the element of x, or a vector of them, at the place.
template <class T, class F>
inline T sum_places(int64_t n, F&& f) {
  Vector<T> sums[kVectors] = {};
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>)
    for (int v = 0; v < kVectors; ++v) sums[v] += f([&](const T* x) { return load<Vector<T>>(x + i + v * kWidth<T>); });
  T lanes[kLanes<T>];
  memcpy(lanes, &sums, sizeof sums);
  for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += f([&](const T* x) { return x[i]; });
  for (int64_t step = kLanes<T> / 2; step; step /= 2)
    for (int64_t l = 0; l < step; ++l) lanes[l] += lanes[l + step];
  return lanes[0];
}
// The sum of f(x[i]), where f takes a number or a vector of them.
template <class T, class F>
inline T sum_row(const T* x, int64_t n, F&& f) {
  return sum_places<T>(n, [&](auto&& at) { return f(at(x)); });
}

// NaN is passed over here; it spreads through the sum.
template <class T>
inline T largest_of(const T* x, int64_t n) {
  T largest = -static_cast<T>(HUGE_VAL);
  int64_t i = 0;
  Vector<T> most[kVectors];
  for (int v = 0; v < kVectors; ++v) most[v] = Vector<T>{} + largest;
  for (; i + kLanes<T> <= n; i += kLanes<T>)
    for (int v = 0; v < kVectors; ++v) {
      const Vector<T> here = load<Vector<T>>(x + i + v * kWidth<T>);
      most[v] = most[v] < here ? here : most[v];
    }
  T lanes[kLanes<T>];
  memcpy(lanes, &most, sizeof most);
  for (; i < n; ++i) largest = largest < x[i] ? x[i] : largest;
  for (int64_t step = kLanes<T> / 2; step; step /= 2)
    for (int64_t l = 0; l < step; ++l) lanes[l] = lanes[l] < lanes[l + step] ? lanes[l + step] : lanes[l];
  return largest < lanes[0] ? lanes[0] : largest;
}

template <class T>
void softmax(T* x, int64_t n, T scale, bool logarithm, T* exps) {
  if (scale != 1)
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
  const T largest = largest_of(x, n);
  T* to = logarithm ? exps : x;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = math::exp(x[i] - largest);
  const T sum = sum_row(to, n, [](const auto& v) { return v; });
  if (logarithm) {
    const T offset = static_cast<T>(::log(static_cast<double>(sum)));
    for (int64_t i = 0; i < n; ++i) x[i] = (x[i] - largest) - offset;
  } else {
    const T factor = 1 / sum;
    for (int64_t i = 0; i < n; ++i) x[i] *= factor;
  }
}

template <class T>
void moments(const T* x, int64_t n, T* mean, T* variance) {
  const T m = sum_row(x, n, [](const auto& v) { return v; }) / static_cast<T>(n);
  *mean = m;
  *variance = sum_row(x, n, [m](const auto& v) { return (v - m) * (v - m); }) / static_cast<T>(n);
}

template <class T>
void normalise(const T* x, int64_t n, T mean, T factor, const T* gamma, const T* beta, T* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * factor * gamma[i] + beta[i];
}

// With y = (x - mean) * factor and h = head * gamma: (h - mean(h) - y * mean(h * y)) * factor.
template <class T>
void normalise_grad(const T* head, const T* x, int64_t n, T mean, T factor, const T* gamma, T* out, T* gamma_sum, T* beta_sum) {
  const T count = static_cast<T>(n);
  const T offset = sum_places<T>(n, [&](auto&& at) { return at(head) * at(gamma); }) / count;
  const T slope = sum_places<T>(n, [&](auto&& at) { return at(head) * at(gamma) * ((at(x) - mean) * factor); }) / count;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T up = head[i], y = (x[i] - mean) * factor;
    out[i] = (up * gamma[i] - offset - y * slope) * factor;
    gamma_sum[i] += up * y;
    beta_sum[i] += up;
  }
}

template <class T>
inline T sigmoid(T x) {
  return math::tanh(x * T(0.5)) * T(0.5) + T(0.5);
}

template <class T>
void lstm(int64_t n, T* gates, const T* cell_before, T* hidden, T* cell) {
  T *i = gates, *f = gates + n, *g = gates + 2 * n, *o = gates + 3 * n;
#pragma GCC ivdep
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
const RowTable kRowTable = {{softmax<float>, moments<float>, normalise<float>, normalise_grad<float>, lstm<float>},
                            {softmax<double>, moments<double>, normalise<double>, normalise_grad<double>, lstm<double>}};

}  // namespace gluino::kernels::GLUINO_ISA
