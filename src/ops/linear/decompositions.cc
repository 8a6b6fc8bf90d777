// np.linalg's decompositions of batches of matrices, through LAPACK. Gradients are written with operators.
#include <cblas.h>

#include <cmath>

#include "ops/linear/lapack.h"
#include "ops/linear/matrices.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

// ---- how gradients are written
Tensor product(const Tensor& a, const Tensor& b, bool ta = false, bool tb = false) {
  return call("_linalg_gemm2", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}});
}
Tensor swapped(const Tensor& t) { return call("SwapAxis", {t}, {{"dim1", int64_t{-1}}, {"dim2", int64_t{-2}}}); }
Tensor as_row(const Tensor& vector) { return call("expand_dims", {vector}, {{"axis", int64_t{-2}}}); }
Tensor as_column(const Tensor& vector) { return call("expand_dims", {vector}, {{"axis", int64_t{-1}}}); }
Tensor on_diagonal(const Tensor& vector) { return call("_linalg_makediag", {vector}); }
Tensor times(const Tensor& a, const Tensor& b) { return call("broadcast_mul", {a, b}); }
// Unit matrices, one for each vector.
Tensor units(const Tensor& vector) { return on_diagonal(call("ones_like", {vector})); }
// 1 / (w_j - w_i), 0 on the diagonal.
Tensor inverse_distances(const Tensor& w) {
  const Tensor unit = units(w);
  return (1 - unit) / (call("broadcast_sub", {as_row(w), as_column(w)}) + unit);
}

Shape vectors_of(const Shape& s, int64_t extent) {
  Shape out;
  for (int i = 0; i + 2 < s.ndim(); ++i) out.push_back(s[i]);
  out.push_back(extent);
  return out;
}

[[noreturn]] void failed(const char* what, lapack_int info) {
  raise<UserError>("{} did not succeed (LAPACK says {}); are there values that are not finite?", what, info);
}

// LAPACK's iterations do not end where there is an infinity.
template <class T>
void check_finite(const T* matrix, int64_t elements, int64_t number) {
  if (!std::all_of(matrix, matrix + elements, [](T x) { return std::isfinite(x); }))
    raise<UserError>("matrix {} has elements that are not finite", number);
}

template <class T>
void svd(KernelContext& k) {
  const Matrices m(k.in(0).shape());
  const int64_t rank = std::min(m.rows, m.columns);
  std::vector<T> copy(m.size());
  for (int64_t i = 0; i < m.batch; ++i) {
    std::copy_n(k.data<T>(0) + i * m.size(), m.size(), copy.data());
    check_finite(copy.data(), m.size(), i);
    const lapack_int info =
        LAPACK(gesdd, LAPACK_ROW_MAJOR, 'S', as_int(m.rows), as_int(m.columns), copy.data(), as_int(m.columns), k.out_data<T>(1) + i * rank,
               k.out_data<T>(0) + i * m.rows * rank, as_int(rank), k.out_data<T>(2) + i * rank * m.columns, as_int(m.columns));
    if (info != 0) failed("the singular value decomposition", info);
  }
}

GLUINO_OP(_npi_svd, NoAttrs) {
  op.doc("Singular values L and vectors of A = UT * diag(L) * V, without the vectors that do not matter.")
      .input("A")
      .outputs({"UT", "L", "V"})
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) -> std::vector<Shape> {
        const Matrices m(in[0]);
        const int64_t rank = std::min(m.rows, m.columns);
        return {with_matrix(in[0], m.rows, rank), vectors_of(in[0], rank), with_matrix(in[0], rank, m.columns)};
      })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) { visit_float(k.in(0).dtype(), [&]<class T>(T*) { svd<T>(k); }); })
      .gradient({.inputs = {}, .outputs = {0, 1, 2}},
                [](const Gradient& g) -> Tensors {
                  const Tensor &u = g.out(0), &l = g.out(1), &v = g.out(2);
                  const Tensor f = inverse_distances(l * l);
                  const Tensor ug = product(u, g.head(0), true), vg = product(v, g.head(2), false, true);
                  const Tensor inner =
                      times(f * (ug - swapped(ug)), as_row(l)) + times(f * (vg - swapped(vg)), as_column(l)) + on_diagonal(g.head(1));
                  const Tensor by = 1 / l;
                  // What lies outside of the spaces of the vectors; nothing for square matrices.
                  const Tensor left = times(g.head(0) - product(u, ug), as_row(by));
                  const Tensor right = times(g.head(2) - product(vg, v, true), as_column(by));
                  return {product(product(u, inner) + left, v) + product(u, right)};
                })
      .sample_without_gradient({{2, 3, 4}})
      .sample_without_gradient({{4, 3}});
}

// ---- systems of equations
// Row-major A is column-major A^T = P L U, so that X^T (P L U) = B^T is solved from the right and nothing is transposed. `pivots` are
// LAPACK's.
template <class T>
void factorise(const T* a, int64_t n, int64_t number, T* factors, lapack_int* pivots) {
  std::copy_n(a, n * n, factors);
  const lapack_int info = LAPACK(getrf, LAPACK_COL_MAJOR, as_int(n), as_int(n), factors, as_int(n), pivots);
  if (info > 0) raise<UserError>("matrix {} is singular: the equations have no single solution", number);
  if (info != 0) failed("solving the equations", info);
}
// B of n x m becomes X with A * X = B, or A^T * X = B.
template <class T>
void solve_factored(const T* factors, const lapack_int* pivots, bool transpose, int64_t n, int64_t m, T* b) {
  const auto divide_by = [&](CBLAS_UPLO triangle) {
    const NoForkScope no_fork;
    const auto run = [&](auto function) {
      function(CblasColMajor, CblasRight, triangle, transpose ? CblasTrans : CblasNoTrans,
               triangle == CblasUpper ? CblasNonUnit : CblasUnit, as_int(m), as_int(n), T(1), factors, as_int(n), b, as_int(m));
    };
    if constexpr (std::is_same_v<T, float>)
      run(cblas_strsm);
    else
      run(cblas_dtrsm);
  };
  const auto swap_rows = [&](int64_t i) {
    if (pivots[i] != i + 1) std::swap_ranges(b + i * m, b + (i + 1) * m, b + (pivots[i] - 1) * m);
  };
  if (transpose) {
    for (int64_t i = 0; i < n; ++i) swap_rows(i);
    divide_by(CblasLower);
    divide_by(CblasUpper);
  } else {
    divide_by(CblasUpper);
    divide_by(CblasLower);
    for (int64_t i = n; i-- > 0;) swap_rows(i);
  }
}

Shape solution_shape(const Shape& a, const Shape& b) {
  const Matrices left = square_matrices(a), right(b);
  check_same_batch(a, b);
  if (left.rows != right.rows) raise<ShapeError>("shapes {} and {}: A has {} rows and B has {}", a, b, left.rows, right.rows);
  return b;
}

struct TransposeAttrs {
  bool transpose = false;
  static void fields(AttrFields<TransposeAttrs>& f) { f.field("transpose", &TransposeAttrs::transpose, "solve A^T * X = B instead"); }
};
// dB = A^-T dX, dA = -dB X^T; for A^T on the left A^-1 dX, -X dB^T.
Tensors solution_gradient(bool transpose, const Tensor& a, const Tensor& factors, const Tensor& pivots, const Tensor& x,
                          const Tensor& head) {
  const Tensor b = call("_solve_factored", {a, factors, pivots, head}, {{"transpose", !transpose}});
  return {-(transpose ? product(x, b, false, true) : product(b, x, false, true)), b};
}
GLUINO_OP(_solve_factored, TransposeAttrs) {
  op.doc("X with A * X = B, from the factors of A that _npi_solve found.")
      .input("A")
      .shape_only()
      .input("factors")
      .own_dtype()
      .input("pivots")
      .own_dtype()
      .input("B")
      .outputs({"X"})
      .kernel_dtypes(float_dtypes())
      .shape([](const TransposeAttrs&, std::span<const Shape> in) {
        if (!(in[1] == in[0])) raise<ShapeError>("factors of shape {} are not those of matrices of shape {}", in[1], in[0]);
        check_same_shape("pivots", in[2], vectors_of(in[0], square_matrices(in[0]).rows));
        return solution_shape(in[0], in[3]);
      })
      .kernel([](const TransposeAttrs& a, KernelContext& k) {
        const Matrices m(k.in(1).shape()), b(k.out().shape());
        const Tensor factors = with_dtype(k.in(1), k.out().dtype()), pivots = with_dtype(k.in(2), DType::int32);
        for (int64_t i = 0; i < pivots.size(); ++i)
          if (const int32_t p = pivots.data<int32_t>()[i]; p < 1 || p > m.rows) raise<IndexError>("{} is not a row of {}", p, m.rows);
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          std::copy_n(k.data<T>(3), k.out().size(), k.out_data<T>());
          for (int64_t i = 0; i < m.batch && b.size(); ++i)
            solve_factored(factors.data<T>() + i * m.size(), pivots.data<int32_t>() + i * m.rows, a.transpose, m.rows, b.columns,
                           k.out_data<T>() + i * b.size());
        });
      })
      .refuses_values()
      .gradient({.inputs = {0, 1, 2}, .outputs = {0}},
                [](const TransposeAttrs& a, const Gradient& g) -> Tensors {
                  const Tensors found = solution_gradient(a.transpose, g.in(0), g.in(1), g.in(2), g.out(0), g.head());
                  return {found[0], Tensor(), Tensor(), found[1]};
                })
      // The factors are given as if they did not depend on A.
      .sample_without_gradient({{2, 1, 1}, uniform_sample({2, 1, 1}, 0.5, 2), SampleInput({2, 1}, 1, 2, true), {2, 1, 3}})
      .sample_without_gradient({{1, 1}, uniform_sample({1, 1}, 0.5, 2), SampleInput({1}, 1, 2, true), {1, 2}}, {.transpose = true});
}

GLUINO_OP(_npi_solve, NoAttrs) {
  op.doc("X with A * X = B.")
      .input("A")
      .input("B")
      .outputs({"X", "factors", "pivots"})
      .hidden_outputs(2)
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) -> std::vector<Shape> {
        return {solution_shape(in[0], in[1]), in[0], vectors_of(in[0], square_matrices(in[0]).rows)};
      })
      .dtype([](const NoAttrs&, std::span<const DType>, DType promoted) {
        return std::vector<DType>{promoted, promoted == DType::float64 ? promoted : DType::float32, DType::int32};
      })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Matrices a(k.in(0).shape()), b(k.in(1).shape());
        visit_float(k.in(0).dtype(), [&]<class T>(T*) {
          std::copy_n(k.data<T>(1), k.out().size(), k.out_data<T>());
          for (int64_t i = 0; i < a.batch && a.size(); ++i) {
            T* factors = k.out_data<T>(1) + i * a.size();
            int32_t* pivots = k.out_data<int32_t>(2) + i * a.rows;
            factorise(k.data<T>(0) + i * a.size(), a.rows, i, factors, pivots);
            if (b.size()) solve_factored(factors, pivots, false, a.rows, b.columns, k.out_data<T>() + i * b.size());
          }
        });
      })
      .gradient({.inputs = {0}, .outputs = {0, 1, 2}},
                [](const Gradient& g) { return solution_gradient(false, g.in(0), g.out(1), g.out(2), g.out(0), g.head()); })
      .sample({uniform_sample({2, 3, 3}, 0.1, 1), {2, 3, 2}});
}

struct SymmetricAttrs {
  std::string UPLO = "L";
  static void fields(AttrFields<SymmetricAttrs>& f) { f.field("UPLO", &SymmetricAttrs::UPLO, "the triangle that is read: L or U"); }
};

char triangle_of(const SymmetricAttrs& a) {
  if (a.UPLO != "L" && a.UPLO != "U") raise<AttrError>("attribute 'UPLO' is L (the lower triangle) or U (the upper), not '{}'", a.UPLO);
  return a.UPLO[0];
}

template <class T>
void eigh(const SymmetricAttrs& attrs, KernelContext& k, T* vectors, T* values) {
  const Matrices m = square_matrices(k.in(0).shape());
  std::copy_n(k.data<T>(0), m.batch * m.size(), vectors);
  for (int64_t i = 0; i < m.batch; ++i) {
    check_finite(vectors + i * m.size(), m.size(), i);
    const lapack_int info = LAPACK(syevd, LAPACK_ROW_MAJOR, 'V', triangle_of(attrs), as_int(m.rows), vectors + i * m.size(), as_int(m.rows),
                                   values + i * m.rows);
    if (info != 0) failed("the decomposition", info);
  }
}

GLUINO_OP(_npi_eigh, SymmetricAttrs) {
  op.doc("Eigenvalues, in ascending order, and eigenvectors, as columns, of symmetric matrices.")
      .input("A")
      .outputs({"w", "v"})
      .kernel_dtypes(float_dtypes())
      .shape([](const SymmetricAttrs& a, std::span<const Shape> in) -> std::vector<Shape> {
        triangle_of(a);
        return {vectors_of(in[0], square_matrices(in[0]).rows), in[0]};
      })
      .refuses_values()
      .kernel([](const SymmetricAttrs& a, KernelContext& k) {
        visit_float(k.in(0).dtype(), [&]<class T>(T*) { eigh<T>(a, k, k.out_data<T>(1), k.out_data<T>(0)); });
      })
      .gradient({.inputs = {}, .outputs = {0, 1}},
                [](const Gradient& g) -> Tensors {
                  const Tensor& v = g.out(1);
                  const Tensor inner = inverse_distances(g.out(0)) * product(v, g.head(1), true) + on_diagonal(g.head(0));
                  const Tensor whole = product(product(v, inner), v, false, true);
                  return {(whole + swapped(whole)) * 0.5};
                })
      .sample_without_gradient({{2, 3, 3}})
      .sample_without_gradient({{3, 3}}, {.UPLO = "U"});
}

GLUINO_OP(_npi_eigvalsh, SymmetricAttrs) {
  op.doc("Eigenvalues of symmetric matrices, in ascending order.")
      .input("A")
      .outputs({"w"})
      .kernel_dtypes(float_dtypes())
      .shape([](const SymmetricAttrs& a, std::span<const Shape> in) -> Shape {
        triangle_of(a);
        return vectors_of(in[0], square_matrices(in[0]).rows);
      })
      .refuses_values()
      .kernel([](const SymmetricAttrs& a, KernelContext& k) {
        visit_float(k.in(0).dtype(), [&]<class T>(T*) {
          std::vector<T> vectors(k.in(0).size());
          eigh<T>(a, k, vectors.data(), k.out_data<T>());
        });
      })
      .gradient({.inputs = {0}},
                [](const SymmetricAttrs& a, const Gradient& g) -> Tensors {
                  const Tensors found = call_all("_npi_eigh", std::span<const Tensor>(&g.in(0), 1), {{"UPLO", a.UPLO}});
                  return {product(times(found[1], as_row(g.head())), found[1], false, true)};
                })
      .sample_without_gradient({{2, 3, 3}});
}

template <class T>
void eig(KernelContext& k, T* values, T* vectors) {
  const Matrices m = square_matrices(k.in(0).shape());
  std::vector<T> copy(m.size()), imaginary(m.rows);
  for (int64_t i = 0; i < m.batch; ++i) {
    std::copy_n(k.data<T>(0) + i * m.size(), m.size(), copy.data());
    check_finite(copy.data(), m.size(), i);
    const lapack_int info =
        LAPACK(geev, LAPACK_ROW_MAJOR, 'N', vectors ? 'V' : 'N', as_int(m.rows), copy.data(), as_int(m.rows), values + i * m.rows,
               imaginary.data(), nullptr, as_int(m.rows), vectors ? vectors + i * m.size() : nullptr, as_int(m.rows));
    if (info != 0) failed("the decomposition", info);
    for (T part : imaginary)
      if (part != 0) raise<UserError>("matrix {} has complex eigenvalues; only real ones can be given", i);
  }
}

GLUINO_OP(_npi_eig, NoAttrs) {
  op.doc("Eigenvalues and eigenvectors, as columns, of matrices whose eigenvalues are real.")
      .input("A")
      .outputs({"w", "v"})
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) -> std::vector<Shape> {
        return {vectors_of(in[0], square_matrices(in[0]).rows), in[0]};
      })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        visit_float(k.in(0).dtype(), [&]<class T>(T*) { eig<T>(k, k.out_data<T>(0), k.out_data<T>(1)); });
      })
      .not_differentiable("eigenvalues of general matrices may be complex nearby")
      .sample({{1, 1}});
}

GLUINO_OP(_npi_eigvals, NoAttrs) {
  op.doc("Eigenvalues of matrices whose eigenvalues are real.")
      .input("A")
      .outputs({"w"})
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) -> Shape { return vectors_of(in[0], square_matrices(in[0]).rows); })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        visit_float(k.in(0).dtype(), [&]<class T>(T*) { eig<T>(k, k.out_data<T>(0), static_cast<T*>(nullptr)); });
      })
      .not_differentiable("eigenvalues of general matrices may be complex nearby")
      .sample({{1, 1}});
}

}  // namespace
}  // namespace gluino::ops
