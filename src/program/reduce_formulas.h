// How reductions begin, map, combine and finish, each written once: for the eager kernels (reduce_rows_impl.h, rows_impl.h, reduce.cc) and,
// as LLVM bitcode, for compiled rows. All but the finish work on numbers and on vectors of them. Only built-in arithmetic is used here.
#pragma once
#include "program/reduction.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors never cross a function that is not inlined

// Lanes of products are always double: a float32 block could overflow on the way to a finite result.
constexpr bool is_carried_wide(ReduceOp op) { return op == ReduceOp::prod || op == ReduceOp::nanprod; }
template <bool wide, class T>
struct LaneOf {
  using type = T;
};
template <class T>
struct LaneOf<true, T> {
  using type = double;
};
template <ReduceOp op, class T>
using Lane = typename LaneOf<is_carried_wide(op), T>::type;

template <ReduceOp op, class V>
__attribute__((always_inline)) inline V map(const V& x) {
  if constexpr (op == ReduceOp::sum_abs)
    return x < 0 ? -x : x;
  else if constexpr (op == ReduceOp::sum_square)
    return x * x;
  else if constexpr (op == ReduceOp::nansum)
    return x == x ? x : V{};
  else if constexpr (op == ReduceOp::nanprod)
    return x == x ? x : V{} + 1;
  else
    return x;
}
// NaN wins in max and min.
template <ReduceOp op, class V>
__attribute__((always_inline)) inline V combine(const V& a, const V& x) {
  if constexpr (op == ReduceOp::prod || op == ReduceOp::nanprod)
    return a * x;
  else if constexpr (op == ReduceOp::max)
    return ((x > a) | (x != x)) ? x : a;
  else if constexpr (op == ReduceOp::min)
    return ((x < a) | (x != x)) ? x : a;
  else
    return a + x;
}
// What a reduction begins with, and each of its lanes.
template <class A>
constexpr A identity(ReduceOp op) {
  constexpr bool is_whole = A(0.5) == 0;
  switch (op) {
    case ReduceOp::prod:
    case ReduceOp::nanprod: return 1;
    case ReduceOp::max: return is_whole ? static_cast<A>(INT64_MIN) : -static_cast<A>(__builtin_inf());
    case ReduceOp::min: return is_whole ? static_cast<A>(INT64_MAX) : static_cast<A>(__builtin_inf());
    default: return 0;
  }
}
inline double finished(ReduceFinish finish, double total, double count) {
  switch (finish) {
    case ReduceFinish::divide: return total / count;
    case ReduceFinish::sqrt: return __builtin_sqrt(total);
    default: return total;
  }
}

// Of the sum of exponentials: float32 would lose digits that the rows still have.
template <class T>
inline T wide_log(T x) {
  return static_cast<T>(__builtin_log(static_cast<double>(x)));
}
// NaN is passed over.
template <class V>
__attribute__((always_inline)) inline V larger_of(const V& a, const V& x) {
  return a < x ? x : a;
}

// All lanes in one: the upper half is combined with the lower one until one is left. combine takes numbers and vectors.
template <int count, class T, class Combine>
__attribute__((always_inline)) inline T halved(const T* lanes, Combine&& combine) {
  if constexpr (count == 1) {
    return lanes[0];
  } else if constexpr (count == 2) {
    return combine(lanes[0], lanes[1]);
  } else {
    typedef T Half __attribute__((vector_size(sizeof(T) * count / 2)));
    Half low, high;
    __builtin_memcpy(&low, lanes, sizeof(Half));
    __builtin_memcpy(&high, lanes + count / 2, sizeof(Half));
    low = combine(low, high);
    T left[count / 2];
    __builtin_memcpy(left, &low, sizeof(Half));
    return halved<count / 2>(left, combine);
  }
}

}  // namespace
}  // namespace gluino::kernels::GLUINO_ISA
