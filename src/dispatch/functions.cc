#include "gluino/functions.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "dispatch/infer.h"
#include "gluino/op.h"
#include "tensor/impl.h"

namespace gluino {

static Tensor with(std::string_view op, const Tensor& x, double number) { return call(op, {x}, {{"scalar", number}}); }
// Powers of whole numbers and fractions are fractions.
static Tensor fit_for_power(const Tensor& x, double exponent) {
  return !is_whole(x) || (exponent >= 0 && exponent == static_cast<double>(static_cast<int64_t>(exponent))) ? x : x.astype(DType::float32);
}

Tensor pow(const Tensor& x, const Tensor& exponent) { return call("broadcast_power", {x, exponent}); }
Tensor pow(const Tensor& x, double exponent) { return with("_power_scalar", fit_for_power(x, exponent), exponent); }
Tensor pow(double base, const Tensor& exponent) { return with("_rpower_scalar", fit_for_power(exponent, base), base); }
Tensor maximum(const Tensor& a, const Tensor& b) { return call("broadcast_maximum", {a, b}); }
Tensor maximum(const Tensor& a, double b) { return with("_maximum_scalar", fit_for_power(a, std::abs(b)), b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return call("broadcast_minimum", {a, b}); }
Tensor minimum(const Tensor& a, double b) { return with("_minimum_scalar", fit_for_power(a, std::abs(b)), b); }

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.ndim() == 0 || b.ndim() == 0) raise<ShapeError>("matmul: shapes {} and {}, but both need at least one axis", a.shape(), b.shape());
  if (a.ndim() == 1 && b.ndim() == 1) return call("dot", {a, b}).reshape({});
  if (a.ndim() == 1) return call("squeeze", {matmul(a[{kNewAxis, kEllipsis}], b)}, {{"axis", Shape{-2}}});
  if (b.ndim() == 1) return call("squeeze", {matmul(a, b[{kEllipsis, kNewAxis}])}, {{"axis", Shape{-1}}});
  if (a.ndim() == 2 && b.ndim() == 2) return call("dot", {a, b});
  const auto leading = [](const Tensor& t) { return Shape(t.shape().data(), t.ndim() - 2); };
  if (a.ndim() == b.ndim() && leading(a) == leading(b)) return call("_linalg_gemm2", {a, b});
  const Shape both[] = {leading(a), leading(b)};
  const auto spread = [batch = broadcast_shapes(both)](const Tensor& t) {
    Shape shape = batch;
    shape.push_back(t.extent(-2));
    shape.push_back(t.extent(-1));
    return call("broadcast_to", {t}, {{"shape", shape}});
  };
  const auto deep = [](Tensor t, int ndim) {
    while (t.ndim() < ndim) t = t[{kNewAxis, kEllipsis}];
    return t;
  };
  const int ndim = std::max(a.ndim(), b.ndim());
  return call("_linalg_gemm2", {spread(deep(a, ndim)), spread(deep(b, ndim))});
}
Tensor outer(const Tensor& a, const Tensor& b) { return a.reshape({-1, 1}) * b.reshape({1, -1}); }

// Column number minus row number, for the last two axes.
static Tensor offsets(const Tensor& x) {
  if (x.ndim() < 2) raise<ShapeError>("a matrix is needed, but the tensor has shape {}", x.shape());
  const TensorOptions options{.dtype = DType::int64};
  return arange(static_cast<double>(x.extent(-1)), options).reshape({1, -1}) -
         arange(static_cast<double>(x.extent(-2)), options).reshape({-1, 1});
}
Tensor tril(const Tensor& x, int64_t diagonal) { return call("_npi_where", {offsets(x) <= diagonal, x, zeros_like(x)}); }
Tensor triu(const Tensor& x, int64_t diagonal) { return call("_npi_where", {offsets(x) >= diagonal, x, zeros_like(x)}); }

Tensor roll(const Tensor& x, int64_t shift, std::optional<int64_t> axis) {
  if (!axis) return call("reshape_like", {roll(x.reshape({-1}), shift, 0), x});
  const int64_t extent = x.extent(*axis);
  if (extent == 0) return x.copy();
  const int64_t at = extent - ((shift % extent) + extent) % extent;  // what comes first in the result
  const auto part = [&](int64_t begin, int64_t end) { return call("slice_axis", {x}, {{"axis", *axis}, {"begin", begin}, {"end", end}}); };
  if (at == extent) return x.copy();
  return call("Concat", {part(at, extent), part(0, at)}, {{"dim", *axis}, {"num_args", int64_t{2}}});
}
Tensors meshgrid(const Tensors& axes) {
  Shape shape;
  for (const Tensor& t : axes) {
    if (t.ndim() != 1) raise<ShapeError>("meshgrid: vectors are needed, but one has shape {}", t.shape());
    shape.push_back(t.extent(0));
  }
  Tensors grids;
  for (size_t i = 0; i < axes.size(); ++i) {
    Shape own = Shape::filled(shape.ndim(), 1);
    own[static_cast<int>(i)] = -1;
    grids.push_back(call("broadcast_to", {axes[i].reshape(own)}, {{"shape", shape}}));
  }
  return grids;
}

Tensor isnan(const Tensor& x) { return call("_npi_isnan", {x}); }
Tensor isinf(const Tensor& x) { return call("_npi_isinf", {x}); }
Tensor isfinite(const Tensor& x) { return call("_npi_isfinite", {x}); }
Tensor any(const Tensor& x, const Axes& axes, bool keepdims) { return (x != 0).sum(axes, keepdims) > 0; }
Tensor all(const Tensor& x, const Axes& axes, bool keepdims) { return (x == 0).sum(axes, keepdims) == 0; }

Tensor nonzero(const Tensor& x) {
  const std::vector<bool> found = [&] {
    const auto flags = (x != 0).to_vector<uint8_t>();
    return std::vector<bool>(flags.begin(), flags.end());
  }();
  const Shape shape = x.shape();
  std::vector<int64_t> places;
  int64_t count = 0;
  for (size_t flat = 0; flat < found.size(); ++flat) {
    if (!found[flat]) continue;
    ++count;
    places.resize(places.size() + static_cast<size_t>(shape.ndim()));
    auto rest = static_cast<int64_t>(flat);
    for (int axis = shape.ndim() - 1; axis >= 0; --axis) {
      places[places.size() - static_cast<size_t>(shape.ndim() - axis)] = rest % shape[axis];
      rest /= shape[axis];
    }
  }
  return from_vector(places, Shape{count, shape.ndim()});
}
Tensor unique(const Tensor& x) {
  if (x.dtype() == DType::boolean) return unique(x.astype(DType::uint8)).astype(DType::boolean);
  return visit_dtype(x.dtype(), [&]<class T>(T*) {
    if constexpr (std::is_same_v<T, bool>) {
      return Tensor();
    } else {
      auto values = x.to_vector<T>();
      std::sort(values.begin(), values.end(), [](T a, T b) { return a < b || (a == a && b != b); });  // not-a-numbers last
      values.erase(std::unique(values.begin(), values.end()), values.end());
      return from_vector(values);
    }
  });
}

static Tensor swapped(const Tensor& x) { return call("SwapAxis", {x}, {{"dim1", int64_t{-1}}, {"dim2", int64_t{-2}}}); }
Svd svd(const Tensor& x) {
  const Tensors found = call_all("_npi_svd", Tensors{x});
  return {found[0], found[1], found[2]};
}
Qr qr(const Tensor& x) {
  const Tensors found = call_all("_linalg_gelqf", Tensors{swapped(x)});  // Q and L, whose product L * Q is the transpose
  return {swapped(found[0]), swapped(found[1])};
}

}  // namespace gluino
