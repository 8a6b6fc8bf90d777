// Included by reduce_rows_<isa>.cc, each compiled with its own instruction set; GLUINO_ISA names the namespace.
// The number of lanes and the order of additions are fixed, so every instruction set gives the same result.
#include <math.h>

#include "kernels/reduce_rows.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

constexpr int kLanes = 16;
constexpr int64_t kBlock = 2048;  // float32 sums are carried on in double after each block

template <ReduceOp op, class T>
inline T identity() {
  if constexpr (op == ReduceOp::prod || op == ReduceOp::nanprod) return 1;
  else if constexpr (op == ReduceOp::max) return -static_cast<T>(INFINITY);
  else if constexpr (op == ReduceOp::min) return static_cast<T>(INFINITY);
  else return 0;
}
template <ReduceOp op, class T>
inline T map(T x) {
  if constexpr (op == ReduceOp::sum_abs) return x < 0 ? -x : x;
  else if constexpr (op == ReduceOp::sum_square) return x * x;
  else if constexpr (op == ReduceOp::nansum || op == ReduceOp::nanprod) return x == x ? x : identity<op, T>();
  else return x;
}
// NaN wins in max and min.
template <ReduceOp op, class T>
inline T combine(T a, T x) {
  if constexpr (op == ReduceOp::prod || op == ReduceOp::nanprod) return a * x;
  else if constexpr (op == ReduceOp::max) return (x > a) | (x != x) ? x : a;
  else if constexpr (op == ReduceOp::min) return (x < a) | (x != x) ? x : a;
  else return a + x;
}

// Products are always carried in double: a float32 block could overflow on the way to a finite result.
template <ReduceOp op, class T>
double row(const T* x, int64_t n) {
  constexpr bool wide = op == ReduceOp::prod || op == ReduceOp::nanprod;
  double total = identity<op, double>();
  int64_t i = 0;
  while (!wide && n - i >= kLanes) {
    const int64_t end = i + (n - i < kBlock ? (n - i) / kLanes * kLanes : kBlock);
    T lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = identity<op, T>();
    for (; i < end; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lanes[l] = combine<op, T>(lanes[l], map<op, T>(x[i + l]));
    for (int step = kLanes / 2; step; step /= 2)
      for (int l = 0; l < step; ++l) lanes[l] = combine<op, T>(lanes[l], lanes[l + step]);
    total = combine<op, double>(total, lanes[0]);
  }
  for (; i < n; ++i) total = combine<op, double>(total, map<op, double>(x[i]));
  return total;
}

template <ReduceOp op, class T>
void rows(const T* x, int64_t n, double* acc) {
  for (int64_t i = 0; i < n; ++i) acc[i] = combine<op, double>(acc[i], map<op, double>(x[i]));
}

#define ALL(f, T) \
  {f<ReduceOp::sum, T>, f<ReduceOp::sum_abs, T>, f<ReduceOp::sum_square, T>, f<ReduceOp::nansum, T>, f<ReduceOp::prod, T>, f<ReduceOp::nanprod, T>, \
   f<ReduceOp::max, T>, f<ReduceOp::min, T>}

}  // namespace

extern const ReduceTable kReduceTable;
const ReduceTable kReduceTable = {ALL(row, float), ALL(row, double), ALL(rows, float), ALL(rows, double)};

}  // namespace gluino::kernels::GLUINO_ISA
