// Included by reduce_rows_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set; GLUINO_ISA names the namespace.
// The number of lanes and the order of additions are fixed, so every instruction set gives the same result.
#include <stdint.h>

#include "kernels/isa/narrow_floats.h"
#include "kernels/isa/wide_vectors.h"
#include "kernels/reduce/reduce_rows.h"
#include "program/reduce_formulas.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

// What the elements of an array are computed in, and after how many of them sums are carried on in double.
template <class T>
struct Computed {
  using type = T;
  static constexpr int64_t kBlock = kReduceBlock;
};
struct ComputedNarrow {
  using type = float;
  static constexpr int64_t kBlock = kWidenedBlock;
};
template <>
struct Computed<Half> : ComputedNarrow {};
template <>
struct Computed<BFloat> : ComputedNarrow {};
template <class T>
using Element = typename Computed<T>::type;
template <class T>
GLUINO_INLINE double wide(T x) {
  if constexpr (sizeof(T) == sizeof(Element<T>))
    return static_cast<double>(x);
  else
    return static_cast<double>(widened(x));
}

template <class L, class T>
GLUINO_INLINE Vector<L> load_as(const T* x) {
  typedef Element<T> Loaded __attribute__((vector_size(kWidth<L> * sizeof(Element<T>))));
  if constexpr (sizeof(T) == sizeof(Element<T>)) {
    return converted<Vector<L>>(load<Loaded>(x));
  } else {
    alignas(64) float floats[kWidth<L>];
    widen_vector<kWidth<L>>(x, floats);
    return converted<Vector<L>>(load<Loaded>(floats));
  }
}

constexpr bool is_extremum(ReduceOp op) { return op == ReduceOp::max || op == ReduceOp::min; }
// combine() where neither is NaN: one instruction instead of four.
template <ReduceOp op, class V>
GLUINO_INLINE V combine_numbers(const V& a, const V& x) {
  if constexpr (op == ReduceOp::max)
    return a < x ? x : a;
  else
    return x < a ? x : a;
}

// Combines n elements, whole sets of lanes, of each of several runs `step` apart with totals. Side by side, because one addition waits
// for the one before it. `of_numbers`: for the largest and smallest; leaves totals alone and says so if there may be a NaN, which the sum
// shows.
template <ReduceOp op, bool of_numbers, class T, int runs>
GLUINO_INLINE bool fold_as(const T* x, int64_t step, int64_t n, double* totals) {
  using L = Lane<op, Element<T>>;
  constexpr int64_t lanes = kLanes<Element<T>>, width = kWidth<L>, vectors = lanes / width;
  const auto both = [](const auto& a, const auto& b) {
    if constexpr (of_numbers)
      return combine_numbers<op>(a, b);
    else
      return combine<op>(a, b);
  };
  Vector<L> sums[runs][vectors], seen{};
  for (int r = 0; r < runs; ++r)
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = map<op>(load_as<L>(x + r * step + v * width));
      if constexpr (of_numbers) seen += sums[r][v];
    }
  for (int64_t i = lanes; i < n; i += lanes) {
    Vector<L> here{};
    for (int r = 0; r < runs; ++r)
      for (int v = 0; v < vectors; ++v) {
        const Vector<L> more = map<op>(load_as<L>(x + r * step + i + v * width));
        sums[r][v] = both(sums[r][v], more);
        if constexpr (of_numbers) here = r + v == 0 ? more : here + more;
      }
    if constexpr (of_numbers) seen += here;
  }
  if constexpr (of_numbers) {
    const L sum = lanes_in_one<1, width, L>(&seen, [](const auto& a, const auto& b) { return a + b; });
    if (sum != sum) return false;
  }
  for (int r = 0; r < runs; ++r) totals[r] = combine<op>(totals[r], static_cast<double>(lanes_in_one<vectors, width, L>(sums[r], both)));
  return true;
}
template <ReduceOp op, class T, int runs>
GLUINO_INLINE void fold(const T* x, int64_t step, int64_t n, double* totals) {
  if constexpr (is_extremum(op))
    if (fold_as<op, true, T, runs>(x, step, n, totals)) return;
  fold_as<op, false, T, runs>(x, step, n, totals);
}
constexpr int kRuns = 8 / kVectors;  // as many as there are registers for

template <ReduceOp op, class T>
double row(const T* x, int64_t n, double total) {
  constexpr int64_t lanes = kLanes<Element<T>>, block = Computed<T>::kBlock;
  int64_t i = 0;
  for (; n - i >= kRuns * block; i += kRuns * block) {
    double totals[kRuns];
    for (double& each : totals) each = identity<double>(op);
    fold<op, T, kRuns>(x + i, block, block, totals);
    for (const double each : totals) total = combine<op>(total, each);
  }
  while (n - i >= lanes) {
    const int64_t here = n - i < block ? (n - i) / lanes * lanes : block;
    fold<op, T, 1>(x + i, 0, here, &total);
    i += here;
  }
  for (; i < n; ++i) total = combine<op>(total, map<op>(wide(x[i])));
  return total;
}

template <ReduceOp op, class T>
void each_row(const T* x, int64_t n, int64_t rows, int64_t step, double* totals) {
  constexpr int64_t lanes = kLanes<Element<T>>, block = Computed<T>::kBlock;
  int64_t r = 0;
  for (; n < kRuns * block && r + kRuns <= rows; r += kRuns) {
    const T* first = x + r * step;
    int64_t i = 0;
    while (n - i >= lanes) {
      const int64_t here = n - i < block ? (n - i) / lanes * lanes : block;
      fold<op, T, kRuns>(first + i, step, here, totals + r);
      i += here;
    }
    for (; i < n; ++i)
      for (int k = 0; k < kRuns; ++k) totals[r + k] = combine<op>(totals[r + k], map<op>(wide(first[k * step + i])));
  }
  for (; r < rows; ++r) totals[r] = row<op>(x + r * step, n, totals[r]);
}

template <ReduceOp op, class T>
void rows_together(const T* x, int64_t n, int64_t rows, int64_t step, double* acc) {
  constexpr int64_t width = kWidth<double>, vectors = 4, most = 16;
  int64_t i = 0;
  for (int64_t r = 0; r < rows; r += most) {
    const int64_t end = rows - r < most ? rows : r + most;
    i = 0;
    if constexpr (is_extremum(op) && sizeof(Element<T>) < sizeof(double)) {  // that of some rows is one of their elements
      constexpr int64_t lanes = kWidth<Element<T>>, wide = 2;
      for (; i + wide * lanes <= n; i += wide * lanes) {
        Vector<Element<T>> best[wide];
        for (int v = 0; v < wide; ++v) best[v] = load_as<Element<T>>(x + r * step + i + v * lanes);
        for (int64_t k = r + 1; k < end; ++k)
          for (int v = 0; v < wide; ++v) best[v] = combine<op>(best[v], load_as<Element<T>>(x + k * step + i + v * lanes));
        Element<T> each[wide * lanes];
        for (int v = 0; v < wide; ++v) store(each + v * lanes, best[v]);
        for (int64_t j = 0; j < wide * lanes; ++j) acc[i + j] = combine<op>(acc[i + j], static_cast<double>(each[j]));
      }
    }
    for (; i + vectors * width <= n; i += vectors * width) {
      Vector<double> sums[vectors];
      for (int v = 0; v < vectors; ++v) sums[v] = load<Vector<double>>(acc + i + v * width);
      for (int64_t k = r; k < end; ++k)
        for (int v = 0; v < vectors; ++v) sums[v] = combine<op>(sums[v], map<op>(load_as<double>(x + k * step + i + v * width)));
      for (int v = 0; v < vectors; ++v) store(acc + i + v * width, sums[v]);
    }
    for (; i < n; ++i)
      for (int64_t k = r; k < end; ++k) acc[i] = combine<op>(acc[i], map<op>(wide(x[k * step + i])));
  }
}

// Arrays of 16-bit floats, outside of these files.
template <ReduceOp op, class N>
void each_narrow_row(const uint16_t* x, int64_t n, int64_t rows, int64_t step, double* totals) {
  each_row<op>(reinterpret_cast<const N*>(x), n, rows, step, totals);
}
template <ReduceOp op, class N>
void narrow_rows_together(const uint16_t* x, int64_t n, int64_t rows, int64_t step, double* acc) {
  rows_together<op>(reinterpret_cast<const N*>(x), n, rows, step, acc);
}

// Whole numbers of type T, computed unsigned where they might overflow.
template <ReduceOp op, class T>
GLUINO_INLINE int64_t combine_whole(int64_t total, T x) {
  const auto v = static_cast<uint64_t>(static_cast<int64_t>(x)), a = static_cast<uint64_t>(total);
  if constexpr (op == ReduceOp::prod || op == ReduceOp::nanprod)
    return static_cast<int64_t>(a * v);
  else if constexpr (op == ReduceOp::max)
    return x > total ? x : total;
  else if constexpr (op == ReduceOp::min)
    return x < total ? x : total;
  else if constexpr (op == ReduceOp::sum_abs)
    return static_cast<int64_t>(a + (x < 0 ? 0 - v : v));
  else if constexpr (op == ReduceOp::sum_square)
    return static_cast<int64_t>(a + v * v);
  else
    return static_cast<int64_t>(a + v);
}
// Sums of pairs of 32 bits as they lie in 64, as if without a sign: to widen each takes twice as long.
inline int64_t sum_of_pairs(const int32_t* x, int64_t pairs) {
  constexpr uint64_t kSigns = 0x80000000'80000000;
  uint64_t low = 0, high = 0;
  for (int64_t i = 0; i < pairs; ++i) {
    uint64_t both;
    __builtin_memcpy(&both, x + 2 * i, sizeof both);
    both ^= kSigns;
    low += both & UINT32_MAX;
    high += both >> 32;
  }
  return static_cast<int64_t>(low + high - (static_cast<uint64_t>(pairs) << 32));
}
template <ReduceOp op, class T>
void each_whole_row(const T* x, int64_t n, int64_t rows, int64_t step, int64_t* totals) {
  for (int64_t r = 0; r < rows; ++r, x += step) {
    int64_t total = totals[r], i = 0;
    if constexpr (op == ReduceOp::sum && sizeof(T) == sizeof(int32_t)) {
      total = combine_whole<op>(total, sum_of_pairs(x, n / 2));
      i = n / 2 * 2;
    }
    for (; i < n; ++i) total = combine_whole<op>(total, x[i]);
    totals[r] = total;
  }
}
template <ReduceOp op, class T>
void whole_rows_together(const T* x, int64_t n, int64_t rows, int64_t step, int64_t* acc) {
  for (int64_t r = 0; r < rows; ++r, x += step)
    for (int64_t i = 0; i < n; ++i) acc[i] = combine_whole<op>(acc[i], x[i]);
}

}  // namespace

extern const ReduceTable kReduceTable;
const ReduceTable kReduceTable = {
#define GLUINO_X(name) each_row<ReduceOp::name, float>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) each_row<ReduceOp::name, double>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) rows_together<ReduceOp::name, float>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) rows_together<ReduceOp::name, double>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) each_narrow_row<ReduceOp::name, Half>,
    {{GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) each_narrow_row<ReduceOp::name, BFloat>,
     {GLUINO_REDUCE_OPS(GLUINO_X)}},
#undef GLUINO_X
#define GLUINO_X(name) narrow_rows_together<ReduceOp::name, Half>,
    {{GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) narrow_rows_together<ReduceOp::name, BFloat>,
     {GLUINO_REDUCE_OPS(GLUINO_X)}},
#undef GLUINO_X
#define GLUINO_X(name) each_whole_row<ReduceOp::name, int32_t>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) each_whole_row<ReduceOp::name, int64_t>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) whole_rows_together<ReduceOp::name, int32_t>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) whole_rows_together<ReduceOp::name, int64_t>,
    {GLUINO_REDUCE_OPS(GLUINO_X)}
#undef GLUINO_X
};

}  // namespace gluino::kernels::GLUINO_ISA
