// Sums, means, extrema, softmax.
#include "base/format.h"
#include "onnx/export/exporter.h"

namespace gluino::onnx {
namespace {

std::vector<int64_t> reduced_axes(const ExportCall& c) {
  const Shape given = c.ints("axis");
  const int rank = c.rank(0);
  std::vector<bool> chosen(static_cast<size_t>(rank), given.empty());
  for (const int64_t a : given) chosen[static_cast<size_t>(a < 0 ? a + rank : a)] = true;
  if (c.flag("exclude") && !given.empty()) chosen.flip();
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i)
    if (chosen[static_cast<size_t>(i)]) axes.push_back(i);
  return axes;
}

// MXNet reduces everything to one element of shape (1,).
ExportRule reduction(const std::string& type) {
  return [type](const ExportCall& c) {
    const bool keeps = c.flag("keepdims");
    const std::vector<int64_t> axes = reduced_axes(c);
    std::vector<std::string> inputs{c.in(0)};
    ExportCall::Attributes attributes{{"keepdims", attribute_of(int64_t{keeps})}};
    if (type == "ReduceSum")
      inputs.push_back(c.whole_numbers(axes));
    else
      attributes["axes"] = attribute_of(axes);
    if (!keeps && c.out_shape() == Shape{1} && static_cast<int>(axes.size()) == c.rank(0))
      return c.put("Reshape", {c.add(type, inputs, attributes), c.whole_numbers({1})});
    c.put(type, inputs, attributes);
  };
}

ExportRule softmax(const std::string& type, bool negated = false) {
  return [=](const ExportCall& c) {
    if (c.flag("use_length")) c.refuse("softmax over rows of different lengths");
    std::string x = negated ? c.add("Neg", {c.in(0)}) : c.in(0);
    if (!c.is_none("temperature")) x = c.add("Div", {x, c.number_of(c.number("temperature"), c.dtype(0))});
    c.put(type, {x}, {{"axis", attribute_of(c.integer("axis"))}});
  };
}

// What is predicted; labels only matter for the gradient.
void softmax_output(const ExportCall& c) {
  if (c.flag("multi_output")) return c.put("Softmax", {c.in(0)}, {{"axis", attribute_of(int64_t{1})}});
  if (c.flag("preserve_shape") || c.rank(0) == 2) return c.put("Softmax", {c.in(0)}, {{"axis", attribute_of(int64_t{-1})}});
  const std::string flat = c.add("Flatten", {c.in(0)}, {{"axis", attribute_of(int64_t{1})}});
  const std::string y = c.add("Softmax", {flat}, {{"axis", attribute_of(int64_t{1})}});
  c.put("Reshape", {y, c.add("Shape", {c.in(0)})});
}

ExportRule place_of(const std::string& type) {
  return [type](const ExportCall& c) {
    const auto axis = c.optional_integer("axis");
    const std::string x = axis ? c.in(0) : c.add("Reshape", {c.in(0), c.whole_numbers({-1})});
    const std::string at =
        c.add(type, {x}, {{"axis", attribute_of(axis.value_or(0))}, {"keepdims", attribute_of(int64_t{c.flag("keepdims")})}});
    c.put("Cast", {at}, {{"to", attribute_of(static_cast<int64_t>(element_type(c.out_dtype())))}});
  };
}

}  // namespace

const std::set<std::string>& loss_operators() {
  static const std::set<std::string> names{"SoftmaxOutput", "LogisticRegressionOutput", "LinearRegressionOutput", "MAERegressionOutput"};
  return names;
}

void add_reduce_exports(ExportRules& rules) {
  for (const auto& [op, type] : std::map<std::string, std::string>{
           {"sum", "ReduceSum"}, {"mean", "ReduceMean"}, {"max", "ReduceMax"}, {"min", "ReduceMin"}, {"prod", "ReduceProd"}})
    rules[op] = reduction(type);
  rules["softmax"] = softmax("Softmax");
  rules["log_softmax"] = softmax("LogSoftmax");
  rules["softmin"] = softmax("Softmax", true);
  rules["SoftmaxOutput"] = softmax_output;
  rules["SoftmaxActivation"] = [](const ExportCall& c) {
    if (c.text("mode") != "channel" && c.rank(0) != 2) c.refuse("mode 'instance' of more than two axes");
    c.put("Softmax", {c.in(0)}, {{"axis", attribute_of(int64_t{1})}});
  };
  rules["LogisticRegressionOutput"] = [](const ExportCall& c) { c.put("Sigmoid", {c.in(0)}); };
  rules["LinearRegressionOutput"] = rules["MAERegressionOutput"] = [](const ExportCall& c) { c.put_as(c.in(0)); };
  rules["argmax"] = place_of("ArgMax");
  rules["argmin"] = place_of("ArgMin");
}

}  // namespace gluino::onnx
