// What softmax, the norms and LSTM cells do to one row of neighbouring elements, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

template <class T>
struct RowFunctions {
  // x = softmax(x * scale), or its logarithm. `exps` has room for n elements.
  void (*softmax)(T* x, int64_t n, T scale, bool logarithm, T* exps);
  void (*moments)(const T* x, int64_t n, T* mean, T* variance);
  // out = (x - mean) * factor * gamma + beta, with one gamma and beta per element.
  void (*normalise)(const T* x, int64_t n, T mean, T factor, const T* gamma, const T* beta, T* out);
  // One step of an LSTM with n states: `gates` holds the sums of i, f, g and o, n each, and becomes their activations.
  void (*lstm)(int64_t n, T* gates, const T* cell_before, T* hidden, T* cell);
};
// How many rows of so many elements are worth a thread.
inline int64_t row_grain(int64_t extent) { return 8192 / (extent > 1 ? extent : 1) + 1; }

struct RowTable {
  RowFunctions<float> f32;
  RowFunctions<double> f64;
};
const RowTable& row_table();

template <class T>
const RowFunctions<T>& row_functions() {
  if constexpr (sizeof(T) == 4)
    return row_table().f32;
  else
    return row_table().f64;
}

}  // namespace gluino::kernels
