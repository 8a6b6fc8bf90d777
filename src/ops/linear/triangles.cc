// Diagonals and triangles of matrices, taken out as vectors and put back.
#include <cmath>

#include "ops/linear/matrices.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

// ---- diagonals
struct OffsetAttrs {
  int offset = 0;
  static void fields(AttrFields<OffsetAttrs>& f) {
    f.field("offset", &OffsetAttrs::offset, "which diagonal; positive is above the main one");
  }
};
// Position of element i of the diagonal in a matrix of n columns.
static int64_t on_diagonal(int64_t i, int64_t offset, int64_t n) {
  return (i + std::max<int64_t>(0, -offset)) * n + i + std::max<int64_t>(0, offset);
}
// A diagonal of square matrices: at most the empty one beside their corners.
static int64_t checked_offset(int64_t offset, const Matrices& m) {
  if (std::abs(offset) > m.rows) raise<AttrError>("offset = {} lies outside of matrices of {} x {}", offset, m.rows, m.columns);
  return std::abs(offset);
}
static Tensor with_offset(std::string_view name, const Tensor& t, int offset) { return call(name, {t}, {{"offset", int64_t{offset}}}); }
GLUINO_OP(_linalg_extractdiag, OffsetAttrs) {
  op.doc("A diagonal of each matrix.")
      .alias("linalg_extractdiag")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const OffsetAttrs& a, std::span<const Shape> in) {
        const Matrices m = square_matrices(in[0]);
        Shape out = in[0];
        out.erase(out.ndim() - 1);
        out[out.ndim() - 1] = m.rows - checked_offset(a.offset, m);
        return out;
      })
      .kernel([](const OffsetAttrs& a, KernelContext& k) {
        const Matrices m(k.in(0).shape());
        const int64_t n = k.out().shape().back();
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t i = 0; i < m.batch * n; ++i)
            k.out_data<T>()[i] = k.data<T>(0)[i / n * m.size() + on_diagonal(i % n, a.offset, m.columns)];
        });
      })
      .gradient({},
                [](const OffsetAttrs& a, const Gradient& g) -> Tensors { return {with_offset("_linalg_makediag", g.head(), a.offset)}; })
      .sample({{2, 3, 3}})
      .sample({{4, 4}}, {.offset = -1});
}
GLUINO_OP(_linalg_makediag, OffsetAttrs) {
  op.doc("Matrices with the given diagonals, zeros elsewhere.")
      .alias("linalg_makediag")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const OffsetAttrs& a, std::span<const Shape> in) {
        if (in[0].empty()) throw ShapeError("a scalar is not a diagonal: at least one axis is needed");
        Shape out = in[0];
        out[out.ndim() - 1] += std::abs(int64_t{a.offset});
        out.push_back(out.back());
        return out;
      })
      .kernel([](const OffsetAttrs& a, KernelContext& k) {
        const Matrices m(k.out().shape());
        const int64_t n = k.in(0).shape().back();
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          std::fill_n(k.out_data<T>(), k.out().size(), T(0));
          for (int64_t i = 0; i < m.batch * n; ++i)
            k.out_data<T>()[i / n * m.size() + on_diagonal(i % n, a.offset, m.columns)] = k.data<T>(0)[i];
        });
      })
      .gradient({},
                [](const OffsetAttrs& a, const Gradient& g) -> Tensors { return {with_offset("_linalg_extractdiag", g.head(), a.offset)}; })
      .sample({{2, 3}})
      .sample({{3}}, {.offset = 1});
}
GLUINO_OP(_linalg_sumlogdiag, NoAttrs) {
  op.doc("Sum of the logarithms of the diagonal of each matrix.")
      .alias("linalg_sumlogdiag")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) { return square_matrices(in[0]), batch_shape(in[0]); })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Matrices m(k.in(0).shape());
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t b = 0; b < m.batch; ++b) {
            double sum = 0;
            for (int64_t i = 0; i < m.rows; ++i) sum += std::log(static_cast<double>(k.data<T>(0)[b * m.size() + i * m.columns + i]));
            k.out_data<T>()[b] = static_cast<T>(sum);
          }
        });
      })
      .gradient({{0}, {}},
                [](const Gradient& g) -> Tensors {
                  return {with_offset("_linalg_makediag",
                                      per_matrix(g.head(), g.like(0), 1) / with_offset("_linalg_extractdiag", g.in(0), 0), 0)};
                })
      .sample({uniform_sample({2, 3, 3}, 0.3, 2)})
      .sample({uniform_sample({2, 2}, 0.3, 2)});
}

// ---- triangles as vectors
struct TrianAttrs {
  int offset = 0;
  bool lower = true;
  static void fields(AttrFields<TrianAttrs>& f) {
    f.field("offset", &TrianAttrs::offset,
            "the diagonal that bounds the triangle; a positive one means the upper, a negative one the lower triangle")
        .field("lower", &TrianAttrs::lower, "with offset 0: the lower triangle, else the upper");
  }
  bool is_lower() const { return offset < 0 || (offset == 0 && lower); }
  // Calls f(position in the matrix) for the n x n matrix's triangle, row by row.
  template <class F>
  void visit(int64_t n, F&& f) const {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        if (is_lower() ? j - i <= offset : j - i >= offset) f(i * n + j);
  }
};
static int64_t triangle_size(int64_t n) { return n * (n + 1) / 2; }
static Tensor with_trian(std::string_view name, const TrianAttrs& a, const Tensor& t) {
  return call(name, {t}, {{"offset", int64_t{a.offset}}, {"lower", a.lower}});
}
GLUINO_OP(_linalg_extracttrian, TrianAttrs) {
  op.doc("A triangle of each matrix as a vector, row by row.")
      .alias("linalg_extracttrian")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const TrianAttrs& a, std::span<const Shape> in) {
        const Matrices m = square_matrices(in[0]);
        Shape out = in[0];
        out.erase(out.ndim() - 1);
        out[out.ndim() - 1] = triangle_size(m.rows - checked_offset(a.offset, m));
        return out;
      })
      .kernel([](const TrianAttrs& a, KernelContext& k) {
        const Matrices m(k.in(0).shape());
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          T* out = k.out_data<T>();
          for (int64_t b = 0; b < m.batch; ++b) a.visit(m.rows, [&](int64_t at) { *out++ = k.data<T>(0)[b * m.size() + at]; });
        });
      })
      .gradient({}, [](const TrianAttrs& a, const Gradient& g) -> Tensors { return {with_trian("_linalg_maketrian", a, g.head())}; })
      .sample({{2, 3, 3}})
      .sample({{4, 4}}, {.offset = 1})
      .sample({{3, 3}}, {.lower = false});
}
GLUINO_OP(_linalg_maketrian, TrianAttrs) {
  op.doc("Triangular matrices from vectors, row by row.")
      .alias("linalg_maketrian")
      .input("A")
      .kernel_dtypes(float_dtypes())
      .shape([](const TrianAttrs& a, std::span<const Shape> in) {
        if (in[0].empty()) throw ShapeError("a scalar is not a triangle: at least one axis is needed");
        int64_t n = 0;
        while (triangle_size(n) < in[0].back()) ++n;
        if (triangle_size(n) != in[0].back()) raise<ShapeError>("{} elements do not fill a triangle", in[0].back());
        Shape out = in[0];
        out[out.ndim() - 1] = n + std::abs(int64_t{a.offset});
        out.push_back(out.back());
        return out;
      })
      .kernel([](const TrianAttrs& a, KernelContext& k) {
        const Matrices m(k.out().shape());
        visit_float(k.out().dtype(), [&]<class T>(T*) {
          std::fill_n(k.out_data<T>(), k.out().size(), T(0));
          const T* in = k.data<T>(0);
          for (int64_t b = 0; b < m.batch; ++b) a.visit(m.rows, [&](int64_t at) { k.out_data<T>()[b * m.size() + at] = *in++; });
        });
      })
      .gradient({}, [](const TrianAttrs& a, const Gradient& g) -> Tensors { return {with_trian("_linalg_extracttrian", a, g.head())}; })
      .sample({{2, 6}})
      .sample({{3}}, {.offset = -1})
      .sample({{3}}, {.lower = false});
}

}  // namespace
}  // namespace gluino::ops
