// Included by channel_rows_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set; GLUINO_ISA names the namespace.
// Sums run in a fixed number of lanes, so their order depends neither on threads nor on the instruction set.
#include <stdint.h>
#include <string.h>

#include "kernels/isa/independent_steps.h"
#include "kernels/isa/wide_vectors.h"
#include "kernels/rows/channel_rows.h"
// After the header of vectors, which allows them as arguments.
#include "kernels/rows/channel_formulas.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <class T>
struct Sums {
  Vector<T> vectors[kVectors] = {};
  // `n` is the length of the row, `rest` the sum of what does not fill a vector.
  GLUINO_INLINE T total(int64_t n, T rest) const {
    if (n < kLanes<T>) return rest;
    T lanes[kLanes<T>];
    memcpy(lanes, &vectors, sizeof vectors);
    for (int64_t step = kLanes<T> / 2; step; step /= 2)
      for (int64_t l = 0; l < step; ++l) lanes[l] += lanes[l + step];
    return lanes[0] + rest;
  }
};

template <class T>
T sum(const T* x, int64_t n) {
  Sums<T> s;
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>)
    for (int v = 0; v < kVectors; ++v) s.vectors[v] += load<Vector<T>>(x + i + v * kWidth<T>);
  T rest = 0;
  for (; i < n; ++i) rest += x[i];
  return s.total(n, rest);
}

template <class T>
T squares(const T* x, int64_t n, T mean) {
  Sums<T> s;
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>)
    for (int v = 0; v < kVectors; ++v) {
      const Vector<T> d = load<Vector<T>>(x + i + v * kWidth<T>) - mean;
      s.vectors[v] += d * d;
    }
  T rest = 0;
  for (; i < n; ++i) rest += (x[i] - mean) * (x[i] - mean);
  return s.total(n, rest);
}

template <class T>
void head_sums(const T* head, const T* x, int64_t n, T mean, T rstd, T* head_sum, T* head_x_sum) {
  Sums<T> a, b;
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>)
    for (int v = 0; v < kVectors; ++v) {
      const Vector<T> h = load<Vector<T>>(head + i + v * kWidth<T>);
      a.vectors[v] += h;
      b.vectors[v] += h * normalised(load<Vector<T>>(x + i + v * kWidth<T>), mean, rstd);
    }
  T rest = 0, rest_x = 0;
  for (; i < n; ++i) {
    rest += head[i];
    rest_x += head[i] * normalised(x[i], mean, rstd);
  }
  *head_sum = a.total(n, rest);
  *head_x_sum = b.total(n, rest_x);
}

template <class T>
void affine(const T* x, int64_t n, T mean, T scale, T shift, T* out) {
  GLUINO_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) out[i] = affine_of(x[i], mean, scale, shift);
}

template <class T>
void grad(const T* head, const T* x, int64_t n, T mean, T rstd, T scale, T a, T b, T* out) {
  GLUINO_INDEPENDENT_STEPS
  for (int64_t i = 0; i < n; ++i) out[i] = grad_of(head[i], x[i], mean, rstd, scale, a, b);
}

}  // namespace

extern const ChannelTable kChannelTable;
const ChannelTable kChannelTable = {{sum<float>, squares<float>, head_sums<float>, affine<float>, grad<float>},
                                    {sum<double>, squares<double>, head_sums<double>, affine<double>, grad<double>}};

}  // namespace gluino::kernels::GLUINO_ISA
