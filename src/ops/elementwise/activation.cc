// Activation functions chosen by an attribute.
#include <cmath>
#include <numbers>

#include "dispatch/random.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa/primitives.h"
#include "ops/elementwise/selu.h"
#include "ops/nets.h"
#include "ops/elementwise/slopes.h"
#include "ops/random/distributions.h"

namespace gluino::ops {
namespace {

enum class ActivationType : uint8_t { relu, sigmoid, tanh, softrelu, softsign, log_sigmoid };

struct ActivationAttrs {
  ActivationType act_type = ActivationType::relu;
  static void fields(AttrFields<ActivationAttrs>& f) {
    f.choice("act_type", &ActivationAttrs::act_type, {"relu", "sigmoid", "tanh", "softrelu", "softsign", "log_sigmoid"}, "the function");
  }
  const char* name() const {
    static constexpr const char* kNames[] = {"relu", "sigmoid", "tanh", "softrelu", "softsign", "log_sigmoid"};
    return kNames[static_cast<size_t>(act_type)];
  }
};

static Expr softrelu(Expr x) {
  const Expr far = log1p(exp(-abs(x)));  // by itself: which summand of an expression comes first is the compiler's choice
  return maximum(x, 0.0) + far;
}

static Expr activation_expression(const ActivationAttrs& a, Expr x) {
  switch (a.act_type) {
    case ActivationType::relu: return maximum(x, 0.0);
    case ActivationType::sigmoid: return 1 / (1 + exp(-x));
    case ActivationType::tanh: return tanh(x);
    case ActivationType::softrelu: return softrelu(x);
    case ActivationType::softsign: return x / (1 + abs(x));
    case ActivationType::log_sigmoid: break;
  }
  return -softrelu(-x);
}

GLUINO_OP(Activation, ActivationAttrs) {
  op.doc("Applies the activation function act_type to every element.")
      .input("data")
      .same_shape()
      .scalar(activation_expression)
      .gradient({{}, {0}},
                // All these functions can be differentiated from their value, so only the output is kept.
                [](const ActivationAttrs& a, const Gradient& g) -> Tensors { return {slope_product(a.name(), g.head(), g.out(0))}; })
      .sample({{3, 4}})
      .sample({{3, 4}}, {.act_type = ActivationType::sigmoid})
      .sample({{3, 4}}, {.act_type = ActivationType::tanh})
      .sample({{3, 4}}, {.act_type = ActivationType::softrelu})
      .sample({{3, 4}}, {.act_type = ActivationType::softsign})
      .sample({{3, 4}}, {.act_type = ActivationType::log_sigmoid});
}

// ---- LeakyReLU
enum class LeakyType : uint8_t { rrelu, leaky, prelu, elu, selu, gelu };

struct LeakyReLUAttrs {
  LeakyType act_type = LeakyType::leaky;
  double slope = 0.25, lower_bound = 0.125, upper_bound = 0.334;
  static void fields(AttrFields<LeakyReLUAttrs>& f) {
    f.choice("act_type", &LeakyReLUAttrs::act_type, {"rrelu", "leaky", "prelu", "elu", "selu", "gelu"}, "the function")
        .field("slope", &LeakyReLUAttrs::slope, "slope of leaky and size of elu below 0")
        .field("lower_bound", &LeakyReLUAttrs::lower_bound, "smallest slope of rrelu")
        .field("upper_bound", &LeakyReLUAttrs::upper_bound, "largest slope of rrelu");
  }
  bool is_prelu() const { return act_type == LeakyType::prelu; }
  bool is_rrelu() const { return act_type == LeakyType::rrelu; }
  double mean_slope() const { return (lower_bound + upper_bound) / 2; }
};
constexpr double kSqrt2 = std::numbers::sqrt2;

static Expr leaky_expression(const LeakyReLUAttrs& a, std::span<const Expr> in) {
  const Expr x = in[0];
  switch (a.act_type) {
    case LeakyType::rrelu:
    case LeakyType::leaky: return a.slope > 0 && a.slope <= 1 ? maximum(x, x * a.slope) : select(x > 0, x, x * a.slope);  // the same bits
    case LeakyType::prelu: return select(x > 0, x, x * in[1]);
    case LeakyType::elu: return select(x > 0, x, a.slope * expm1(x));
    case LeakyType::selu: return kSeluScale * select(x > 0, x, kSeluAlpha * expm1(x));
    case LeakyType::gelu: break;
  }
  return 0.5 * x * (1 + erf(x / kSqrt2));
}

// The shape in which gamma of shape (C,) or (1,) lines up with axis 1 of data.
static Shape aligned_gamma(int64_t extent, int ndim) {
  if (ndim < 2) return {extent};
  Shape s = Shape::filled(ndim, 1);
  s[1] = extent;
  return s;
}

static void leaky_kernel(const LeakyReLUAttrs& a, KernelContext& k) {
  const Shape& shape = k.in(0).shape();
  Program program(kernels::compute_type(k.out().dtype()));
  std::vector<Expr> x{Expr::input(program, 0)};
  std::vector<kernels::Operand> operands{{bytes_of(k.in(0)), k.in(0).dtype(), &shape}};
  Shape gamma;
  if (a.is_prelu()) {
    gamma = aligned_gamma(k.in(1).size(), shape.ndim());
    x.push_back(Expr::input(program, 1));
    operands.push_back({bytes_of(k.in(1)), k.in(1).dtype(), &gamma});
  }
  leaky_expression(a, x);
  kernels::run_elementwise(program, operands, bytes_of(k.out()), k.out().dtype(), shape);
}

// rrelu: every element below 0 has a slope of its own while training, the mean of them all when predicting. The second
// output is what the input was multiplied with.
static void rrelu_kernel(const LeakyReLUAttrs& a, KernelContext& k) {
  const DType type = k.out().dtype() == DType::float64 ? DType::float64 : DType::float32;
  const bool narrow = k.out().dtype() != type;  // computed in float32, then converted
  const Tensor data = narrow ? k.in(0).astype(type) : k.in(0);
  Tensor result = narrow ? make_tensor(data.shape(), type, data.device()) : k.out(0);
  Tensor slopes = narrow ? make_tensor(data.shape(), type, data.device()) : k.out(1);
  visit_real(type, [&]<class T>(T*) {
    const T* x = data.data<T>();
    T *out = result.mutable_data<T>(), *factor = slopes.mutable_data<T>();
    std::fill_n(factor, data.size(), static_cast<T>(a.mean_slope()));
    if (k.training()) {
      const RandomStream stream = of_this_rank(next_random_stream(data.device()));
      for (int64_t i = 0, elements = data.size(); i < elements; ++i) {
        ElementRandom random(stream, i);
        factor[i] = static_cast<T>(Uniform::draw(a.lower_bound, a.upper_bound, random));
      }
    }
    for (int64_t i = 0, elements = data.size(); i < elements; ++i) {
      if (x[i] > 0) factor[i] = 1;
      out[i] = x[i] * factor[i];
    }
  });
  if (!narrow) return;
  kernels::convert(bytes_of(result), type, bytes_of(k.out(0)), k.out(0).dtype(), data.size());
  kernels::convert(bytes_of(slopes), type, bytes_of(k.out(1)), k.out(1).dtype(), data.size());
}

static Tensors leaky_gradient(const LeakyReLUAttrs& a, const Gradient& g) {
  const Tensor& h = g.head();
  if (a.act_type == LeakyType::rrelu) return {h * g.out(1)};
  const Tensor& x = g.in(0);
  switch (a.act_type) {
    case LeakyType::prelu: {
      const Tensor positive = indicator(x, ">", 0), negative = 1 - positive;
      const int ndim = g.like(0).ndim();
      const Tensor gamma = g.in(1).reshape(aligned_gamma(-1, ndim));
      return {h * (positive + negative * gamma), call("reshape_like", {reduce_like(h * x * negative, gamma), g.like(1)})};
    }
    case LeakyType::elu: return {slope_product("elu", h, x, a.slope)};
    case LeakyType::selu: return {slope_product("selu", h, x)};
    case LeakyType::gelu: return {slope_product("gelu", h, x)};
    default: return {slope_product("leaky", h, x, a.slope)};
  }
}

GLUINO_OP(LeakyReLU, LeakyReLUAttrs) {
  op.doc("Functions that are not flat below 0; rrelu draws its slopes while training.")
      .input("data")
      .input("gamma")
      .present_if([](const LeakyReLUAttrs& a) { return a.is_prelu(); })
      .shape([](const LeakyReLUAttrs& a, std::span<const Shape> in) {
        const int64_t channels = in[0].ndim() > 1 ? in[0][1] : in[0].elements();
        if (a.is_prelu() && in[1].elements() != 1 && in[1].elements() != channels)
          raise<ShapeError>("gamma has shape {}, but (1,) or ({},) is needed for data of shape {}", in[1], channels, in[0]);
        if (a.is_rrelu() && !(a.lower_bound <= a.upper_bound))
          raise<AttrError>("lower_bound = {} is above upper_bound = {}", a.lower_bound, a.upper_bound);
        return std::vector<Shape>(a.is_rrelu() ? 2 : 1, in[0]);
      })
      .outputs({"output", "factor"})
      .num_outputs([](const LeakyReLUAttrs& a) { return a.is_rrelu() ? 2 : 1; })
      .visible_outputs([](const LeakyReLUAttrs&) { return 1; })
      .mode_dependent()
      .random_if([](const LeakyReLUAttrs& a) { return a.is_rrelu(); })
      .complete([](const LeakyReLUAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        if (a.is_prelu() && is_open(in[1]) && in[0] && in[0]->ndim() > 1 && (*in[0])[1] >= 0) in[1] = Shape{(*in[0])[1]};
      })
      .kernel([](const LeakyReLUAttrs& a, KernelContext& k) { a.is_rrelu() ? rrelu_kernel(a, k) : leaky_kernel(a, k); })
      .inplace(0)
      .gradient({.inputs = {0, 1}, .last_output = true}, leaky_gradient)
      .sample({{3, 4}})
      .sample({{2, 3, 4}, {3}}, {.act_type = LeakyType::prelu})
      .sample({{2, 3}, {1}}, {.act_type = LeakyType::prelu})
      .sample({{3, 4}}, {.act_type = LeakyType::elu, .slope = 0.3})
      .sample({{3, 4}}, {.act_type = LeakyType::selu})
      .sample({{3, 4}}, {.act_type = LeakyType::gelu})
      .sample_without_gradient({{3, 4}}, {.act_type = LeakyType::rrelu});
}

}  // namespace
}  // namespace gluino::ops
