// Linear algebra on batches of matrices through LAPACK. Gradients are written with operators.
#include <cblas.h>

#include <cmath>

#include "base/parallel.h"
#include "ops/linear/lapack.h"
#include "ops/linear/matrices.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

// ---- how gradients are written
static Tensor swapped(const Tensor& t) { return call("SwapAxis", {t}, {{"dim1", int64_t{-1}}, {"dim2", int64_t{-2}}}); }
static Tensor product(const Tensor& a, const Tensor& b, bool ta = false, bool tb = false, double alpha = 1) {
  return call("_linalg_gemm2", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}, {"alpha", alpha}});
}
static Tensor triangle(const Tensor& t, bool lower, int k = 0) { return call("_triangle", {t}, {{"lower", lower}, {"k", int64_t{k}}}); }
// The symmetric matrix that has the lower triangle of t.
static Tensor mirror_lower(const Tensor& t) { return triangle(t, true) + swapped(triangle(t, true, -1)); }
static Tensor solve(const Tensor& a, const Tensor& b, bool transpose, bool rightside, bool lower = true, double alpha = 1) {
  return call("_linalg_trsm", {a, b}, {{"transpose", transpose}, {"rightside", rightside}, {"lower", lower}, {"alpha", alpha}});
}

struct TriangleAttrs {
  bool lower = true;
  int k = 0;
  static void fields(AttrFields<TriangleAttrs>& f) {
    f.field("lower", &TriangleAttrs::lower, "keep the lower triangle, else the upper")
        .field("k", &TriangleAttrs::k, "the last diagonal to keep");
  }
};
GLUINO_OP(_triangle, TriangleAttrs) {
  op.doc("A triangle of each matrix, zeros elsewhere.")
      .input("data")
      .kernel_dtypes(float_dtypes())
      .same_shape()
      .shape([](const TriangleAttrs&, std::span<const Shape> in) { return Matrices(in[0]), in[0]; })
      .kernel([](const TriangleAttrs& a, KernelContext& k) {
        const Matrices m(k.out().shape());
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          const T* from = k.data<T>(0);
          T* to = k.out_data<T>();
          parallel_for(m.batch * m.rows, std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(1, m.columns)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           const T* row = from + i * m.columns;
                           T* out = to + i * m.columns;
                           // Columns before `edge` are kept of the lower triangle, those from it on of the upper one.
                           const int64_t edge = std::clamp<int64_t>(i % m.rows + a.k + (a.lower ? 1 : 0), 0, m.columns);
                           std::copy(row + (a.lower ? 0 : edge), row + (a.lower ? edge : m.columns), out + (a.lower ? 0 : edge));
                           std::fill(out + (a.lower ? edge : 0), out + (a.lower ? m.columns : edge), T(0));
                         }
                       });
        });
      })
      .gradient({}, [](const TriangleAttrs& a, const Gradient& g) -> Tensors { return {triangle(g.head(), a.lower, a.k)}; })
      .sample({{2, 3, 4}})
      .sample({{3, 3}}, {.lower = false, .k = 1});
}

// ---- Cholesky
struct CholeskyAttrs {
  bool lower = true;
  static void fields(AttrFields<CholeskyAttrs>& f) {
    f.field("lower", &CholeskyAttrs::lower, "whether the triangular matrix is the lower one");
  }
};
// Row-major lower is column-major upper.
static char uplo(bool lower) { return lower ? 'U' : 'L'; }
static Shape square_shape(std::span<const Shape> in) { return square_matrices(in[0]), in[0]; }
template <class T>
static void clear_triangle(T* a, int64_t n, bool lower_stays) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      if (lower_stays ? j > i : j < i) a[i * n + j] = 0;
}
// f(number, matrix, result) for each matrix of the first input, in the kernel's dtype.
template <class F>
static void for_each_matrix(KernelContext& k, const Matrices& m, F f) {
  visit_float(k.in(0).dtype(), [&]<class T>(T*) {
    for (int64_t b = 0; b < m.batch && m.rows; ++b) f(b, k.data<T>(0) + b * m.size(), k.out_data<T>() + b * m.size());
  });
}
// (A + A^T) / 2: the functions of symmetric matrices read both triangles, so that their gradients are symmetric too.
template <class T>
static void symmetrise(const T* in, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) out[i * n + j] = (in[i * n + j] + in[j * n + i]) / 2;
}
GLUINO_OP(_linalg_potrf, CholeskyAttrs) {
  op.doc("Cholesky factor: the triangular L with A = L * L^T (or the upper U with A = U^T * U).")
      .alias("linalg_potrf")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const CholeskyAttrs&, std::span<const Shape> in) { return square_shape(in); })
      .refuses_values()
      .kernel([](const CholeskyAttrs& a, KernelContext& k) {
        const Matrices m(k.out().shape());
        for_each_matrix(k, m, [&]<class T>(int64_t b, const T* matrix, T* out) {
          symmetrise(matrix, out, m.rows);
          if (LAPACK(potrf, LAPACK_COL_MAJOR, uplo(a.lower), as_int(m.rows), out, as_int(m.rows)) != 0)
            raise<UserError>("matrix {} is not positive definite", b);
          clear_triangle(out, m.rows, a.lower);
        });
      })
      // dA = L^-T sym(L^T dL) L^-1 / 2, where sym mirrors the lower triangle (Murray, arXiv:1602.07527).
      .gradient({{}, {0}},
                [](const CholeskyAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor l = a.lower ? g.out(0) : swapped(g.out(0)), head = a.lower ? g.head() : swapped(g.head());
                  return {solve(l, solve(l, mirror_lower(product(l, head, true)), false, true), true, false, true, 0.5)};
                })
      .sample({uniform_sample({2, 1, 1}, 0.5, 2)})
      .sample({uniform_sample({1, 1}, 0.5, 2)}, {.lower = false});
}
GLUINO_OP(_linalg_potri, CholeskyAttrs) {
  op.doc("The inverse of A, from its Cholesky factor.")
      .alias("linalg_potri")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const CholeskyAttrs&, std::span<const Shape> in) { return square_shape(in); })
      .refuses_values()
      .kernel([](const CholeskyAttrs& a, KernelContext& k) {
        const Matrices m(k.out().shape());
        for_each_matrix(k, m, [&]<class T>(int64_t b, const T* matrix, T* out) {
          std::copy_n(matrix, m.size(), out);
          if (LAPACK(potri, LAPACK_COL_MAJOR, uplo(a.lower), as_int(m.rows), out, as_int(m.rows)) != 0)
            raise<UserError>("matrix {} is singular", b);
          for (int64_t i = 0; i < m.rows; ++i)
            for (int64_t j = 0; j < i; ++j)
              (a.lower ? out[j * m.rows + i] : out[i * m.rows + j]) = a.lower ? out[i * m.rows + j] : out[j * m.rows + i];
        });
      })
      // B = (L L^T)^-1: dL = -tril(B (dB + dB^T) L^-T)
      .gradient({{0}, {0}},
                [](const CholeskyAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor l = a.lower ? g.in(0) : swapped(g.in(0));
                  const Tensor d = triangle(-solve(triangle(l, true), product(g.out(0), g.head() + swapped(g.head())), true, true), true);
                  return {a.lower ? d : swapped(d)};
                })
      .sample({uniform_sample({2, 2, 2}, 0.7, 2)})
      .sample({uniform_sample({3, 3}, 0.7, 2)}, {.lower = false});
}

// ---- triangular products and systems
struct TriangularAttrs {
  bool transpose = false, rightside = false, lower = true;
  double alpha = 1;
  static void fields(AttrFields<TriangularAttrs>& f) {
    f.field("transpose", &TriangularAttrs::transpose, "use the transposed triangular matrix")
        .field("rightside", &TriangularAttrs::rightside, "the triangular matrix stands on the right")
        .field("lower", &TriangularAttrs::lower, "whether the triangular matrix is the lower one")
        .field("alpha", &TriangularAttrs::alpha, "factor of the result");
  }
};
static Shape triangular_shape(const TriangularAttrs& a, std::span<const Shape> in) {
  check_same_batch(in[0], in[1]);
  const Matrices t = square_matrices(in[0]), b(in[1]);
  if (t.rows != (a.rightside ? b.columns : b.rows)) raise<ShapeError>("a triangular matrix of shape {} does not fit {}", in[0], in[1]);
  return in[1];
}
template <bool kSolve>
static void run_triangular(const TriangularAttrs& a, KernelContext& k) {
  const Matrices t(k.in(0).shape()), m(k.out().shape());
  if (k.out().size() == 0) return;
  const auto side = a.rightside ? CblasRight : CblasLeft;
  const auto up = a.lower ? CblasLower : CblasUpper;
  const auto trans = a.transpose ? CblasTrans : CblasNoTrans;
  visit_float(k.out().dtype(), [&]<class T>(T*) {
    std::copy_n(k.data<T>(1), k.out().size(), k.out_data<T>());
    for (int64_t b = 0; b < m.batch; ++b) {
      const T* x = k.data<T>(0) + b * t.size();
      T* y = k.out_data<T>() + b * m.size();
      auto run = [&](auto function) {
        const NoForkScope no_fork;
        function(CblasRowMajor, side, up, trans, CblasNonUnit, as_int(m.rows), as_int(m.columns), static_cast<T>(a.alpha), x,
                 as_int(t.rows), y, as_int(m.columns));
      };
      if constexpr (std::is_same_v<T, float>)
        run(kSolve ? cblas_strsm : cblas_strmm);
      else
        run(kSolve ? cblas_dtrsm : cblas_dtrmm);
    }
  });
}
static Tensor triangular(std::string_view name, const TriangularAttrs& a, const Tensor& t, const Tensor& b, bool transpose, double alpha) {
  return call(name, {t, b}, {{"transpose", transpose}, {"rightside", a.rightside}, {"lower", a.lower}, {"alpha", alpha}});
}
GLUINO_OP(_linalg_trmm, TriangularAttrs) {
  op.doc("alpha * A * B with a triangular A.")
      .alias("linalg_trmm")
      .input("A")
      .input("B")
      .kernel_dtypes(float_dtypes())
      .shape(triangular_shape)
      .kernel(run_triangular<false>)
      .gradient({{0, 1}, {}},
                [](const TriangularAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor &h = g.head(), &b = g.in(1);
                  const Tensor da = a.rightside ? (a.transpose ? product(h, b, true, false, a.alpha) : product(b, h, true, false, a.alpha))
                                                : (a.transpose ? product(b, h, false, true, a.alpha) : product(h, b, false, true, a.alpha));
                  return {triangle(da, a.lower), triangular("_linalg_trmm", a, g.in(0), h, !a.transpose, a.alpha)};
                })
      .sample({{2, 3, 3}, {2, 3, 4}})
      .sample({{3, 3}, {4, 3}}, {.transpose = true, .rightside = true, .lower = false, .alpha = 0.5})
      .sample({{3, 3}, {4, 3}}, {.rightside = true})
      .sample({{3, 3}, {3, 2}}, {.transpose = true});
}
GLUINO_OP(_linalg_trsm, TriangularAttrs) {
  op.doc("The X with A * X = alpha * B, for a triangular A.")
      .alias("linalg_trsm")
      .input("A")
      .input("B")
      .kernel_dtypes(float_dtypes())
      .shape(triangular_shape)
      .kernel(run_triangular<true>)
      // With G the gradient of B (before alpha): dA = -G X^T, or its mirror image for the other sides.
      .gradient({{0}, {0}},
                [](const TriangularAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor grad = triangular("_linalg_trsm", a, g.in(0), g.head(), !a.transpose, 1);
                  const Tensor& x = g.out(0);
                  const Tensor da = a.rightside ? (a.transpose ? product(grad, x, true, false, -1) : product(x, grad, true, false, -1))
                                                : (a.transpose ? product(x, grad, false, true, -1) : product(grad, x, false, true, -1));
                  return {triangle(da, a.lower), grad * a.alpha};
                })
      .sample({uniform_sample({2, 3, 3}, 0.7, 2), {2, 3, 4}})
      .sample({uniform_sample({3, 3}, 0.7, 2), {4, 3}}, {.transpose = true, .rightside = true, .lower = false, .alpha = 0.5})
      .sample({uniform_sample({3, 3}, 0.7, 2), {4, 3}}, {.rightside = true})
      .sample({uniform_sample({3, 3}, 0.7, 2), {3, 2}}, {.transpose = true});
}

// ---- LQ and symmetric eigenvalues
GLUINO_OP(_linalg_gelqf, NoAttrs) {
  op.doc("LQ factors of A = L * Q, where Q has orthonormal rows.")
      .alias("linalg_gelqf")
      .input("A")
      .outputs({"Q", "L"})
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        const Matrices m(in[0]);
        if (m.rows > m.columns) raise<ShapeError>("matrices of {} x {} have more rows than columns", m.rows, m.columns);
        return std::vector<Shape>{in[0], with_matrix(in[0], m.rows, m.rows)};
      })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Matrices m(k.in(0).shape());
        visit_float(k.in(0).dtype(), [&]<class T>(T*) {
          std::vector<T> tau(m.rows);
          for (int64_t b = 0; b < m.batch && m.size(); ++b) {
            T *q = k.out_data<T>(0) + b * m.size(), *l = k.out_data<T>(1) + b * m.rows * m.rows;
            std::copy_n(k.data<T>(0) + b * m.size(), m.size(), q);
            // Row-major LQ is column-major QR of the same memory.
            LAPACK(geqrf, LAPACK_COL_MAJOR, as_int(m.columns), as_int(m.rows), q, as_int(m.columns), tau.data());
            for (int64_t i = 0; i < m.rows; ++i)
              for (int64_t j = 0; j < m.rows; ++j) l[i * m.rows + j] = j <= i ? q[i * m.columns + j] : T(0);
            LAPACK(orgqr, LAPACK_COL_MAJOR, as_int(m.columns), as_int(m.rows), as_int(m.rows), q, as_int(m.columns), tau.data());
          }
        });
      })
      // dA = L^-T (dQ + sym(M) Q) with M = L^T dL - dQ Q^T, where sym mirrors the lower triangle (Seeger et al., arXiv:1710.08717).
      .gradient({{}, {0, 1}},
                [](const Gradient& g) -> Tensors {
                  const Tensor &q = g.out(0), &l = g.out(1);
                  const Tensor m = product(l, g.head(1), true) - product(g.head(0), q, false, true);
                  return {solve(l, g.head(0) + product(mirror_lower(m), q), true, false)};
                })
      .sample({{2, 2, 3}})
      .sample({{3, 3}});
}
GLUINO_OP(_linalg_syevd, NoAttrs) {
  op.doc("Eigenvectors (rows of U) and eigenvalues L of symmetric matrices: A = U^T * diag(L) * U.")
      .alias("linalg_syevd")
      .input("A")
      .outputs({"U", "L"})
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        square_matrices(in[0]);
        Shape values = in[0];
        values.erase(values.ndim() - 1);
        return std::vector<Shape>{in[0], values};
      })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Matrices m(k.in(0).shape());
        visit_float(k.in(0).dtype(), [&]<class T>(T*) {
          for (int64_t b = 0; b < m.batch && m.rows; ++b) {
            T* u = k.out_data<T>(0) + b * m.size();
            symmetrise(k.data<T>(0) + b * m.size(), u, m.rows);
            if (LAPACK(syevd, LAPACK_COL_MAJOR, 'V', 'U', as_int(m.rows), u, as_int(m.rows), k.out_data<T>(1) + b * m.rows) != 0)
              raise<UserError>("the eigenvalues of matrix {} do not converge", b);
            // An eigenvector is defined up to its sign: its largest component is made positive.
            for (int64_t i = 0; i < m.rows; ++i) {
              T* row = u + i * m.rows;
              const T largest = *std::max_element(row, row + m.rows, [](T x, T y) { return std::abs(x) < std::abs(y); });
              for (int64_t j = 0; largest < 0 && j < m.rows; ++j) row[j] = -row[j];
            }
          }
        });
      })
      // dA = U^T (diag(dL) + sym(F * (dU U^T))) U with F_ij = 1 / (L_i - L_j) off the diagonal and 0 on it.
      .gradient({{}, {0, 1}},
                [](const Gradient& g) -> Tensors {
                  const Tensor &u = g.out(0), &l = g.out(1);
                  const Tensor columns = call("expand_dims", {l}, {{"axis", int64_t{-1}}}),
                               rows = call("expand_dims", {l}, {{"axis", int64_t{-2}}});
                  const Tensor gap = columns - rows, same = call("_linalg_makediag", {ones_like(l)});
                  const Tensor f = (1 - same) / (gap + same);
                  const Tensor inner = f * product(g.head(0), u, false, true);
                  const Tensor middle = (inner + swapped(inner)) * 0.5 + call("_linalg_makediag", {g.head(1)});
                  return {product(product(u, middle, true), u)};
                })
      .sample({{2, 3, 3}});
}

// ---- inverse and determinants
template <class T>
static std::vector<lapack_int> factorise(T* a, int64_t n) {
  std::vector<lapack_int> pivots(n);
  if (n) LAPACK(getrf, LAPACK_COL_MAJOR, as_int(n), as_int(n), a, as_int(n), pivots.data());
  return pivots;
}
// Sign and logarithm of the absolute value of the determinant.
template <class T>
static std::pair<double, double> log_determinant(const T* a, int64_t n) {
  std::vector<T> lu(a, a + n * n);
  const std::vector<lapack_int> pivots = factorise(lu.data(), n);
  double sign = 1, log = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(lu[i * n + i]);
    if (pivots[i] != i + 1) sign = -sign;
    if (d < 0) sign = -sign;
    if (d == 0) sign = 0;
    log += std::log(std::abs(d));
  }
  return {sign, log};
}
GLUINO_OP(_linalg_inverse, NoAttrs) {
  op.doc("Inverse of matrices.")
      .alias("linalg_inverse")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) { return square_shape(in); })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Matrices m(k.out().shape());
        for_each_matrix(k, m, [&]<class T>(int64_t b, const T* matrix, T* out) {
          std::copy_n(matrix, m.size(), out);
          const std::vector<lapack_int> pivots = factorise(out, m.rows);
          if (LAPACK(getri, LAPACK_COL_MAJOR, as_int(m.rows), out, as_int(m.rows), pivots.data()) != 0)
            raise<UserError>("matrix {} is singular", b);
        });
      })
      .gradient({{}, {0}},
                [](const Gradient& g) -> Tensors { return {product(product(g.out(0), g.head(), true), g.out(0), false, true, -1)}; })
      .sample({uniform_sample({2, 2, 2}, 0.5, 2)})
      .sample({{3, 3}});
}
GLUINO_OP(_linalg_det, NoAttrs) {
  op.doc("Determinant of each matrix.")
      .alias("linalg_det")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) { return square_matrices(in[0]), batch_shape(in[0]); })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Matrices m(k.in(0).shape());
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t b = 0; b < m.batch; ++b) {
            const auto [sign, log] = log_determinant(k.data<T>(0) + b * m.size(), m.rows);
            k.out_data<T>()[b] = static_cast<T>(sign == 0 ? 0 : sign * std::exp(log));
          }
        });
      })
      .gradient({{0}, {0}},
                [](const Gradient& g) -> Tensors {
                  return {per_matrix(g.head() * g.out(0), g.like(0), 2) * swapped(call("_linalg_inverse", {g.in(0)}))};
                })
      .sample({{2, 3, 3}})
      .sample({{2, 2}});
}
GLUINO_OP(_linalg_slogdet, NoAttrs) {
  op.doc("Sign and logarithm of the absolute value of the determinant of each matrix.")
      .alias("linalg_slogdet")
      .input("A")
      .outputs({"sign", "logabsdet"})
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) { return square_matrices(in[0]), batch_shape(in[0]); })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Matrices m(k.in(0).shape());
        visit_float(k.in(0).dtype(), [&]<class T>(T*) {
          for (int64_t b = 0; b < m.batch; ++b) {
            const auto [sign, log] = log_determinant(k.data<T>(0) + b * m.size(), m.rows);
            k.out_data<T>(0)[b] = static_cast<T>(sign);
            k.out_data<T>(1)[b] = static_cast<T>(log);
          }
        });
      })
      .gradient(
          {{0}, {}},
          [](const Gradient& g) -> Tensors { return {per_matrix(g.head(1), g.like(0), 2) * swapped(call("_linalg_inverse", {g.in(0)}))}; })
      .sample({{2, 3, 3}})
      .sample({{2, 2}});
}

}  // namespace
}  // namespace gluino::ops
