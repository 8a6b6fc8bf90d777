// Arithmetic, comparison and activation functions, element by element.
#include <limits>

#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);
using Unary = Tensor (*)(const Tensor&);

// Before operator set 7 the second input was broadcast from an axis on.
Tensor aligned(Call& c, const Tensor& b) {
  if (c.version() >= 7 || !c.has_attribute("axis")) return b;
  const int rank = c.rank(0), axis = c.axis(c.integer("axis", 0), rank);
  Tensor wide = b;
  for (int i = axis + b.ndim(); i < rank; ++i) wide = expand_dims(wide, {.axis = wide.ndim()});
  return wide;
}

// The number of a constant that leaves the shape of the other operand as it is. It becomes an attribute of the operator, where the compiler
// sees it: a tensor from outside could be any number.
std::optional<double> number_beside(Call& c, int i) {
  const Value& v = c.value(i);
  if (v.kind != Value::Kind::constant || v.extents || v.tensor.size() != 1) return {};
  const Tensor& other = c.in(1 - i);
  if (!is_floating(other.dtype()) || v.tensor.dtype() != other.dtype() || v.tensor.ndim() > other.ndim()) return {};
  return c.number(i);
}

// With what it is for a number as one of the operands.
Rule binary(Binary f, Tensor (*with_number)(const Tensor&, double), Tensor (*of_number)(double, const Tensor&)) {
  return [=](Call& c) -> Tensors {
    if (const auto number = number_beside(c, 1)) return {with_number(c.in(0), *number)};
    if (const auto number = number_beside(c, 0)) return {of_number(*number, c.in(1))};
    return {f(c.in(0), aligned(c, c.in(1)))};
  };
}
Rule comparison(Binary f) {
  return [f](Call& c) -> Tensors { return {f(c.in(0), aligned(c, c.in(1))).astype(DType::boolean)}; };
}
Rule unary(Unary f) {
  return [f](Call& c) -> Tensors { return {f(c.in(0))}; };
}
Rule variadic(Binary f) {
  return [f](Call& c) -> Tensors {
    Tensor result = c.in(0);
    for (int i = 1; i < c.num_inputs(); ++i) result = f(result, c.in(i));
    return {result};
  };
}

Tensor remainder_like_c(const Tensor& a, const Tensor& b) {
  const Tensor r = broadcast_mod(a, b);
  const Tensor other_sign = broadcast_lesser(broadcast_mul(r, a), constant_of(0, a.dtype()));
  return where_broadcast(other_sign, broadcast_sub(r, b), r);
}

Tensor power(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) return broadcast_power(a, b.astype(a.dtype()));
  const DType wide = is_floating(b.dtype()) ? b.dtype() : DType::float64;
  return broadcast_power(a.astype(wide), b.astype(wide)).astype(a.dtype());
}

Tensor shift(Call& c) {
  const Tensor &a = c.in(0), &b = c.in(1);
  const Tensor factor = broadcast_power(constant_of(2, DType::float64), b.astype(DType::float64)).astype(a.dtype());
  return c.text("direction", "") == "LEFT" ? broadcast_mul(a, factor) : broadcast_div(a, factor);
}

Tensor bounded(Call& c) {
  const Tensor& x = c.in(0);
  const double infinity = std::numeric_limits<double>::infinity();
  double low = c.number("min", -infinity), high = c.number("max", infinity);
  const auto is_number = [&](int i) { return !c.has(i) || c.value(i).is_readable(); };
  if (is_number(1) && is_number(2) && is_floating(x.dtype())) {
    if (c.has(1)) low = c.number(1);
    if (c.has(2)) high = c.number(2);
    if (low == 0 && high == infinity) return relu(x);
    if (high == infinity) return call("_maximum_scalar", {x}, {{"scalar", low}});
    if (low == -infinity) return call("_minimum_scalar", {x}, {{"scalar", high}});
    return clip(x, {.a_min = low, .a_max = high});
  }
  Tensor result = x;
  if (c.has(1)) result = broadcast_maximum(result, c.in(1));
  if (c.has(2)) result = broadcast_minimum(result, c.in(2));
  return result;
}

Tensor is_infinite(Call& c) {
  const Tensor& x = c.in(0);
  const bool negative = c.integer("detect_negative", 1), positive = c.integer("detect_positive", 1);
  if (negative && positive) return call("_npi_isinf", {x}).astype(DType::boolean);
  if (!negative && !positive) return zeros_like(x).astype(DType::boolean);
  return call(negative ? "_npi_isneginf" : "_npi_isposinf", {x}).astype(DType::boolean);
}

Tensor exponential_linear(const Tensor& x, double alpha, double scale) {
  return where_broadcast(x > 0, x * scale, expm1(x) * (alpha * scale));
}

Tensor shrink(Call& c) {
  const Tensor x = c.in(0);
  const double bias = c.number("bias", 0), lambda = c.number("lambd", 0.5);
  const Tensor zero = zeros_like(x);
  return where_broadcast(x < -lambda, x + bias, where_broadcast(x > lambda, x - bias, zero));
}

Tensor gaussian_linear(Call& c) {
  const Tensor& x = c.in(0);
  if (c.text("approximate", "none") == "tanh") return x * 0.5 * (tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1);
  return leaky_relu(x, {.act_type = "gelu"}).at(0);
}

// Operator sets before 13 see a matrix of all axes before the given one and all from it on.
Rule over_axis(Tensor (*f)(const Tensor& x, int axis)) {
  return [f](Call& c) -> Tensors {
    const Tensor& x = c.in(0);
    const int rank = x.ndim();
    if (c.version() >= 13) return {f(x, c.axis(c.integer("axis", -1), rank))};
    const int axis = c.axis(c.integer("axis", 1), rank);
    if (axis == rank - 1) return {f(x, axis)};
    Shape flat;
    for (int i = 0; i < axis; ++i) flat.push_back(0);
    flat.push_back(-1);
    return {reshape_like(f(x.reshape(flat), axis), x)};
  };
}

Tensor hard_maximum(const Tensor& x, int axis) {
  const Tensor where_largest = argmax(x, {.axis = axis}).astype(DType::int64);
  const Tensor hot = one_hot(where_largest, {.depth = x.extent(axis), .dtype = x.dtype()});
  Shape order;
  for (int i = 0; i < x.ndim(); ++i) order.push_back(i == axis ? x.ndim() - 1 : i < axis ? i : i - 1);
  return transpose(hot, {.axes = order});
}

DType target_type(Call& c) { return carrier(static_cast<ElementType>(c.integer("to", 1)), "the target"); }

Tensors drop(Call& c) {
  const Tensor x = c.in(0);
  const double ratio = c.has(1) ? c.number(1) : c.number("ratio", 0.5);
  const bool always = c.has(2) && c.whole_number(2) != 0 && ratio != 0;
  if (!c.wants(1)) return {dropout(x, {.p = ratio, .mode = always ? "always" : "training"})};
  const Tensor kept = always ? dropout(ones_like(x), {.p = ratio, .mode = "always"}) : ones_like(x);
  return {always ? x * kept : x, kept.astype(DType::boolean)};
}

}  // namespace

void add_elementwise_rules(Rules& rules) {
  rules.add("Add", binary(
                       broadcast_add, [](const Tensor& x, double s) { return x + s; }, [](double s, const Tensor& x) { return x + s; }));
  rules.add("Sub", binary(
                       broadcast_sub, [](const Tensor& x, double s) { return x - s; }, [](double s, const Tensor& x) { return s - x; }));
  rules.add("Mul", binary(
                       broadcast_mul, [](const Tensor& x, double s) { return s == 1 ? identity(x) : x * s; },
                       [](double s, const Tensor& x) { return s == 1 ? identity(x) : x * s; }));
  rules.add("Div", binary(  // whole numbers towards 0
                       broadcast_div, [](const Tensor& x, double s) { return s == 1 ? identity(x) : x / s; },
                       [](double s, const Tensor& x) { return s / x; }));
  rules.add("Pow", [](Call& c) {
    const auto exponent = number_beside(c, 1);
    return exponent ? call("_power_scalar", {c.in(0)}, {{"scalar", *exponent}}) : power(c.in(0), aligned(c, c.in(1)));
  });
  rules.add("Mod", [](Call& c) { return c.integer("fmod", 0) ? remainder_like_c(c.in(0), c.in(1)) : broadcast_mod(c.in(0), c.in(1)); });
  rules.add("BitShift", shift);
  rules.add("Min", variadic(broadcast_minimum));
  rules.add("Max", variadic(broadcast_maximum));
  rules.add("Sum", variadic(broadcast_add));
  rules.add("Mean", [](Call& c) { return variadic(broadcast_add)(c).at(0) / static_cast<double>(c.num_inputs()); });

  rules.add("Equal", comparison(broadcast_equal));
  rules.add("Greater", comparison(broadcast_greater));
  rules.add("GreaterOrEqual", comparison(broadcast_greater_equal));
  rules.add("Less", comparison(broadcast_lesser));
  rules.add("LessOrEqual", comparison(broadcast_lesser_equal));
  rules.add("And", comparison(broadcast_logical_and));
  rules.add("Or", comparison(broadcast_logical_or));
  rules.add("Xor", comparison(broadcast_logical_xor));
  rules.add("Not", [](Call& c) { return logical_not(c.in(0)).astype(DType::boolean); });
  rules.add("IsNaN", [](Call& c) { return call("_npi_isnan", {c.in(0)}).astype(DType::boolean); });
  rules.add("IsInf", is_infinite);
  rules.add("Where", [](Call& c) { return where_broadcast(c.in(0), c.in(1), c.in(2)); });

  const std::pair<const char*, Unary> functions[] = {{"Abs", abs},
                                                     {"Neg", negative},
                                                     {"Sign", sign},
                                                     {"Sqrt", sqrt},
                                                     {"Exp", exp},
                                                     {"Log", log},
                                                     {"Sin", sin},
                                                     {"Cos", cos},
                                                     {"Tan", tan},
                                                     {"Asin", arcsin},
                                                     {"Acos", arccos},
                                                     {"Atan", arctan},
                                                     {"Sinh", sinh},
                                                     {"Cosh", cosh},
                                                     {"Tanh", tanh},
                                                     {"Asinh", arcsinh},
                                                     {"Acosh", arccosh},
                                                     {"Atanh", arctanh},
                                                     {"Ceil", ceil},
                                                     {"Floor", floor},
                                                     {"Round", round_to_even},
                                                     {"Reciprocal", reciprocal},
                                                     {"Erf", erf},
                                                     {"Relu", relu},
                                                     {"Sigmoid", sigmoid},
                                                     {"Softplus", softrelu},
                                                     {"Softsign", softsign},
                                                     {"Identity", identity}};
  for (const auto& [name, f] : functions) rules.add(name, unary(f));

  rules.add("Clip", bounded);
  rules.add("LeakyRelu", [](Call& c) { return leaky_relu(c.in(0), {.act_type = "leaky", .slope = c.number("alpha", 0.01)}).at(0); });
  rules.add("Elu", [](Call& c) { return exponential_linear(c.in(0), c.number("alpha", 1), 1); });
  rules.add("Selu", [](Call& c) {
    return exponential_linear(c.in(0), c.number("alpha", 1.67326319217681884765625), c.number("gamma", 1.05070102214813232421875));
  });
  rules.add("Celu", [](Call& c) {
    const double alpha = c.number("alpha", 1);
    const Tensor& x = c.in(0);
    return broadcast_maximum(x, zeros_like(x)) + broadcast_minimum(expm1(x / alpha) * alpha, zeros_like(x));
  });
  rules.add("HardSigmoid", [](Call& c) { return hard_sigmoid(c.in(0), {.alpha = c.number("alpha", 0.2), .beta = c.number("beta", 0.5)}); });
  rules.add("HardSwish", [](Call& c) { return c.in(0) * hard_sigmoid(c.in(0), {.alpha = 1.0 / 6, .beta = 0.5}); });
  rules.add("Mish", [](Call& c) { return c.in(0) * tanh(softrelu(c.in(0))); });
  rules.add("Gelu", gaussian_linear);
  // Without a choice between the two, whose truth values would have to be kept in the layout of images.
  rules.add("PRelu", [](Call& c) {
    const Tensor& x = c.in(0);
    return relu(x) + broadcast_mul(call("_minimum_scalar", {x}, {{"scalar", 0.0}}), aligned(c, c.in(1)));
  });
  rules.add("ThresholdedRelu", [](Call& c) { return where_broadcast(c.in(0) > c.number("alpha", 1), c.in(0), zeros_like(c.in(0))); });
  rules.add("Shrink", shrink);
  rules.add("Softmax", over_axis([](const Tensor& x, int axis) { return softmax(x, {.axis = axis}); }));
  rules.add("LogSoftmax", over_axis([](const Tensor& x, int axis) { return log_softmax(x, {.axis = axis}); }));
  rules.add("Hardmax", over_axis(hard_maximum));
  rules.add("Cast", [](Call& c) { return c.in(0).astype(target_type(c)); });
  rules.add("CastLike", [](Call& c) { return c.in(0).astype(c.in(1).dtype()); });
  rules.add("Dropout", drop);
}

}  // namespace gluino::onnx
