// Matrix products: dot, batch_dot, gemm, syrk, Khatri-Rao.
#include "base/extents.h"
#include "base/parallel.h"
#include "dispatch/compiler_rules.h"
#include "kernels/gemm/gemm.h"
#include "ops/linear/matrices.h"

namespace gluino::ops {
namespace {

// ---- dot: tensors seen as matrices, split into rows and columns after some of their axes
struct DotAttrs {
  bool transpose_a = false, transpose_b = false;
  static void fields(AttrFields<DotAttrs>& f) {
    f.field("transpose_a", &DotAttrs::transpose_a, "contract the first axis of lhs instead of the last")
        .field("transpose_b", &DotAttrs::transpose_b, "contract the last axis of rhs instead of the first");
  }
};
struct DotLikeAttrs {
  bool transpose_a = false, transpose_b = false;
  int split_a = 1, split_b = 1, split_out = 1;
  static void fields(AttrFields<DotLikeAttrs>& f) {
    f.field("transpose_a", &DotLikeAttrs::transpose_a, "transpose the matrix lhs")
        .field("transpose_b", &DotLikeAttrs::transpose_b, "transpose the matrix rhs")
        .field("split_a", &DotLikeAttrs::split_a, "how many axes of lhs are rows")
        .field("split_b", &DotLikeAttrs::split_b, "how many axes of rhs are rows")
        .field("split_out", &DotLikeAttrs::split_out, "how many axes of the result are rows");
  }
};
struct SplitMatrix {
  int64_t rows, columns;
  SplitMatrix(const Shape& s, int split) {
    if (split < 0 || split > s.ndim()) raise<AttrError>("{} axes of shape {} cannot be rows", split, s);
    rows = s.elements(0, split);
    columns = s.elements(split, s.ndim());
  }
};
static void run_dot(const DotLikeAttrs& a, KernelContext& k) {
  const SplitMatrix x(k.in(0).shape(), a.split_a), y(k.in(1).shape(), a.split_b);
  const int64_t m = a.transpose_a ? x.columns : x.rows, inner = a.transpose_a ? x.rows : x.columns, n = a.transpose_b ? y.rows : y.columns;
  visit_float(k.out().dtype(), [&]<class T>(T*) {
    kernels::gemm<T>({m, n, inner}, {k.data<T>(0), x.columns, a.transpose_a}, {k.data<T>(1), y.columns, a.transpose_b},
                     {k.out_data<T>(), n});
  });
}
static Tensor dot_like(const Tensor& x, const Tensor& y, const Tensor& like, const DotLikeAttrs& a) {
  if (x.ndim() == 2 && y.ndim() == 2 && like.ndim() == 2)
    return call("dot", {x, y}, {{"transpose_a", a.transpose_a}, {"transpose_b", a.transpose_b}});
  return call("_dot_like", {x, y, like},
              {{"transpose_a", a.transpose_a},
               {"transpose_b", a.transpose_b},
               {"split_a", int64_t{a.split_a}},
               {"split_b", int64_t{a.split_b}},
               {"split_out", int64_t{a.split_out}}});
}
// C = op(A) op(B): dA = dC op(B)^T and dB = op(A)^T dC, each transposed where the operand is.
static Tensors dot_gradient(const DotLikeAttrs& a, const Gradient& g) {
  const Tensor& h = g.head();
  const int sa = a.split_a, sb = a.split_b, sc = a.split_out;
  Tensors result(g.num_inputs());
  if (g.wants(0))
    result[0] = a.transpose_a ? dot_like(g.in(1), h, g.like(0), {a.transpose_b, true, sb, sc, sa})
                              : dot_like(h, g.in(1), g.like(0), {false, !a.transpose_b, sc, sb, sa});
  if (g.wants(1))
    result[1] = a.transpose_b ? dot_like(h, g.in(0), g.like(1), {true, a.transpose_a, sc, sa, sb})
                              : dot_like(g.in(0), h, g.like(1), {!a.transpose_a, false, sa, sc, sb});
  return result;
}
static DotLikeAttrs splits(const DotAttrs& a, int ndim_a, int ndim_b) {
  return {a.transpose_a, a.transpose_b, a.transpose_a ? 1 : ndim_a - 1, a.transpose_b ? ndim_b - 1 : 1, ndim_a - 1};
}
GLUINO_OP(dot, DotAttrs) {
  op.doc("Product over the last axis of lhs and the first axis of rhs; two vectors give one number.")
      .input("lhs")
      .input("rhs")
      .ignores({"forward_stype"})
      .kernel_dtypes(float_dtypes())
      .dtypes(DTypeSet::numeric)
      .shape([](const DotAttrs& a, std::span<const Shape> in) {
        const Shape &x = in[0], &y = in[1];
        if (x.empty() || y.empty()) raise<ShapeError>("shapes {} and {} cannot be multiplied: a scalar has no axis to sum", x, y);
        const int64_t left = a.transpose_a ? x[0] : x.back(), right = a.transpose_b ? y.back() : y[0];
        if (left != right)
          raise<ShapeError>("shapes {} and {} cannot be multiplied: the axes to sum have extents {} and {}", x, y, left, right);
        Shape out;
        for (int i = 0; i + 1 < x.ndim(); ++i) out.push_back(x[i + (a.transpose_a ? 1 : 0)]);
        for (int i = 0; i + 1 < y.ndim(); ++i) out.push_back(y[i + (a.transpose_b ? 0 : 1)]);
        if (out.empty()) out.push_back(1);
        return out;
      })
      .kernel([](const DotAttrs& a, KernelContext& k) { run_dot(splits(a, k.in(0).ndim(), k.in(1).ndim()), k); })
      .gradient(
          {{0, 1}, {}},
          [](const DotAttrs& a, const Gradient& g) -> Tensors { return dot_gradient(splits(a, g.like(0).ndim(), g.like(1).ndim()), g); })
      .sample({{3, 4}, {4, 5}})
      .sample({{4, 3}, {5, 4}}, {.transpose_a = true, .transpose_b = true})
      .sample({{2, 3, 4}, {4, 5}})
      .sample({{4}, {4}})
      .sample({{4, 2, 3}, {2, 4}}, {.transpose_a = true, .transpose_b = true})
      .sample({{3, 4}, {4}});
}
GLUINO_OP(_dot_like, DotLikeAttrs) {
  op.doc("Product of two tensors seen as matrices, with the shape of like: the gradient of dot.")
      .input("lhs")
      .input("rhs")
      .input("like")
      .shape_only()
      .kernel_dtypes(float_dtypes())
      .shape([](const DotLikeAttrs& a, std::span<const Shape> in) {
        const SplitMatrix x(in[0], a.split_a), y(in[1], a.split_b), z(in[2], a.split_out);
        if ((a.transpose_a ? x.rows : x.columns) != (a.transpose_b ? y.columns : y.rows) ||
            (a.transpose_a ? x.columns : x.rows) != z.rows || (a.transpose_b ? y.rows : y.columns) != z.columns)
          raise<ShapeError>("shapes {} and {} do not multiply to {}", in[0], in[1], in[2]);
        return in[2];
      })
      .kernel(run_dot)
      .gradient({{0, 1}, {}}, dot_gradient)
      .sample({{2, 3, 4}, {4, 5}, {2, 3, 5}}, {.split_a = 2, .split_out = 2});
}

// ---- batches of matrices
struct Product {
  int64_t m, n, k;
  Product(const Shape& a, const Shape& b, bool ta, bool tb) {
    check_same_batch(a, b);
    const Matrices x(a), y(b);
    m = ta ? x.columns : x.rows;
    k = ta ? x.rows : x.columns;
    n = tb ? y.rows : y.columns;
    if (k != (tb ? y.columns : y.rows))
      raise<ShapeError>("matrices of shapes {} and {} cannot be multiplied{}", a, b, ta || tb ? " with these transpositions" : "");
  }
};
template <class T>
static void multiply_batch(const Tensor& a, const Tensor& b, bool ta, bool tb, double alpha, double beta, Tensor& out) {
  const Product p(a.shape(), b.shape(), ta, tb);
  const Matrices x(a.shape()), y(b.shape());
  const int64_t flops = std::max<int64_t>(1, p.m * p.n * p.k);
  parallel_for(x.batch, std::max<int64_t>(1, 8 * kParallelGrain / flops), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      kernels::gemm<T>({p.m, p.n, p.k}, {a.data<T>() + i * x.size(), x.columns, ta}, {b.data<T>() + i * y.size(), y.columns, tb},
                       {out.mutable_data<T>() + i * p.m * p.n, p.n}, {.product = static_cast<T>(alpha), .old = static_cast<T>(beta)});
  });
}
// C = alpha op(A) op(B), with `product` making such products.
template <class F>
static Tensors product_gradient(const Gradient& g, bool ta, bool tb, F&& product) {
  const Tensor& h = g.head();
  Tensors result(g.num_inputs());
  if (g.wants(0)) result[0] = ta ? product(g.in(1), h, tb, true) : product(h, g.in(1), false, !tb);
  if (g.wants(1)) result[1] = tb ? product(h, g.in(0), true, ta) : product(g.in(0), h, !ta, false);
  return result;
}
GLUINO_OP(batch_dot, DotAttrs) {
  op.doc("Matrix product of each pair of matrices of two batches.")
      .alias("_npx_batch_dot")
      .input("lhs")
      .input("rhs")
      .ignores({"forward_stype"})
      .kernel_dtypes(float_dtypes())
      .shape([](const DotAttrs& a, std::span<const Shape> in) {
        const Product p(in[0], in[1], a.transpose_a, a.transpose_b);
        return with_matrix(in[0], p.m, p.n);
      })
      .kernel([](const DotAttrs& a, KernelContext& k) {
        visit_float(k.out().dtype(),
                    [&]<class T>(T*) { multiply_batch<T>(k.in(0), k.in(1), a.transpose_a, a.transpose_b, 1, 0, k.out()); });
      })
      .gradient({{0, 1}, {}},
                [](const DotAttrs& a, const Gradient& g) -> Tensors {
                  return product_gradient(g, a.transpose_a, a.transpose_b, [](const Tensor& x, const Tensor& y, bool tx, bool ty) {
                    return call("batch_dot", {x, y}, {{"transpose_a", tx}, {"transpose_b", ty}});
                  });
                })
      .sample({{2, 3, 4}, {2, 4, 5}})
      .sample({{2, 4, 3}, {2, 5, 4}}, {.transpose_a = true, .transpose_b = true});
  for_compiler(op).matrix_product([](const DotAttrs& a) { return MatrixProduct{a.transpose_a, a.transpose_b}; });
}

struct GemmAttrs {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1, beta = 1;
  int axis = -2;
  static void fields(AttrFields<GemmAttrs>& f) {
    f.field("transpose_a", &GemmAttrs::transpose_a, "transpose A")
        .field("transpose_b", &GemmAttrs::transpose_b, "transpose B")
        .field("alpha", &GemmAttrs::alpha, "factor of the product")
        .field("beta", &GemmAttrs::beta, "factor of C")
        .field("axis", &GemmAttrs::axis, "the axis of rows; columns are the last one");
  }
  bool is_usual(int ndim) const { return axis == -2 || axis == ndim - 2; }
};
// Matrices whose rows lie on another axis than the last but one: exchanged before and after.
static Shape usual_rows(const GemmAttrs& a, Shape s) {
  const int axis = normalize_axis(a.axis, s);
  if (s.ndim() < 2 || axis == s.ndim() - 1) raise<AttrError>("attribute 'axis' is {}, which cannot be the rows of shape {}", a.axis, s);
  std::swap(s[axis], s[s.ndim() - 2]);
  return s;
}
static Tensor usual_rows(const GemmAttrs& a, const Tensor& t) {
  if (a.is_usual(t.ndim())) return t;
  return call("SwapAxis", {t}, {{"dim1", int64_t{a.axis}}, {"dim2", int64_t{-2}}});
}
static Tensor gemm2(const GemmAttrs& a, const Tensor& x, const Tensor& y, bool tx, bool ty) {
  return call("_linalg_gemm2", {x, y}, {{"transpose_a", tx}, {"transpose_b", ty}, {"alpha", a.alpha}, {"axis", int64_t{a.axis}}});
}
// out = alpha * A * B + beta * out
static void gemm_kernel(const GemmAttrs& a, KernelContext& k, double beta) {
  const Tensor x = usual_rows(a, k.in(0)), y = usual_rows(a, k.in(1));
  Tensor product = a.is_usual(k.out().ndim()) ? k.out() : usual_rows(a, k.out()).copy();
  visit_float(k.out().dtype(), [&]<class T>(T*) {
    multiply_batch<T>(x, y, a.transpose_a, a.transpose_b, a.alpha, beta, product);
    if (!product.is_same(k.out())) std::copy_n(usual_rows(a, product).data<T>(), k.out().size(), k.out_data<T>());
  });
}
static Shape gemm_shape(const GemmAttrs& a, std::span<const Shape> in) {
  const Shape x = usual_rows(a, in[0]), y = usual_rows(a, in[1]);
  const Product p(x, y, a.transpose_a, a.transpose_b);
  return usual_rows(a, with_matrix(x, p.m, p.n));
}
static Tensors gemm_gradient(const GemmAttrs& a, const Gradient& g) {
  return product_gradient(g, a.transpose_a, a.transpose_b,
                          [&](const Tensor& x, const Tensor& y, bool tx, bool ty) { return gemm2(a, x, y, tx, ty); });
}
GLUINO_OP(_linalg_gemm2, GemmAttrs) {
  op.doc("alpha * A * B for batches of matrices.")
      .alias("linalg_gemm2")
      .input("A")
      .input("B")
      .kernel_dtypes(float_dtypes())
      .shape(gemm_shape)
      .kernel([](const GemmAttrs& a, KernelContext& k) { gemm_kernel(a, k, 0); })
      .gradient({{0, 1}, {}}, gemm_gradient)
      .sample({{3, 4}, {4, 5}}, {.alpha = 0.5})
      .sample({{3, 2, 4}, {4, 2, 5}}, {.axis = 0})
      .sample({{2, 4, 3}, {2, 5, 4}}, {.transpose_a = true, .transpose_b = true});
}
GLUINO_OP(_linalg_gemm, GemmAttrs) {
  op.doc("alpha * A * B + beta * C for batches of matrices.")
      .alias("linalg_gemm")
      .input("A")
      .input("B")
      .input("C")
      .kernel_dtypes(float_dtypes())
      .shape([](const GemmAttrs& a, std::span<const Shape> in) {
        const Shape out = gemm_shape(a, in);
        if (!(out == in[2])) raise<ShapeError>("input 'C' has shape {}, but the product has shape {}", in[2], out);
        return out;
      })
      .kernel([](const GemmAttrs& a, KernelContext& k) {
        visit_float(k.out().dtype(), [&]<class T>(T*) { std::copy_n(k.data<T>(2), k.out().size(), k.out_data<T>()); });
        gemm_kernel(a, k, a.beta);
      })
      .gradient({{0, 1}, {}},
                [](const GemmAttrs& a, const Gradient& g) -> Tensors {
                  Tensors result = gemm_gradient(a, g);
                  result[2] = g.head() * a.beta;
                  return result;
                })
      .sample({{3, 4}, {4, 5}, {3, 5}}, {.alpha = 0.5, .beta = 2})
      .sample({{2, 4, 3}, {2, 4, 5}, {2, 3, 5}}, {.transpose_a = true});
}

struct SyrkAttrs {
  bool transpose = false;
  double alpha = 1;
  static void fields(AttrFields<SyrkAttrs>& f) {
    f.field("transpose", &SyrkAttrs::transpose, "multiply the transposed matrix with itself")
        .field("alpha", &SyrkAttrs::alpha, "factor of the product");
  }
};
GLUINO_OP(_linalg_syrk, SyrkAttrs) {
  op.doc("alpha * A * A^T, or alpha * A^T * A with transpose.")
      .alias("linalg_syrk")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const SyrkAttrs& a, std::span<const Shape> in) {
        const Matrices m(in[0]);
        return with_matrix(in[0], a.transpose ? m.columns : m.rows, a.transpose ? m.columns : m.rows);
      })
      .kernel([](const SyrkAttrs& a, KernelContext& k) {
        visit_float(k.out().dtype(),
                    [&]<class T>(T*) { multiply_batch<T>(k.in(0), k.in(0), a.transpose, !a.transpose, a.alpha, 0, k.out()); });
      })
      .gradient({{0}, {}},
                [](const SyrkAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor both = g.head() + call("SwapAxis", {g.head()}, {{"dim1", int64_t{-1}}, {"dim2", int64_t{-2}}});
                  return {a.transpose ? gemm2({.alpha = a.alpha}, g.in(0), both, false, false)
                                      : gemm2({.alpha = a.alpha}, both, g.in(0), false, false)};
                })
      .sample({{2, 3, 4}})
      .sample({{3, 4}}, {.transpose = true, .alpha = 0.5});
}

// ---- Khatri-Rao: column n of the result is the Kronecker product of columns n of the inputs
struct KhatriRaoAttrs {
  int num_args = 0;
  static void fields(AttrFields<KhatriRaoAttrs>& f) {
    f.field("num_args", &KhatriRaoAttrs::num_args, "number of inputs; follows from the call");
  }
};
// Input i of n with shape (1, ..., rows, ..., 1, columns), so that all inputs broadcast against each other.
static Tensor spread(Tensor t, int i, int n) {
  for (int j = 0; j < n; ++j)
    if (j != i) t = call("expand_dims", {t}, {{"axis", int64_t{j}}});
  return t;
}
GLUINO_OP(khatri_rao, KhatriRaoAttrs) {
  op.doc("Column-wise Kronecker product of matrices with the same number of columns.")
      .variadic("args")
      .kernel_dtypes(float_dtypes())
      .shape([](const KhatriRaoAttrs&, std::span<const Shape> in) {
        int64_t rows = 1;
        for (const Shape& s : in) {
          if (s.ndim() != 2) raise<ShapeError>("shape {} is not that of a matrix", s);
          if (s[1] != in[0][1]) raise<ShapeError>("shapes {} and {} differ in the number of columns", in[0], s);
          rows = saturated_product(rows, s[0]);
        }
        return Shape{rows, in[0][1]};
      })
      .kernel([](const KhatriRaoAttrs&, KernelContext& k) {
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          const int64_t rows = k.out().extent(0), columns = k.out().extent(1);
          for (int64_t r = 0; r < rows; ++r) {
            T* out = k.out_data<T>() + r * columns;
            std::fill_n(out, columns, T(1));
            int64_t rest = r;
            for (int i = k.num_inputs() - 1; i >= 0; --i) {
              const T* in = k.data<T>(i) + rest % k.in(i).extent(0) * columns;
              for (int64_t c = 0; c < columns; ++c) out[c] *= in[c];
              rest /= k.in(i).extent(0);
            }
          }
        });
      })
      .gradient({{}, {}, true},
                [](const Gradient& g) -> Tensors {
                  const int n = g.num_inputs();
                  Tensor whole = spread(g.in(0), 0, n);
                  for (int i = 1; i < n; ++i) whole = whole * spread(g.in(i), i, n);
                  const Tensor head = call("reshape_like", {g.head(), whole});
                  Tensors result;
                  for (int i = 0; i < n; ++i) {
                    Tensor part = head;
                    for (int j = 0; j < n; ++j)
                      if (j != i) part = part * spread(g.in(j), j, n);
                    result.push_back(call("reshape_like", {reduce_like(part, spread(g.in(i), i, n)), g.like(i)}));
                  }
                  return result;
                })
      .sample({{2, 3}, {4, 3}})
      .sample({{2, 2}, {1, 2}, {3, 2}});
}

}  // namespace
}  // namespace gluino::ops
