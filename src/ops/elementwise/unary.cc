// Elementwise functions of one tensor.
#include <numbers>

#include "ops/common.h"
#include "ops/elementwise/slopes.h"

namespace gluino::ops {
namespace {

static Tensor nothing(const Gradient&) { return {}; }  // flows back

// name, doc, expression in x, what the gradient reads, gradient in g, domain of the sample
#define UNARY(name, text, expression, uses, grad, low, high)                 \
  GLUINO_OP(name, NoAttrs) {                                                 \
    op.doc(text)                                                             \
        .input("data")                                                       \
        .same_shape()                                                        \
        .scalar([](Expr x) { return expression; })                           \
        .gradient(uses, [](const Gradient& g) -> Tensors { return {grad}; }) \
        .sample({uniform_sample({3, 4}, low, high)});                        \
  }
const Uses IN{{0}, {}}, OUT{{}, {0}}, NONE{};  // which values a gradient reads
#define X g.in(0)
#define Y g.out(0)
#define H g.head()
static Tensor f(std::string_view name, const Tensor& x) { return call(name, {x}); }
constexpr double kPi = std::numbers::pi, kLn2 = std::numbers::ln2, kLn10 = std::numbers::ln10;

// One line per entry reads best.
// clang-format off
UNARY(sqrt, "Square root.", sqrt(x), OUT, H * 0.5 / Y, 0.2, 3)
UNARY(rsqrt, "One over the square root.", 1 / sqrt(x), (Uses{{0}, {0}}), H * -0.5 * Y / X, 0.2, 3)
UNARY(cbrt, "Cube root.", cbrt(x), OUT, H / (3 * f("square", Y)), 0.2, 3)
UNARY(rcbrt, "One over the cube root.", 1 / cbrt(x), (Uses{{0}, {0}}), H * Y / (-3 * X), 0.2, 3)
UNARY(exp, "e to the power of x.", exp(x), OUT, H * Y, -2, 2)
UNARY(expm1, "exp(x) - 1, exact near 0.", expm1(x), OUT, H * (Y + 1), -2, 2)
UNARY(log, "Natural logarithm.", log(x), IN, H / X, 0.2, 3)
UNARY(log2, "Logarithm to base 2.", log2(x), IN, H / (X * kLn2), 0.2, 3)
UNARY(log10, "Logarithm to base 10.", log10(x), IN, H / (X * kLn10), 0.2, 3)
UNARY(log1p, "log(1 + x), exact near 0.", log1p(x), IN, H / (X + 1), -0.8, 3)
UNARY(sin, "Sine.", sin(x), IN, H * f("cos", X), -3, 3)
UNARY(cos, "Cosine.", cos(x), IN, -(H * f("sin", X)), -3, 3)
UNARY(tan, "Tangent.", tan(x), OUT, H * (f("square", Y) + 1), -1, 1)
UNARY(arcsin, "Inverse sine.", arcsin(x), IN, H * f("rsqrt", 1 - f("square", X)), -0.9, 0.9)
UNARY(arccos, "Inverse cosine.", arccos(x), IN, -(H * f("rsqrt", 1 - f("square", X))), -0.9, 0.9)
UNARY(arctan, "Inverse tangent.", arctan(x), IN, H / (f("square", X) + 1), -2, 2)
UNARY(sinh, "Hyperbolic sine.", sinh(x), IN, H * f("cosh", X), -2, 2)
UNARY(cosh, "Hyperbolic cosine.", cosh(x), IN, H * f("sinh", X), -2, 2)
UNARY(tanh, "Hyperbolic tangent.", tanh(x), OUT, slope_product("tanh", H, Y), -2, 2)
UNARY(arcsinh, "Inverse hyperbolic sine.", arcsinh(x), IN, H * f("rsqrt", f("square", X) + 1), -2, 2)
UNARY(arccosh, "Inverse hyperbolic cosine.", arccosh(x), IN, H * f("rsqrt", f("square", X) - 1), 1.2, 3)
UNARY(arctanh, "Inverse hyperbolic tangent.", arctanh(x), IN, H / (1 - f("square", X)), -0.9, 0.9)
UNARY(degrees, "Radians to degrees.", x * (180 / kPi), NONE, H * (180 / kPi), -3, 3)
UNARY(radians, "Degrees to radians.", x * (kPi / 180), NONE, H * (kPi / 180), -3, 3)
UNARY(reciprocal, "1 / x.", 1 / x, OUT, -(H * f("square", Y)), 0.3, 3)
UNARY(sigmoid, "Logistic function 1 / (1 + exp(-x)).", 1 / (1 + exp(-x)), OUT, slope_product("sigmoid", H, Y), -3, 3)
UNARY(softsign, "x / (1 + |x|).", x / (1 + abs(x)), IN, H / f("square", f("abs", X) + 1), -2, 2)
UNARY(softrelu, "log(1 + exp(x)) without overflow.", maximum(x, 0.0) + log1p(exp(-abs(x))), OUT, slope_product("softrelu", H, Y), -3, 3)
UNARY(erf, "Error function.", erf(x), IN, H * (2 / std::sqrt(kPi)) * f("exp", -f("square", X)), -2, 2)
UNARY(erfinv, "Inverse of the error function.", erfinv(x), OUT, H * (std::sqrt(kPi) / 2) * f("exp", f("square", Y)), -0.8, 0.8)
UNARY(gamma, "Gamma function.", gamma(x), (Uses{{0}, {0}}), H * Y * f("digamma", X), 0.5, 3)
UNARY(gammaln, "Logarithm of the absolute value of the gamma function.", gammaln(x), IN, H * f("digamma", X), 0.5, 3)
UNARY(silu, "x * sigmoid(x), also called swish.", x / (1 + exp(-x)), IN, H * f("sigmoid", X) * (1 + X * (1 - f("sigmoid", X))), -3, 3)
UNARY(round, "Nearest whole number, halves away from zero.", round(x), NONE, nothing(g), -3, 3)
UNARY(rint, "Nearest whole number, halves down.", rint(x), NONE, nothing(g), -3, 3)
UNARY(ceil, "Smallest whole number not below x.", ceil(x), NONE, nothing(g), -3, 3)
UNARY(floor, "Largest whole number not above x.", floor(x), NONE, nothing(g), -3, 3)
UNARY(trunc, "Whole part, towards zero.", trunc(x), NONE, nothing(g), -3, 3)
UNARY(fix, "Whole part, towards zero.", trunc(x), NONE, nothing(g), -3, 3)

// clang-format on

GLUINO_OP(digamma, NoAttrs) {
  op.doc("Logarithmic derivative of the gamma function.")
      .input("data")
      .same_shape()
      .scalar([](Expr x) { return digamma(x); })
      .gradient(IN, [](const Gradient& g) -> Tensors { return {H * f("_trigamma", X)}; })
      .sample({uniform_sample({3, 4}, 0.5, 3)});
}

// By steps up to the asymptotic series, whose error is below 1e-11 there (Abramowitz and Stegun, 6.4.6, 6.4.7 and 6.4.12).
static double trigamma(double x) {
  if (x <= 0) {
    const double turn = std::sin(kPi * x);
    return kPi * kPi / (turn * turn) - trigamma(1 - x);
  }
  double sum = 0;
  for (; x < 8; ++x) sum += 1 / (x * x);
  const double r = 1 / x, s = r * r;
  return sum + r * (1 + r / 2 + s * (1.0 / 6 - s * (1.0 / 30 - s * (1.0 / 42 - s / 30))));
}
GLUINO_OP(_trigamma, NoAttrs) {
  op.doc("Derivative of digamma.")
      .input("data")
      .same_shape()
      .kernel([](const NoAttrs&, KernelContext& k) {
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* x = k.in(0).data<T>();
          T* y = k.out_data<T>();
          for (int64_t i = 0; i < k.out().size(); ++i) y[i] = static_cast<T>(trigamma(static_cast<double>(x[i])));
        });
      })
      .not_differentiable("further polygamma functions are not operators")
      .sample({uniform_sample({3, 4}, 0.5, 3)});
}

// Functions of integers too.
#define NUMERIC_UNARY(name, text, expression, uses, grad)                    \
  GLUINO_OP(name, NoAttrs) {                                                 \
    op.doc(text)                                                             \
        .input("data")                                                       \
        .dtypes(DTypeSet::numeric)                                           \
        .same_shape()                                                        \
        .scalar([](Expr x) { return expression; })                           \
        .gradient(uses, [](const Gradient& g) -> Tensors { return {grad}; }) \
        .sample({{3, 4}});                                                   \
  }
// clang-format off
NUMERIC_UNARY(abs, "Absolute value.", abs(x), IN, H * f("sign", X))
NUMERIC_UNARY(sign, "-1, 0 or 1.", sign(x), NONE, nothing(g))
NUMERIC_UNARY(square, "x * x.", x * x, IN, H * 2 * X)
NUMERIC_UNARY(relu, "max(x, 0).", maximum(x, 0.0), OUT, slope_product("relu", H, Y))

// clang-format on

GLUINO_OP(negative, NoAttrs) {
  op.doc("-x.")
      .alias("_np_negative", "_npi_negative")
      .input("data")
      .dtypes(DTypeSet::numeric)
      .same_shape()
      .scalar([](Expr x) { return -x; })
      .gradient({}, [](const Gradient& g) -> Tensors { return {-g.head()}; })
      .sample({{3, 4}});
}

GLUINO_OP(logical_not, NoAttrs) {
  op.doc("1 where x is 0, else 0.")
      .input("data")
      .dtypes(DTypeSet::any)
      .same_shape()
      .scalar([](Expr x) { return logical_not(x); })
      .not_differentiable("piecewise constant")
      .sample({index_sample({3, 4}, 2)});
}

struct HardSigmoidAttrs {
  double alpha = 0.2, beta = 0.5;
  static void fields(AttrFields<HardSigmoidAttrs>& f) {
    f.field("alpha", &HardSigmoidAttrs::alpha, "slope").field("beta", &HardSigmoidAttrs::beta, "value at 0");
  }
};
GLUINO_OP(hard_sigmoid, HardSigmoidAttrs) {
  op.doc("alpha * x + beta, kept within 0 and 1.")
      .input("data")
      .same_shape()
      .scalar([](const HardSigmoidAttrs& a, Expr x) { return maximum(minimum(x * a.alpha + a.beta, 1.0), 0.0); })
      .gradient(OUT,
                [](const HardSigmoidAttrs& a, const Gradient& g) -> Tensors {
                  return {H * a.alpha * (indicator(Y, ">", 0) * indicator(Y, "<", 1))};
                })
      .sample({uniform_sample({3, 4}, -4, 4)})
      .sample({{5}}, {.alpha = 0.5, .beta = 0.3});
}

struct ClipAttrs {
  double a_min = 0, a_max = 0;
  static void fields(AttrFields<ClipAttrs>& f) {
    f.required("a_min", &ClipAttrs::a_min, "lower bound").required("a_max", &ClipAttrs::a_max, "upper bound");
  }
};
GLUINO_OP(clip, ClipAttrs) {
  op.doc("Values below a_min become a_min, values above a_max become a_max.")
      .input("data")
      .dtypes(DTypeSet::numeric)
      .same_shape()
      .scalar([](const ClipAttrs& a, Expr x) { return minimum(maximum(x, a.a_min), a.a_max); })
      .gradient(IN,
                [](const ClipAttrs& a, const Gradient& g) -> Tensors {
                  return {H * (indicator(X, ">=", a.a_min) * indicator(X, "<=", a.a_max))};
                })
      .sample({{3, 4}}, {.a_min = -0.5, .a_max = 1});
}

GLUINO_OP(smooth_l1, ScalarAttrs) {
  op.doc("Huber-like loss: (scalar x)^2 / 2 near 0, |x| - 1 / (2 scalar^2) beyond 1 / scalar^2.")
      .input("data")
      .same_shape()
      .scalar([](const ScalarAttrs& a, Expr x) {
        const double s = a.scalar * a.scalar;
        return select(abs(x) < 1 / s, 0.5 * s * (x * x), abs(x) - 0.5 / s);
      })
      .gradient(IN,
                [](const ScalarAttrs& a, const Gradient& g) -> Tensors {
                  const double s = a.scalar * a.scalar;
                  return {H * call("clip", {X * s}, {{"a_min", -1.0}, {"a_max", 1.0}})};
                })
      .sample({{3, 4}})
      .sample({{5}}, {.scalar = 2});
}

}  // namespace
}  // namespace gluino::ops
