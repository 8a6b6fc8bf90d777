// Included by rows_<isa>.cc, each compiled with its own instruction set; GLUINO_ISA names the namespace.
// Sums run in a fixed number of lanes, so their order depends neither on threads nor on the instruction set.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/rows.h"
#include "kernels/vector_math.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <class T>
constexpr int64_t kRowLanes = 64 / sizeof(T);
template <class T>
struct RowVector;
template <>
struct RowVector<float> {
  typedef float type __attribute__((vector_size(64)));
};
template <>
struct RowVector<double> {
  typedef double type __attribute__((vector_size(64)));
};

// The sum of f(x[i]), where f takes a number or a vector of them.
template <class T, class F>
inline T sum_row(const T* x, int64_t n, F&& f) {
  using V = typename RowVector<T>::type;
  V sums{};
  int64_t i = 0;
  for (; i + kRowLanes<T> <= n; i += kRowLanes<T>) {
    V v;
    memcpy(&v, x + i, sizeof v);
    sums += f(v);
  }
  T lanes[kRowLanes<T>];
  memcpy(lanes, &sums, sizeof sums);
  for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += f(x[i]);
  for (int64_t step = kRowLanes<T> / 2; step; step /= 2)
    for (int64_t l = 0; l < step; ++l) lanes[l] += lanes[l + step];
  return lanes[0];
}

// NaN is passed over here; it spreads through the sum.
template <class T>
inline T largest_of(const T* x, int64_t n) {
  using V = typename RowVector<T>::type;
  T largest = -static_cast<T>(HUGE_VAL);
  int64_t i = 0;
  if (n >= kRowLanes<T>) {
    V most, v;
    memcpy(&most, x, sizeof most);
    most = most == most ? most : largest - V{};
    for (i = kRowLanes<T>; i + kRowLanes<T> <= n; i += kRowLanes<T>) {
      memcpy(&v, x + i, sizeof v);
      most = most < v ? v : most;
    }
    for (int64_t l = 0; l < kRowLanes<T>; ++l) largest = largest < most[l] ? most[l] : largest;
  }
  for (; i < n; ++i) largest = largest < x[i] ? x[i] : largest;
  return largest;
}

template <class T>
void softmax(T* x, int64_t n, T scale, bool logarithm, T* exps) {
  if (scale != 1)
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
  const T largest = largest_of(x, n);
  for (int64_t i = 0; i < n; ++i) x[i] -= largest;
  for (int64_t i = 0; i < n; ++i) exps[i] = math::exp(x[i]);
  const T sum = sum_row(exps, n, [](const auto& v) { return v; });
  if (logarithm) {
    const T offset = static_cast<T>(::log(static_cast<double>(sum)));
    for (int64_t i = 0; i < n; ++i) x[i] -= offset;
  } else {
    const T factor = 1 / sum;
    for (int64_t i = 0; i < n; ++i) x[i] = exps[i] * factor;
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

}  // namespace

extern const RowTable kRowTable;
const RowTable kRowTable = {{softmax<float>, moments<float>, normalise<float>}, {softmax<double>, moments<double>, normalise<double>}};

}  // namespace gluino::kernels::GLUINO_ISA
