// What softmax, the norms and LSTM cells do to one row of neighbouring elements, one table per instruction set.
#pragma once
#include <cstdint>

namespace gluino::kernels {

constexpr int64_t kMostColumns = 128;

template <class T>
struct RowFunctions {
  // x = softmax(x * scale), or its logarithm. `exps` has room for n elements.
  void (*softmax)(T* x, int64_t n, T scale, bool logarithm, T* exps);
  // From head and result y; out may be one of them.
  void (*softmax_grad)(const T* head, const T* y, int64_t n, T scale, bool logarithm, T* out);
  // The same for n <= kMostColumns rows side by side, whose elements are `step` apart; sums are taken in blocks, in the order of the
  // elements.
  void (*softmax_columns)(const T* x, int64_t extent, int64_t step, int64_t n, T scale, bool logarithm, T* out);
  void (*softmax_grad_columns)(const T* head, const T* y, int64_t extent, int64_t step, int64_t n, T scale, bool logarithm, T* out);
  void (*moments)(const T* x, int64_t n, T* mean, T* variance);
  // With one gamma and beta per element; gives the row's mean and standard deviation, too.
  void (*layer_norm)(const T* x, int64_t n, T eps, const T* gamma, const T* beta, T* out, T* mean, T* deviation);
  // out for the data, which may be head or x; what the row adds to the gradients of gamma and beta is added to gamma_sum and beta_sum.
  void (*layer_norm_grad)(const T* head, const T* x, int64_t n, const T* gamma, T mean, T deviation, T* out, T* gamma_sum, T* beta_sum);
  // One step of an LSTM with n states: `gates` holds the sums of i, f, g and o, n each, and becomes their activations.
  void (*lstm)(int64_t n, T* gates, const T* cell_before, T* hidden, T* cell);
};
// How many rows of so many elements are worth a thread.
inline int64_t row_grain(int64_t extent) { return 8192 / (extent > 1 ? extent : 1) + 1; }
// Sums over rows are taken in a number of parts that only depends on the number of rows; then the parts are added in order.
struct RowParts {
  int64_t rows, count;
  explicit RowParts(int64_t all) : rows(all), count(all / 8 < 1 ? 1 : all / 8 > 16 ? 16 : all / 8) {}
  int64_t begin(int64_t part) const { return rows * part / count; }
  int64_t end(int64_t part) const { return begin(part + 1); }
  int64_t grain(int64_t extent) const { return row_grain(extent * (rows / count + 1)); }
  // out[i] = the sum of sums[p * step + i] over the parts p.
  template <class T>
  void add(const T* sums, int64_t step, int64_t n, T* out) const {
    for (int64_t i = 0; i < n; ++i) out[i] = 0;
    for (int64_t p = 0; p < count; ++p)
      for (int64_t i = 0; i < n; ++i) out[i] += sums[p * step + i];
  }
};

struct RowTable {
  RowFunctions<float> f32;
  RowFunctions<double> f64;
};
const RowTable& row_table();

// The functions for T in a table that has those for both real types.
template <class T, class Table>
const auto& functions_for(const Table& table) {
  if constexpr (sizeof(T) == 4)
    return table.f32;
  else
    return table.f64;
}
template <class T>
const RowFunctions<T>& row_functions() {
  return functions_for<T>(row_table());
}

}  // namespace gluino::kernels
