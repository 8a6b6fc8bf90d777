// Names of mx.np that multiply, invert and take matrices apart: dot, matmul, tensordot, kron, cross, det, qr, pinv, tensorinv, tensorsolve.
#include <limits>

#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

int64_t product_of(const Tensor& x, const Shape& axes) {
  int64_t product = 1;
  for (int64_t i : axes) product *= x.extent(i);
  return product;
}

Shape axes_without(const Tensor& x, const Shape& axes) {
  Shape others;
  for (int i = 0; i < x.ndim(); ++i)
    if (!contains(axes, i)) others.push_back(i);
  return others;
}
Shape followed_by(Shape first, const Shape& second) {
  for (int64_t i : second) first.push_back(i);
  return first;
}
Tensor transposed(const Tensor& x, const Shape& order) { return x.ndim() > 1 ? call("transpose", {x}, {{"axes", order}}) : x; }

// Sums over pairs of axes: both become matrices.
Tensor contracted(const Tensor& a, const Tensor& b, const Shape& of_a, const Shape& of_b) {
  const Shape left = axes_of(of_a, a.shape()), right = axes_of(of_b, b.shape());
  if (left.ndim() != right.ndim()) raise<ShapeError>("axes {} and {} are not pairs", of_a, of_b);
  for (int i = 0; i < left.ndim(); ++i)
    if (a.extent(left[i]) != b.extent(right[i]))
      raise<ShapeError>("axis {} of shape {} and axis {} of shape {} are summed together, but their extents differ", left[i], a.shape(),
                        right[i], b.shape());
  const Shape rows = axes_without(a, left), columns = axes_without(b, right);
  const Tensor product =
      call("dot", {reshaped(transposed(a, followed_by(rows, left)), {product_of(a, rows), product_of(a, left)}),
                   reshaped(transposed(b, followed_by(right, columns)), {product_of(b, right), product_of(b, columns)})});
  Shape shape;
  for (int64_t i : rows) shape.push_back(a.extent(i));
  for (int64_t i : columns) shape.push_back(b.extent(i));
  return reshaped(product, shape);
}

GLUINO_OP(_np_dot, NoAttrs) {
  composed(op.doc("Sums over the last axis of a and the second last of b, as NumPy's dot.").input("a").input("b"),
           [](const NoAttrs&, std::span<const Tensor> in) {
             const Tensor &a = in[0], &b = in[1];
             if (a.ndim() == 0 || b.ndim() == 0) return call("broadcast_mul", {a, b});
             return contracted(a, b, {-1}, {b.ndim() == 1 ? -1 : -2});
           })
      .sample({{3}, {3}})
      .sample({{2, 3}, {3, 4}})
      .sample({{2, 3}, {4, 3, 2}})
      .sample({SampleInput(Shape{}, -2, 2), {2, 3}});
}

// Matrices with everything before the last two axes broadcast.
Tensor matrix_product(const Tensor& a, const Tensor& b) {
  if (a.ndim() == 0 || b.ndim() == 0) throw ShapeError("a scalar is no matrix; multiply with *");
  const Tensor left = a.ndim() == 1 ? call("expand_dims", {a}, {{"axis", int64_t{0}}}) : a,
               right = b.ndim() == 1 ? call("expand_dims", {b}, {{"axis", int64_t{1}}}) : b;
  const Shape &l = left.shape(), &r = right.shape();
  const Shape fronts[] = {part_of(l, 0, l.ndim() - 2), part_of(r, 0, r.ndim() - 2)};
  const Shape front = broadcast_shapes(fronts);
  const int64_t rows = l[l.ndim() - 2], columns = r.back();
  const auto spread = [&](const Tensor& x) {
    Shape whole = front;
    whole.push_back(x.extent(-2));
    whole.push_back(x.extent(-1));
    Shape own = x.shape();
    while (own.ndim() < whole.ndim()) own.insert(0, 1);
    const Tensor y = own == whole ? reshaped(x, own) : call("broadcast_to", {reshaped(x, own)}, {{"shape", whole}});
    return reshaped(y, {front.elements(), x.extent(-2), x.extent(-1)});
  };
  const Tensor product = front.empty() ? call("dot", {left, right}) : call("batch_dot", {spread(left), spread(right)});
  Shape shape = front;
  if (a.ndim() > 1) shape.push_back(rows);
  if (b.ndim() > 1) shape.push_back(columns);
  return reshaped(product, shape);
}
GLUINO_OP(_npi_matmul, NoAttrs) {
  composed(op.doc("Products of matrices, the last two axes; the others broadcast.").input("a").input("b"),
           [](const NoAttrs&, std::span<const Tensor> in) { return matrix_product(in[0], in[1]); })
      .sample({{2, 3}, {3, 4}})
      .sample({{2, 1, 2, 3}, {3, 3, 2}})
      .sample({{3}, {3}})
      .sample({{2, 2, 3}, {3}});
}

struct AxesAttrs {
  int64_t axes = 2;
  static void fields(AttrFields<AxesAttrs>& f) {
    f.field("axes", &AxesAttrs::axes, "how many axes are summed: the last of a, the first of b");
  }
};
struct PairedAxesAttrs {
  Shape a_axes_summed, b_axes_summed;
  static void fields(AttrFields<PairedAxesAttrs>& f) {
    f.required("a_axes_summed", &PairedAxesAttrs::a_axes_summed, "the axes of a that are summed")
        .required("b_axes_summed", &PairedAxesAttrs::b_axes_summed, "their partners in b");
  }
};
GLUINO_OP(_npi_tensordot, PairedAxesAttrs) {
  composed(op.doc("Sums products over pairs of axes.").input("a").input("b"), [](const PairedAxesAttrs& a, std::span<const Tensor> in) {
    return contracted(in[0], in[1], a.a_axes_summed, a.b_axes_summed);
  }).sample({{2, 3, 4}, {4, 2}}, {.a_axes_summed = {0, 2}, .b_axes_summed = {1, 0}});
}
GLUINO_OP(_npi_tensordot_int_axes, AxesAttrs) {
  composed(op.doc("Sums products over the last axes of a and the first of b.").input("a").input("b"),
           [](const AxesAttrs& a, std::span<const Tensor> in) {
             if (a.axes < 0 || a.axes > std::min(in[0].ndim(), in[1].ndim()))
               raise<AttrError>("{} axes cannot be summed over shapes {} and {}", a.axes, in[0].shape(), in[1].shape());
             Shape left, right;
             for (int64_t i = 0; i < a.axes; ++i) {
               left.push_back(in[0].ndim() - a.axes + i);
               right.push_back(i);
             }
             return contracted(in[0], in[1], left, right);
           })
      .sample({{2, 3, 4}, {3, 4, 2}})
      .sample({{2}, {3}}, {.axes = 0});
}

GLUINO_OP(_npi_kron, NoAttrs) {
  composed(op.doc("All products: blocks of b, scaled by the elements of a.").input("a").input("b"),
           [](const NoAttrs&, std::span<const Tensor> in) {
             Shape a = in[0].shape(), b = in[1].shape(), left, right, whole;
             while (a.ndim() < b.ndim()) a.insert(0, 1);
             while (b.ndim() < a.ndim()) b.insert(0, 1);
             for (int i = 0; i < a.ndim(); ++i) {
               left.push_back(a[i]);
               left.push_back(1);
               right.push_back(1);
               right.push_back(b[i]);
               whole.push_back(a[i] * b[i]);
             }
             return reshaped(call("broadcast_mul", {reshaped(in[0], left), reshaped(in[1], right)}), whole);
           })
      .sample({{2, 3}, {3, 2}})
      .sample({{2}, {2, 3}});
}

struct CrossAttrs {
  int64_t axisa = -1, axisb = -1, axisc = -1;
  static void fields(AttrFields<CrossAttrs>& f) {
    f.field("axisa", &CrossAttrs::axisa, "the axis of a's vectors")
        .field("axisb", &CrossAttrs::axisb, "the axis of b's vectors")
        .field("axisc", &CrossAttrs::axisc, "the axis of the result's vectors");
  }
};
// The components of vectors along an axis, which stays last with extent 1; the third of two is 0.
Tensors components(const Tensor& x, int64_t axis) {
  const int64_t count = x.ndim() ? x.extent(normalize_axis(axis, x.shape())) : 0;
  if (count != 2 && count != 3)
    raise<ShapeError>("vectors have 2 or 3 elements, but shape {} has {} along axis {}", x.shape(), count, axis);
  const Tensor last = moved_axes(x, {axis}, {-1});
  Tensors found;
  for (int64_t i = 0; i < count; ++i) found.push_back(slice_of(last, -1, i, i + 1));
  if (count == 2) found.push_back(call("zeros_like", {found[0]}));
  return found;
}
GLUINO_OP(_npi_cross, CrossAttrs) {
  composed(op.doc("The vector product of vectors with 2 or 3 elements; of two plane ones only the component across the plane.")
               .input("a")
               .input("b"),
           [](const CrossAttrs& attrs, std::span<const Tensor> in) {
             const Tensors a = components(in[0], attrs.axisa), b = components(in[1], attrs.axisb);
             const auto component = [&](int i, int j) { return call("broadcast_mul", {a[i], b[j]}) - call("broadcast_mul", {a[j], b[i]}); };
             const Tensor third = component(0, 1);
             const auto extent = [&](int i, int64_t axis) { return in[i].extent(normalize_axis(axis, in[i].shape())); };
             if (extent(0, attrs.axisa) == 2 && extent(1, attrs.axisb) == 2)
               return reshaped(third, part_of(third.shape(), 0, third.ndim() - 1));
             return moved_axes(joined({component(1, 2), component(2, 0), third}, third.ndim() - 1), {-1}, {attrs.axisc});
           })
      .sample({{2, 3}, {2, 3}})
      .sample({{3, 2}, {4, 3, 3}}, {.axisb = 1, .axisc = 0})
      .sample({{2}, {2}});
}

// ---- one number per matrix, which is a scalar for a single one

Tensor per_matrix(const Tensor& found, const Tensor& matrices) { return matrices.ndim() == 2 ? reshaped(found, {}) : found; }
GLUINO_OP(_npi_det, NoAttrs) {
  composed(op.doc("The determinant of each matrix.").input("A"),
           [](const NoAttrs&, std::span<const Tensor> in) { return per_matrix(call("_linalg_det", {in[0]}), in[0]); })
      .sample({{2, 2}})
      .sample({{2, 3, 3}});
}
GLUINO_OP(_npi_slogdet, NoAttrs) {
  composed(op.doc("Sign and logarithm of the determinant of each matrix.").input("A").outputs({"sign", "logabsdet"}),
           [](const NoAttrs&, std::span<const Tensor> in) -> Tensors {
             const Tensors parts = call_all("_linalg_slogdet", Tensors{in[0]});
             return {per_matrix(parts[0], in[0]), per_matrix(parts[1], in[0])};
           })
      .sample({{2, 2}})
      .sample({{2, 3, 3}});
}

// ---- orthonormal columns and a triangle

Tensor with_swapped_axes(const Tensor& x) { return call("SwapAxis", {x}, {{"dim1", int64_t{-1}}, {"dim2", int64_t{-2}}}); }
Tensors tall_qr(const Tensor& x) {
  const Tensors parts = call_all("_linalg_gelqf", Tensors{with_swapped_axes(x)});
  return {with_swapped_axes(parts[0]), with_swapped_axes(parts[1])};
}
GLUINO_OP(_npi_qr, NoAttrs) {
  composed(op.doc("Orthonormal columns q and an upper triangle r with a = q r.").input("a").outputs({"q", "r"}),
           [](const NoAttrs&, std::span<const Tensor> in) -> Tensors {
             const Tensor& x = in[0];
             if (x.ndim() < 2) raise<ShapeError>("matrices are needed, not shape {}", x.shape());
             const int64_t rows = x.extent(-2);
             if (rows >= x.extent(-1)) return tall_qr(x);
             // The first columns decide q; r holds the others as q sees them.
             const Tensors first = tall_qr(slice_of(x, -1, 0, rows));
             const Tensor others = call("_linalg_gemm2", {first[0], slice_of(x, -1, rows, {})}, {{"transpose_a", true}});
             return {first[0], joined({first[1], others}, x.ndim() - 1)};
           })
      .sample({{3, 2}})
      .sample({{2, 2, 3}});
}

// ---- inverses

struct HermitianAttrs {
  bool hermitian = false;
  static void fields(AttrFields<HermitianAttrs>& f) {
    f.field("hermitian", &HermitianAttrs::hermitian, "whether matrices are symmetric; has no effect");
  }
};
struct RcondAttrs {
  double rcond = 1e-15;
  bool hermitian = false;
  static void fields(AttrFields<RcondAttrs>& f) {
    f.field("rcond", &RcondAttrs::rcond, "singular values below this part of the greatest count as 0")
        .field("hermitian", &RcondAttrs::hermitian, "whether matrices are symmetric; has no effect");
  }
};
// `least`: the smallest singular values that count, one per matrix with two axes kept.
Tensor pseudo_inverse(const Tensor& x, const Tensor& u, const Tensor& values, const Tensor& v, const Tensor& least) {
  const Tensor counts = as_dtype(values > least, x.dtype());
  const Tensor inverse = counts / (values * counts + (1 - counts));
  const Tensor scaled = with_swapped_axes(v) * call("expand_dims", {inverse}, {{"axis", int64_t{-2}}});
  return call("_linalg_gemm2", {scaled, u}, {{"transpose_b", true}});
}
Tensor greatest(const Tensor& values) { return call("max", {values}, {{"axis", Shape{-1}}, {"keepdims", true}}); }
GLUINO_OP(_npi_pinv, HermitianAttrs) {
  composed(op.doc("The pseudo-inverse; singular values below rcond times the greatest count as 0.").input("A").input("rcond"),
           [](const HermitianAttrs&, std::span<const Tensor> in) {
             const Tensors parts = call_all("_npi_svd", Tensors{in[0]});
             const Tensor rcond = in[1].ndim() == 0 ? in[1] : call("expand_dims", {in[1]}, {{"axis", int64_t{-1}}});
             return pseudo_inverse(in[0], parts[0], parts[1], parts[2], call("BlockGrad", {greatest(parts[1]) * rcond}));
           })
      .sample({{2, 3}, uniform_sample({}, 1e-6, 1e-5)})
      .sample({{2, 3, 2}, uniform_sample({2}, 1e-6, 1e-5)});
}
GLUINO_OP(_npi_pinv_scalar_rcond, RcondAttrs) {
  composed(op.doc("The pseudo-inverse; singular values below rcond times the greatest count as 0.").input("A"),
           [](const RcondAttrs& a, std::span<const Tensor> in) {
             const Tensors parts = call_all("_npi_svd", Tensors{in[0]});
             // Less than the precision of the dtype cannot be told from 0.
             const double precision =
                 in[0].dtype() == DType::float64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
             const double part = std::max(a.rcond, precision * static_cast<double>(std::max(in[0].extent(-1), in[0].extent(-2))));
             return pseudo_inverse(in[0], parts[0], parts[1], parts[2], call("BlockGrad", {greatest(parts[1]) * part}));
           })
      .sample({{2, 3}})
      .sample({{2, 3, 2}});
}

struct IndAttrs {
  int64_t ind = 2;
  static void fields(AttrFields<IndAttrs>& f) { f.field("ind", &IndAttrs::ind, "how many axes the result of the function has"); }
};
GLUINO_OP(_npi_tensorinv, IndAttrs) {
  composed(op.doc("The inverse of the function x -> tensordot(a, x), whose result has `ind` axes.").input("a"),
           [](const IndAttrs& a, std::span<const Tensor> in) {
             const Shape& s = in[0].shape();
             if (a.ind <= 0 || a.ind > s.ndim()) raise<AttrError>("ind is {}, but 1 to {} axes are there", a.ind, s.ndim());
             const auto split = static_cast<int>(a.ind);
             const Shape front = part_of(s, 0, split), back = part_of(s, split, s.ndim());
             if (front.elements() != back.elements())
               raise<ShapeError>("a of shape {} maps {} numbers to {}: there is no inverse", s, back.elements(), front.elements());
             const Tensor matrix = reshaped(in[0], {front.elements(), back.elements()});
             return reshaped(call("_linalg_inverse", {matrix}), followed_by(back, front));
           })
      .sample({{2, 3, 6}})
      .sample({{4, 2, 2}}, {.ind = 1});
}

struct TensorsolveAttrs {
  Shape a_axes;
  static void fields(AttrFields<TensorsolveAttrs>& f) {
    f.field("a_axes", &TensorsolveAttrs::a_axes, "axes of a that are moved to the end first");
  }
};
GLUINO_OP(_npi_tensorsolve, TensorsolveAttrs) {
  composed(op.doc("x with tensordot(a, x) = b.").input("a").input("b"),
           [](const TensorsolveAttrs& a, std::span<const Tensor> in) {
             Tensor x = in[0];
             const Tensor& b = in[1];
             if (!a.a_axes.empty()) {
               const Shape last = axes_of(a.a_axes, x.shape());
               x = transposed(x, followed_by(axes_without(x, last), last));
             }
             if (b.ndim() > x.ndim()) raise<ShapeError>("b of shape {} has more axes than a of shape {}", b.shape(), x.shape());
             const Shape left = part_of(x.shape(), b.ndim(), x.ndim());
             if (left.elements() != b.size()) raise<ShapeError>("{} unknowns for {} equations", left.elements(), b.size());
             return reshaped(call("_npi_solve", {reshaped(x, {-1, left.elements()}), reshaped(b, {-1, 1})}), left);
           })
      .sample({{2, 3, 6}, {2, 3}})
      .sample({{2, 6, 3}, {2, 3}}, {.a_axes = {1}});
}

}  // namespace
}  // namespace gluino::ops
