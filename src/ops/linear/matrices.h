// Batches of matrices: the last two axes of a tensor.
#pragma once
#include "ops/common.h"

namespace gluino::ops {

struct Matrices {
  int64_t batch, rows, columns;
  explicit Matrices(const Shape& s) {
    if (s.ndim() < 2) raise<ShapeError>("shape {} is not that of a matrix: at least 2 axes are needed", s);
    rows = s[s.ndim() - 2];
    columns = s[s.ndim() - 1];
    batch = s.elements(0, s.ndim() - 2);
  }
  int64_t size() const { return rows * columns; }
};
// The shape with the last two axes replaced.
inline Shape with_matrix(const Shape& s, int64_t rows, int64_t columns) {
  Shape out = s;
  out[out.ndim() - 2] = rows;
  out[out.ndim() - 1] = columns;
  return out;
}
inline Matrices square_matrices(const Shape& s) {
  const Matrices m(s);
  if (m.rows != m.columns) raise<ShapeError>("matrices of {} x {} are not square", m.rows, m.columns);
  return m;
}
inline void check_same_batch(const Shape& a, const Shape& b) {
  bool same = a.ndim() == b.ndim();
  for (int i = 0; same && i + 2 < a.ndim(); ++i) same = a[i] == b[i];
  if (!same) raise<ShapeError>("shapes {} and {} hold different batches of matrices", a, b);
}
// For kernels restricted to float32 and float64.
inline std::vector<DType> float_dtypes() { return {DType::float32, DType::float64}; }
template <class F>
void visit_float(DType dtype, F&& f) {
  if (dtype == DType::float32)
    f(static_cast<float*>(nullptr));
  else
    f(static_cast<double*>(nullptr));
}

// One number per matrix, ready to broadcast against the matrices (or their diagonals, with one axis).
inline Tensor per_matrix(Tensor t, const Tensor& like, int axes) {
  if (like.ndim() == 2) return t;
  for (int i = 0; i < axes; ++i) t = call("expand_dims", {t}, {{"axis", int64_t{-1}}});
  return t;
}
inline Shape batch_shape(const Shape& s) {
  Shape out;
  for (int i = 0; i + 2 < s.ndim(); ++i) out.push_back(s[i]);
  if (out.empty()) out.push_back(1);
  return out;
}

}  // namespace gluino::ops
