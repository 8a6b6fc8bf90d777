// Operators that work element by element.
#include <cmath>
#include <numbers>

#include "base/format.h"
#include "onnx/export/exporter.h"

namespace gluino::onnx {
namespace {

ExportRule unary(const std::string& type) {
  return [type](const ExportCall& c) { c.put(type, {c.in(0)}); };
}
ExportRule binary(const std::string& type) {
  return [type](const ExportCall& c) { c.put(type, {c.in(0), c.in(1)}); };
}

std::string cast_to(const ExportCall& c, const std::string& value, DType from, DType to) {
  return from == to ? value : c.add("Cast", {value}, {{"to", attribute_of(static_cast<int64_t>(element_type(to)))}});
}
void put_cast(const ExportCall& c, const std::string& value, DType from, DType to) {
  if (from == to)
    c.put_as(value);
  else
    c.put("Cast", {value}, {{"to", attribute_of(static_cast<int64_t>(element_type(to)))}});
}

// MXNet's comparisons give numbers, ONNX's truth values.
ExportRule comparison(const std::string& type, bool negated = false) {
  return [=](const ExportCall& c) {
    std::string y = c.add(type, {c.in(0), c.in(1)});
    if (negated) y = c.add("Not", {y});
    put_cast(c, y, DType::boolean, c.out_dtype());
  };
}
ExportRule comparison_with_number(const std::string& type, bool negated = false) {
  return [=](const ExportCall& c) {
    std::string y = c.add(type, {c.in(0), c.number_of(c.number("scalar"), c.dtype(0))});
    if (negated) y = c.add("Not", {y});
    put_cast(c, y, DType::boolean, c.out_dtype());
  };
}
ExportRule with_number(const std::string& type, bool number_first = false) {
  return [=](const ExportCall& c) {
    const std::string number = c.number_of(c.number("scalar"), c.out_dtype()), x = cast_to(c, c.in(0), c.dtype(0), c.out_dtype());
    c.put(type, number_first ? std::vector{number, x} : std::vector{x, number});
  };
}
ExportRule logical(const std::string& type) {
  return [type](const ExportCall& c) {
    const auto truth = [&](int i) { return cast_to(c, c.in(i), c.dtype(i), DType::boolean); };
    put_cast(c, c.add(type, {truth(0), truth(1)}), DType::boolean, c.out_dtype());
  };
}

std::string number(const ExportCall& c, double value) { return c.number_of(value, c.out_dtype()); }

void gelu(const ExportCall& c) {
  const std::string x = c.in(0);
  const std::string inner = c.add("Erf", {c.add("Div", {x, number(c, std::numbers::sqrt2)})});
  c.put("Mul", {c.add("Mul", {x, number(c, 0.5)}), c.add("Add", {inner, number(c, 1)})});
}

void leaky(const ExportCall& c) {
  const std::string type = c.text("act_type");
  if (type == "gelu") return gelu(c);
  if (type == "leaky") return c.put("LeakyRelu", {c.in(0)}, {{"alpha", attribute_of(c.number("slope"))}});
  if (type == "elu") return c.put("Elu", {c.in(0)}, {{"alpha", attribute_of(c.number("slope"))}});
  if (type == "selu") return c.put("Selu", {c.in(0)});
  if (type == "rrelu")
    return c.put("LeakyRelu", {c.in(0)}, {{"alpha", attribute_of((c.number("lower_bound") + c.number("upper_bound")) / 2)}});
  // One slope per channel, which stands on axis 1.
  std::vector<int64_t> codes{-1};
  for (int i = 2; i < c.rank(0); ++i) codes.push_back(1);
  const std::string slope = c.shape(1).elements() == 1 ? c.in(1) : c.add("Reshape", {c.in(1), c.whole_numbers(codes)});
  c.put("PRelu", {c.in(0), slope});
}

void activation(const ExportCall& c) {
  const std::string type = c.text("act_type");
  if (type == "log_sigmoid") return c.put("Log", {c.add("Sigmoid", {c.in(0)})});
  const std::map<std::string, std::string> names{
      {"relu", "Relu"}, {"sigmoid", "Sigmoid"}, {"tanh", "Tanh"}, {"softrelu", "Softplus"}, {"softsign", "Softsign"}};
  c.put(names.at(type), {c.in(0)});
}

void clip(const ExportCall& c) {
  c.put("Clip", {c.in(0), c.number_of(c.number("a_min"), c.dtype(0)), c.number_of(c.number("a_max"), c.dtype(0))});
}

void sum_of_all(const ExportCall& c) {
  std::vector<std::string> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.in(i));
  c.put("Sum", inputs);
}

void where_not_zero(const ExportCall& c) {
  std::string condition = cast_to(c, c.in(0), c.dtype(0), DType::boolean);
  // MXNet's where also takes a condition per row.
  if (c.rank(0) == 1 && c.rank(1) > 1) {
    std::vector<int64_t> codes{-1};
    for (int i = 1; i < c.rank(1); ++i) codes.push_back(1);
    condition = c.add("Reshape", {condition, c.whole_numbers(codes)});
  }
  c.put("Where", {condition, c.in(1), c.in(2)});
}

void filled_like(const ExportCall& c, double value) {
  Attribute fill{.kind = Attribute::Kind::tensor, .tensor = full({1}, value, {.dtype = c.out_dtype()})};
  c.put("ConstantOfShape", {c.add("Shape", {c.in(0)})}, {{"value", fill}});
}

void created(const ExportCall& c, double value) { c.put_as(c.constant(full(c.out_shape(), value, {.dtype = c.out_dtype()}))); }

// The lower neighbour where both are as near, as MXNet's rint has it; ONNX's Round takes the even one.
void to_nearest(const ExportCall& c) {
  const std::string low = c.add("Floor", {c.in(0)});
  const std::string is_above = c.add("Greater", {c.add("Sub", {c.in(0), low}), number(c, 0.5)});
  c.put("Add", {low, c.add("Cast", {is_above}, {{"to", attribute_of(static_cast<int64_t>(element_type(c.dtype(0))))}})});
}

// Numbers that no input takes part in; how many there are may follow from the graph.
void range(const ExportCall& c) {
  if (!c.flag("infer_range")) return c.put_as(c.constant(c.computed()));
  const double start = c.number("start"), step = c.number("step");
  const auto repeats = c.integer("repeat");
  std::vector<double> values;
  for (int64_t i = 0; i < c.out_shape().elements(); ++i) values.push_back(start + static_cast<double>(i / repeats) * step);
  c.put_as(c.constant(from_vector(values, c.out_shape(), {.dtype = c.out_dtype()})));
}

}  // namespace

void add_elementwise_exports(ExportRules& rules) {
  for (const auto& [op, type] : std::map<std::string, std::string>{{"relu", "Relu"},
                                                                   {"sigmoid", "Sigmoid"},
                                                                   {"tanh", "Tanh"},
                                                                   {"exp", "Exp"},
                                                                   {"log", "Log"},
                                                                   {"sqrt", "Sqrt"},
                                                                   {"abs", "Abs"},
                                                                   {"negative", "Neg"},
                                                                   {"sign", "Sign"},
                                                                   {"floor", "Floor"},
                                                                   {"ceil", "Ceil"},
                                                                   {"sin", "Sin"},
                                                                   {"cos", "Cos"},
                                                                   {"tan", "Tan"},
                                                                   {"arcsin", "Asin"},
                                                                   {"arccos", "Acos"},
                                                                   {"arctan", "Atan"},
                                                                   {"sinh", "Sinh"},
                                                                   {"cosh", "Cosh"},
                                                                   {"arcsinh", "Asinh"},
                                                                   {"arccosh", "Acosh"},
                                                                   {"arctanh", "Atanh"},
                                                                   {"erf", "Erf"},
                                                                   {"softsign", "Softsign"},
                                                                   {"softrelu", "Softplus"},
                                                                   {"reciprocal", "Reciprocal"},
                                                                   {"_copy", "Identity"},
                                                                   {"BlockGrad", "Identity"},
                                                                   {"make_loss", "Identity"},
                                                                   {"MakeLoss", "Identity"}})
    rules[op] = unary(type);
  for (const auto& [op, type] : std::map<std::string, std::string>{{"add", "Add"}, {"sub", "Sub"}, {"mul", "Mul"}, {"div", "Div"}})
    for (const char* family : {"elemwise_", "broadcast_"}) rules[family + op] = binary(type);
  rules["_grad_add"] = binary("Add");
  rules["broadcast_power"] = binary("Pow");
  rules["broadcast_maximum"] = binary("Max");
  rules["broadcast_minimum"] = binary("Min");
  const std::tuple<const char*, const char*, bool> comparisons[] = {{"equal", "Equal", false},       {"not_equal", "Equal", true},
                                                                    {"greater", "Greater", false},   {"lesser", "Less", false},
                                                                    {"greater_equal", "Less", true}, {"lesser_equal", "Greater", true}};
  for (const auto& [op, type, negated] : comparisons) {
    // NumPy's, which C++ has too, give truth values.
    const std::string name = op, numpy_name = name.starts_with("lesser") ? "less" + name.substr(6) : name;
    rules["broadcast_" + name] = rules["_npi_" + numpy_name] = comparison(type, negated);
    rules["_" + name + "_scalar"] = rules["_npi_" + numpy_name + "_scalar"] = comparison_with_number(type, negated);
  }
  rules["logical_not"] = rules["_npi_logical_not"] = [](const ExportCall& c) {
    put_cast(c, c.add("Not", {cast_to(c, c.in(0), c.dtype(0), DType::boolean)}), DType::boolean, c.out_dtype());
  };
  for (const auto& [op, type] : std::map<std::string, std::string>{{"and", "And"}, {"or", "Or"}, {"xor", "Xor"}})
    rules["broadcast_logical_" + op] = logical(type);
  rules["_plus_scalar"] = with_number("Add");
  rules["_minus_scalar"] = with_number("Sub");
  rules["_rminus_scalar"] = with_number("Sub", true);
  rules["_mul_scalar"] = with_number("Mul");
  rules["_div_scalar"] = with_number("Div");
  rules["_rdiv_scalar"] = with_number("Div", true);
  rules["_power_scalar"] = with_number("Pow");
  rules["_rpower_scalar"] = with_number("Pow", true);
  rules["_maximum_scalar"] = with_number("Max");
  rules["_minimum_scalar"] = with_number("Min");
  rules["square"] = [](const ExportCall& c) { c.put("Mul", {c.in(0), c.in(0)}); };
  rules["rsqrt"] = [](const ExportCall& c) { c.put("Reciprocal", {c.add("Sqrt", {c.in(0)})}); };
  rules["log1p"] = [](const ExportCall& c) { c.put("Log", {c.add("Add", {c.in(0), number(c, 1)})}); };
  rules["expm1"] = [](const ExportCall& c) { c.put("Sub", {c.add("Exp", {c.in(0)}), number(c, 1)}); };
  rules["silu"] = [](const ExportCall& c) { c.put("Mul", {c.in(0), c.add("Sigmoid", {c.in(0)})}); };
  rules["hard_sigmoid"] = [](const ExportCall& c) {
    c.put("HardSigmoid", {c.in(0)}, {{"alpha", attribute_of(c.number("alpha"))}, {"beta", attribute_of(c.number("beta"))}});
  };
  rules["Activation"] = activation;
  rules["LeakyReLU"] = leaky;
  rules["clip"] = clip;
  rules["Cast"] = rules["amp_cast"] = [](const ExportCall& c) { put_cast(c, c.in(0), c.dtype(0), c.out_dtype()); };
  rules["add_n"] = sum_of_all;
  rules["where"] = rules["_where_broadcast"] = where_not_zero;
  rules["zeros_like"] = [](const ExportCall& c) { filled_like(c, 0); };
  rules["ones_like"] = [](const ExportCall& c) { filled_like(c, 1); };
  rules["_zeros"] = [](const ExportCall& c) { created(c, 0); };
  rules["_ones"] = [](const ExportCall& c) { created(c, 1); };
  rules["_full"] = [](const ExportCall& c) { created(c, c.number("value")); };
  rules["_arange"] = range;
  rules["rint"] = to_nearest;
  // Away from 0 where it is as far to both sides; towards 0.
  rules["round"] = [](const ExportCall& c) {
    const std::string size = c.add("Floor", {c.add("Add", {c.add("Abs", {c.in(0)}), number(c, 0.5)})});
    c.put("Mul", {c.add("Sign", {c.in(0)}), size});
  };
  rules["fix"] = rules["trunc"] = [](const ExportCall& c) {
    c.put("Mul", {c.add("Sign", {c.in(0)}), c.add("Floor", {c.add("Abs", {c.in(0)})})});
  };
  rules["_eye"] = rules["_linspace"] = [](const ExportCall& c) { c.put_as(c.constant(c.computed())); };
  rules["_contrib_div_sqrt_dim"] = [](const ExportCall& c) {
    c.put("Div", {c.in(0), number(c, std::sqrt(static_cast<double>(c.shape(0).back())))});
  };
}

}  // namespace gluino::onnx
