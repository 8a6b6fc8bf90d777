// Diagonals of matrices, taken out and put back.
#include <cstring>

#include "kernels/elementwise/strided.h"
#include "ops/common.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

struct DiagAttrs {
  int k = 0, axis1 = 0, axis2 = 1;
  static void fields(AttrFields<DiagAttrs>& f) {
    f.field("k", &DiagAttrs::k, "which diagonal; positive is above the main one")
        .field("axis1", &DiagAttrs::axis1, "the axis of rows")
        .field("axis2", &DiagAttrs::axis2, "the axis of columns");
  }
};

// The diagonals of a tensor of shape `full`: their shape, and where they lie in it. A vector is the diagonal of a matrix.
struct Diagonal {
  Shape shape, strides;
  int64_t offset = 0;
  Diagonal(const Shape& full, const DiagAttrs& a) {
    const int r = normalize_axis(a.axis1, full), c = normalize_axis(a.axis2, full);
    if (r == c) raise<AttrError>("attributes 'axis1' and 'axis2' name the same axis {}", r);
    const Shape all = kernels::row_major_strides(full);
    for (int i = 0; i < full.ndim(); ++i)
      if (i != r && i != c) {
        shape.push_back(full[i]);
        strides.push_back(all[i]);
      }
    const int64_t k = a.k, first_row = std::max<int64_t>(0, -k), first_column = std::max<int64_t>(0, k);
    shape.push_back(std::max<int64_t>(0, std::min(full[r] - first_row, full[c] - first_column)));
    strides.push_back(all[r] + all[c]);
    offset = first_row * all[r] + first_column * all[c];
  }
};
static Shape matrix_for(int64_t n, int64_t k) { return {n + std::abs(k), n + std::abs(k)}; }

static void place(const Tensor& diagonal, const Diagonal& d, Tensor& out) {
  const int bytes = dtype_bytes(out.dtype());
  std::memset(bytes_of(out), 0, out.nbytes());
  if (d.shape.elements())
    kernels::copy_strided(bytes, d.shape, bytes_of(diagonal), kernels::row_major_strides(d.shape), bytes_of(out) + d.offset * bytes,
                          d.strides);
}

static Shape shape_of_diagonals(const DiagAttrs& a, const Shape& full) {
  if (full.empty()) throw ShapeError("data is a scalar, but at least one axis is needed");
  return full.ndim() == 1 ? matrix_for(full[0], a.k) : Diagonal(full, a).shape;
}

// NumPy's diagonals beyond the edge are empty; those of MXNet's older operator are errors.
template <class ShapeOf>
static void define_diag(OpBuilder<DiagAttrs>& op, const char* name, ShapeOf shape_of) {
  op.input("data")
      .dtypes(DTypeSet::any)
      .shape(shape_of)
      .kernel([](const DiagAttrs& a, KernelContext& k) {
        if (k.in(0).ndim() == 1) return place(k.in(0), Diagonal(k.out().shape(), {.k = a.k}), k.out());
        const Diagonal d(k.in(0).shape(), a);
        const int bytes = dtype_bytes(k.out().dtype());
        if (d.shape.elements())
          kernels::copy_strided(bytes, d.shape, bytes_of(k.in(0)) + d.offset * bytes, d.strides, bytes_of(k.out()),
                                kernels::row_major_strides(d.shape));
      })
      .gradient({},
                [name](const DiagAttrs& a, const Gradient& g) -> Tensors {
                  if (g.like(0).ndim() == 1) return {call(name, {g.head()}, {{"k", int64_t{a.k}}})};
                  return {call("_diag_backward", {g.head(), g.like(0)},
                               {{"k", int64_t{a.k}}, {"axis1", int64_t{a.axis1}}, {"axis2", int64_t{a.axis2}}})};
                })
      .sample({{4, 5}}, {.k = 1})
      .sample({{4}}, {.k = -1})
      .sample({{2, 3, 4}}, {.axis1 = 1, .axis2 = -1});
}
GLUINO_OP(_np_diag, DiagAttrs) {
  op.doc("The diagonals of matrices, empty beyond the edge; a vector becomes a matrix with that diagonal.");
  define_diag(op, "_np_diag", [](const DiagAttrs& a, std::span<const Shape> in) { return shape_of_diagonals(a, in[0]); });
}
GLUINO_OP(diag, DiagAttrs) {
  op.doc("The diagonals of matrices; a vector becomes a matrix with that diagonal.");
  define_diag(op, "diag", [](const DiagAttrs& a, std::span<const Shape> in) {
    Shape s = shape_of_diagonals(a, in[0]);
    if (s.elements() == 0 && in[0].elements() != 0) raise<ShapeError>("diagonal {} is beyond the edges of shape {}", a.k, in[0]);
    return s;
  });
}
GLUINO_OP(_diag_backward, DiagAttrs) {
  op.doc("Zeros of the shape of like with data on the diagonals.")
      .input("data")
      .input("like")
      .shape_only()
      .dtypes(DTypeSet::any)
      .shape([](const DiagAttrs& a, std::span<const Shape> in) {
        const Diagonal d(in[1], a);
        if (!(d.shape == in[0])) raise<ShapeError>("data has shape {}, but the diagonals of shape {} are {}", in[0], in[1], d.shape);
        return in[1];
      })
      .kernel([](const DiagAttrs& a, KernelContext& k) { place(k.in(0), Diagonal(k.out().shape(), a), k.out()); })
      .gradient({},
                [](const DiagAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_np_diag", {g.head()}, {{"k", int64_t{a.k}}, {"axis1", int64_t{a.axis1}}, {"axis2", int64_t{a.axis2}}}),
                          Tensor()};
                })
      .sample({{3}, {3, 4}}, {.k = 1});
}

}  // namespace
}  // namespace gluino::ops
