// Products of matrices.
#include <algorithm>
#include <cctype>

#include "base/format.h"
#include "onnx/rules.h"
#include "tensor/impl.h"

namespace gluino::onnx {

static Tensor with_leading(const Tensor& t, const Shape& leading) {
  Tensor wide = t;
  while (wide.ndim() < leading.ndim() + 2) wide = expand_dims(wide, {.axis = 0});
  Shape full = leading;
  full.push_back(0);
  full.push_back(0);
  return broadcast_to(wide, {.shape = full});
}

// Whether all axes but the last two are equal now; looking is no guard, because operators check it at every call.
static bool same_leading(const Tensor& a, const Tensor& b) {
  const Shape &x = impl_of(a).shape, &y = impl_of(b).shape;
  return x.ndim() == y.ndim() && std::equal(x.begin(), x.end() - 2, y.begin());
}

static Tensor product_of_floats(const Tensor& a, const Tensor& b) {
  if (a.ndim() == 0 || b.ndim() == 0) raise<ShapeError>("a matrix product needs at least one axis, but a number was given");
  if (a.ndim() == 1) return squeeze(product_of_floats(expand_dims(a, {.axis = 0}), b), {.axis = Shape{b.ndim() == 1 ? 0 : -2}});
  if (b.ndim() == 1) return squeeze(product_of_floats(a, expand_dims(b, {.axis = 1})), {.axis = Shape{-1}});
  // Weights: the layer's own operator, whose kernels keep them packed.
  if (b.ndim() == 2 && !b.is_symbolic())
    return fully_connected(a, transpose(b), {.num_hidden = b.extent(1), .no_bias = true, .flatten = false});
  if (b.ndim() == 2) return dot(a, b);
  if (!same_leading(a, b)) {
    const Shape &x = a.shape(), &y = b.shape();
    const Shape leading[] = {Shape(x.data(), x.ndim() - 2), Shape(y.data(), y.ndim() - 2)};
    const Shape both = broadcast_shapes(leading);
    return product_of_floats(with_leading(a, both), with_leading(b, both));
  }
  if (a.ndim() == 3) return batch_dot(a, b);
  if (a.ndim() == 4) {
    const Tensor c = batch_dot(a.reshape({-3, 0, 0}), b.reshape({-3, 0, 0}));
    return reshape_like(c, a, {.lhs_begin = 0, .lhs_end = 1, .rhs_begin = 0, .rhs_end = 2});
  }
  return linalg_gemm2(a, b);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) return product_of_floats(a, b);
  // Whole numbers: exact in double up to 2^53.
  return product_of_floats(a.astype(DType::float64), b.astype(DType::float64)).astype(a.dtype());
}

namespace {

Tensor general_product(Call& c) {
  const bool ta = c.integer("transA", 0), tb = c.integer("transB", 0);
  const double alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  const Tensor a = ta ? transpose(c.in(0)) : c.in(0), b = c.in(1);
  const bool is_float = is_floating(a.dtype());
  const bool is_layer = is_float && alpha == 1 && b.ndim() == 2;
  const Tensor weight = is_layer ? (tb ? b : transpose(b)) : Tensor();
  if (is_layer && c.has(2) && beta == 1 && c.rank(2) == 1 && c.in(2).extent(0) == weight.extent(0))
    return fully_connected(a, weight, c.in(2), {.num_hidden = weight.extent(0), .flatten = false});
  Tensor y = is_layer ? fully_connected(a, weight, {.num_hidden = weight.extent(0), .no_bias = true, .flatten = false})
                      : matmul(a, tb ? transpose(b) : b);
  if (alpha != 1) y = y * alpha;
  if (c.has(2)) y = broadcast_add(y, beta == 1 ? c.in(2) : c.in(2) * beta);
  return y.astype(a.dtype());
}

Tensor by_subscripts(Call& c) {
  std::string text = c.text("equation", "");
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char ch) { return std::isspace(ch); }), text.end());
  return einsum(c.all(), {.subscripts = text});
}

}  // namespace

void add_linear_rules(Rules& rules) {
  rules.add("MatMul", [](Call& c) { return matmul(c.in(0), c.in(1)); });
  rules.add("Gemm", general_product);
  rules.add("Einsum", by_subscripts);
  rules.add("Det", [](Call& c) { return c.rank(0) == 2 ? linalg_det(c.in(0)).reshape({}) : linalg_det(c.in(0)); });
}

}  // namespace gluino::onnx
