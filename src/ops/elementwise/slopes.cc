#include "ops/elementwise/slopes.h"

#include <numbers>

#include "ops/elementwise/selu.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

enum class Curve : uint8_t { relu, sigmoid, tanh, softrelu, softsign, log_sigmoid, leaky, elu, selu, gelu };
struct SlopeAttrs {
  Curve of = Curve::relu;
  double size = 1;
  static void fields(AttrFields<SlopeAttrs>& f) {
    f.choice("of", &SlopeAttrs::of, {"relu", "sigmoid", "tanh", "softrelu", "softsign", "log_sigmoid", "leaky", "elu", "selu", "gelu"},
             "the function")
        .field("size", &SlopeAttrs::size, "slope of leaky and size of elu below 0");
  }
};
constexpr double kSqrt2 = std::numbers::sqrt2, kDensity = 0.39894228040143267794;  // 1 / sqrt(2 pi)

static Expr slope(const SlopeAttrs& a, const Expr& v) {
  switch (a.of) {
    case Curve::relu: return v > 0;
    case Curve::sigmoid: return v * (1 - v);
    case Curve::tanh: return 1 - v * v;
    case Curve::softrelu: return -expm1(-v);
    case Curve::softsign: return (1 - abs(v)) * (1 - abs(v));
    case Curve::log_sigmoid: return -expm1(v);
    case Curve::leaky: return select(v > 0, 1.0, a.size);
    case Curve::elu: return select(v > 0, 1.0, a.size * exp(v));
    case Curve::selu: return select(v > 0, kSeluScale, kSeluScale * kSeluAlpha * exp(v));
    case Curve::gelu: break;
  }
  return 0.5 * (1 + erf(v / kSqrt2)) + v * exp(v * v * -0.5) * kDensity;
}
// How the slope changes with the value; written with operators, so that it can be differentiated as often as one likes.
static Tensor bend(const SlopeAttrs& a, const Tensor& v) {
  const auto below = [&](double size) { return call("where", {v > 0, call("zeros_like", {v}), size * call("exp", {v})}); };
  switch (a.of) {
    case Curve::relu:
    case Curve::leaky: return call("zeros_like", {v});
    case Curve::sigmoid: return 1 - 2 * v;
    case Curve::tanh: return -2 * v;
    case Curve::softrelu: return call("exp", {-v});
    case Curve::softsign: return -2 * (1 - call("abs", {v})) * call("sign", {v});
    case Curve::log_sigmoid: return -call("exp", {v});
    case Curve::elu: return below(a.size);
    case Curve::selu: return below(kSeluScale * kSeluAlpha);
    case Curve::gelu: break;
  }
  return (2 - v * v) * call("exp", {v * v * -0.5}) * kDensity;
}

GLUINO_OP(_slope_product, SlopeAttrs) {
  op.doc(
        "head times the slope of an activation function, from its result (relu, sigmoid, tanh, softrelu, softsign, log_sigmoid) or "
        "argument.")
      .input("head")
      .input("value")
      .same_shape()
      .scalar([](const SlopeAttrs& a, Expr head, Expr value) { return head * slope(a, value); })
      .gradient({{0, 1}, {}},
                [](const SlopeAttrs& a, const Gradient& g) -> Tensors {
                  Tensors result(2);
                  if (g.wants(0)) result[0] = call_with("_slope_product", {g.head(), g.in(1)}, a);
                  if (g.wants(1)) result[1] = g.head() * g.in(0) * bend(a, g.in(1));
                  return result;
                })
      .sample({{3, 4}, {3, 4}})
      .sample({{3, 4}, uniform_sample({3, 4}, 0.1, 0.9)}, {.of = Curve::sigmoid})
      .sample({{3, 4}, uniform_sample({3, 4}, -0.9, 0.9)}, {.of = Curve::tanh})
      .sample({{3, 4}, uniform_sample({3, 4}, 0.1, 2)}, {.of = Curve::softrelu})
      .sample({{3, 4}, uniform_sample({3, 4}, 0.1, 0.9)}, {.of = Curve::softsign})
      .sample({{3, 4}, uniform_sample({3, 4}, -2, -0.1)}, {.of = Curve::log_sigmoid})
      .sample({{3, 4}, {3, 4}}, {.of = Curve::leaky, .size = 0.3})
      .sample({{3, 4}, {3, 4}}, {.of = Curve::elu, .size = 0.3})
      .sample({{3, 4}, {3, 4}}, {.of = Curve::selu})
      .sample({{3, 4}, {3, 4}}, {.of = Curve::gelu});
}

}  // namespace

Tensor slope_product(std::string_view of, const Tensor& head, const Tensor& value, double size) {
  return call("_slope_product", {head, value}, {{"of", std::string(of)}, {"size", size}});
}

}  // namespace gluino::ops
