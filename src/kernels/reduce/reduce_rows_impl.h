// Included by reduce_rows_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set; GLUINO_ISA names the namespace.
// The number of lanes and the order of additions are fixed, so every instruction set gives the same result.
#include <stdint.h>

#include "kernels/isa/wide_vectors.h"
#include "kernels/reduce/reduce_rows.h"
#include "program/reduce_formulas.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

template <ReduceOp op, class T>
double row(const T* x, int64_t n, double total) {
  constexpr bool wide = is_carried_wide(op);
  constexpr int64_t lanes = kLanes<T>;
  int64_t i = 0;
  while (!wide && n - i >= lanes) {
    const int64_t end = i + (n - i < kReduceBlock ? (n - i) / lanes * lanes : kReduceBlock);
    Vector<T> sums[kVectors];
    for (int v = 0; v < kVectors; ++v) sums[v] = map<op>(load<Vector<T>>(x + i + v * kWidth<T>));
    for (i += lanes; i < end; i += lanes)
      for (int v = 0; v < kVectors; ++v) sums[v] = combine<op>(sums[v], map<op>(load<Vector<T>>(x + i + v * kWidth<T>)));
    T each[lanes];
    __builtin_memcpy(each, &sums, sizeof(sums));
    const T all = halved<lanes>(each, [](const auto& a, const auto& b) { return combine<op>(a, b); });
    total = combine<op>(total, static_cast<double>(all));
  }
  for (; i < n; ++i) total = combine<op>(total, map<op>(static_cast<double>(x[i])));
  return total;
}

template <ReduceOp op, class T>
void rows(const T* x, int64_t n, double* acc) {
  constexpr int width = static_cast<int>(kWidth<double>);
  typedef T Narrow __attribute__((vector_size(width * sizeof(T))));
  int64_t i = 0;
  for (; i + width <= n; i += width) {
    const Vector<double> v =
        combine<op>(load<Vector<double>>(acc + i), map<op>(__builtin_convertvector(load<Narrow>(x + i), Vector<double>)));
    __builtin_memcpy(acc + i, &v, sizeof(v));
  }
  for (; i < n; ++i) acc[i] = combine<op>(acc[i], map<op>(static_cast<double>(x[i])));
}

}  // namespace

extern const ReduceTable kReduceTable;
const ReduceTable kReduceTable = {
#define GLUINO_X(name) row<ReduceOp::name, float>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) row<ReduceOp::name, double>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) rows<ReduceOp::name, float>,
    {GLUINO_REDUCE_OPS(GLUINO_X)},
#undef GLUINO_X
#define GLUINO_X(name) rows<ReduceOp::name, double>,
    {GLUINO_REDUCE_OPS(GLUINO_X)}
#undef GLUINO_X
};

}  // namespace gluino::kernels::GLUINO_ISA
