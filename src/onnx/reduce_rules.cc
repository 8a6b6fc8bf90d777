// Sums, products, extrema and norms along axes.
#include <algorithm>

#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

using Reduce = Tensor (*)(const Tensor& x, const Shape& axes, bool keepdims);

// Axes are an attribute, or from operator sets 13 (ReduceSum) and 18 (the others) on an input.
Rule reduction(Reduce f) {
  return [f](Call& c) -> Tensors {
    const Tensor& x = c.in(0);
    const auto given = c.integers("axes", 1);
    const int rank = x.ndim();
    Shape axes;
    if (given)
      for (const int64_t a : *given) axes.push_back(c.axis(a, rank));
    if (axes.empty()) {
      if (c.integer("noop_with_empty_axes", 0)) return {x};
      for (int i = 0; i < rank; ++i) axes.push_back(i);
    }
    std::sort(axes.begin(), axes.end());
    if (axes.empty()) return {f(x.reshape({1}), {0}, true).reshape({})};
    const bool keepdims = c.integer("keepdims", 1) != 0;
    const Tensor y = f(x, axes, keepdims).astype(x.dtype());
    return {!keepdims && axes.ndim() == rank ? y.reshape({}) : y};  // MXNet's reductions leave one axis
  };
}

Tensor total(const Tensor& x, const Shape& axes, bool keepdims) { return sum(x, {.axis = axes, .keepdims = keepdims}); }

Tensor log_sum_exp(const Tensor& x, const Shape& axes, bool keepdims) {
  const Tensor largest = max(x, {.axis = axes, .keepdims = true});
  const Tensor shifted = log(total(exp(broadcast_sub(x, largest)), axes, true));
  const Tensor all = broadcast_add(shifted, largest);
  return keepdims ? all : squeeze(all, {.axis = axes});
}

// The first or the last of equal elements.
Rule place_of(bool of_largest) {
  return [of_largest](Call& c) -> Tensors {
    const Tensor& x = c.in(0);
    const int axis = c.axis(c.integer("axis", 0), x.ndim());
    const bool keepdims = c.integer("keepdims", 1), last = c.integer("select_last_index", 0);
    const auto find = [&](const Tensor& t) {
      const Tensor at = of_largest ? argmax(t, {.axis = axis, .keepdims = keepdims}) : argmin(t, {.axis = axis, .keepdims = keepdims});
      return at.astype(DType::int64);
    };
    if (!last) return {find(x)};
    return {broadcast_sub(constant_of(static_cast<double>(x.extent(axis) - 1), DType::int64), find(flip(x, {.axis = Shape{axis}})))};
  };
}

}  // namespace

void add_reduce_rules(Rules& rules) {
  rules.add("ReduceSum", reduction(total));
  rules.add("ReduceMean", reduction([](const Tensor& x, const Shape& a, bool k) { return mean(x, {.axis = a, .keepdims = k}); }));
  rules.add("ReduceProd", reduction([](const Tensor& x, const Shape& a, bool k) { return prod(x, {.axis = a, .keepdims = k}); }));
  rules.add("ReduceMax", reduction([](const Tensor& x, const Shape& a, bool k) { return max(x, {.axis = a, .keepdims = k}); }));
  rules.add("ReduceMin", reduction([](const Tensor& x, const Shape& a, bool k) { return min(x, {.axis = a, .keepdims = k}); }));
  rules.add("ReduceL1", reduction([](const Tensor& x, const Shape& a, bool k) { return total(abs(x), a, k); }));
  rules.add("ReduceL2", reduction([](const Tensor& x, const Shape& a, bool k) { return sqrt(total(square(x), a, k)); }));
  rules.add("ReduceSumSquare", reduction([](const Tensor& x, const Shape& a, bool k) { return total(square(x), a, k); }));
  rules.add("ReduceLogSum", reduction([](const Tensor& x, const Shape& a, bool k) { return log(total(x, a, k)); }));
  rules.add("ReduceLogSumExp", reduction(log_sum_exp));
  rules.add("ArgMax", place_of(true));
  rules.add("ArgMin", place_of(false));
}

}  // namespace gluino::onnx
