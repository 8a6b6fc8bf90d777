// Writes gluino/ops.h: a C++ function for every operator of the registry, with its attributes as designated
// initialisers. Run by the build; the result is never committed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <set>

#include "gluino/op.h"

namespace {

using gluino::AttrField;
using gluino::OpDef;

// FullyConnected -> fully_connected, LeakyReLU -> leaky_relu, log_softmax stays.
std::string snake_case(std::string name) {
  if (const size_t at = name.find("ReLU"); at != std::string::npos) name.replace(at, 4, "Relu");  // one word, whatever its letters
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool starts_word = std::isupper(c) && i > 0 && name[i - 1] != '_' &&
                             (std::islower(static_cast<unsigned char>(name[i - 1])) ||
                              (i + 1 < name.size() && std::islower(static_cast<unsigned char>(name[i + 1]))));
    if (starts_word) out += '_';
    out += static_cast<char>(std::tolower(c));
  }
  return out;
}

std::string camel_case(std::string_view snake) {
  std::string out;
  bool upper = true;
  for (char c : snake) {
    if (c == '_') {
      upper = true;
      continue;
    }
    out += static_cast<char>(upper ? std::toupper(static_cast<unsigned char>(c)) : c);
    upper = false;
  }
  return out;
}

constexpr std::string_view kImage = "_image_", kImageSpace = "image::";

// A function of other operators: it computes nothing itself.
bool is_composed(const OpDef& op) { return !op.kernel && !op.expression && !op.is_view; }

bool is_npi(const std::string& name) {
  const OpDef* numpy = gluino::OpRegistry::global().find("_npi_" + name);
  return numpy && numpy->name == "_npi_" + name && !is_composed(*numpy);
}

// Names that C++ authors see. What starts with an underscore is for files, except contributed operators and those of images, which have
// a namespace. Names that are there as they are, those of NumPy's operators without their prefix, and old ones that have to be converted
// are asked for one after the other, so that no order of operators decides: softmax is not the old alias Softmax.
enum class Spelled { as_it_is, without_prefix, converted };
std::set<std::string> public_names(const OpDef& op, Spelled spelled) {
  // Defined by hand in tensor.h, random.h and functions.h, or words of C++.
  static const std::set<std::string> taken{"zeros_like", "ones_like", "uniform", "normal", "shuffle", "fft",
                                           "ifft",       "and",       "or",      "not",    "xor",     "crop"};
  std::set<std::string> names;
  std::vector<std::string> all = op.aliases;
  all.push_back(op.name);
  for (std::string name : all) {
    if (name.starts_with("_contrib_")) name = name.substr(9);
    if (name.starts_with(kImage)) name = std::string(kImageSpace) + name.substr(kImage.size());
    // What differs from MXNet's operator as NumPy does is what C++ has, but for names that are there for files alone.
    const bool has_prefix =
        !is_composed(op) && name == op.name && name.starts_with("_npi_") && gluino::OpRegistry::global().find(name.substr(5));
    if (has_prefix) name = name.substr(5);
    if (name.starts_with("_") || (name == op.name && is_npi(name))) continue;
    const bool is_converted = snake_case(name) != name;
    if (spelled != (is_converted ? Spelled::converted : has_prefix ? Spelled::without_prefix : Spelled::as_it_is)) continue;
    name = snake_case(name);
    if (!taken.contains(name)) names.insert(name);
  }
  return names;
}

// How many inputs were given is no option.
bool is_count(const OpDef& op, const AttrField& f) { return op.is_variadic && f.name == "num_args"; }

// MXNet's operators clip an index that is out of range; in C++ it is an error unless the caller says otherwise. {operator, attribute}
const std::map<std::pair<std::string, std::string>, std::string> kOtherDefaults{
    {{"take", "mode"}, "\"raise\""}, {{"pick", "mode"}, "\"raise\""}, {{"Embedding", "__out_of_range__"}, "\"raise\""}};
// Whole numbers are added up and multiplied as int64, as in NumPy; MXNet's operators keep the dtype.
const std::set<std::string> kOfSummands{"sum", "prod", "nansum", "nanprod", "cumsum"};

// __out_of_range__ -> out_of_range: what MXNet's files hide is an option like others.
std::string member(const std::string& field) { return field.starts_with("__") ? field.substr(2, field.size() - 4) : field; }

std::string options_struct(const OpDef& op, const std::string& type) {
  std::string text = fmt::format("struct {} {{\n", type);
  for (const AttrField& f : op.fields) {
    if (is_count(op, f)) continue;
    std::string doc = f.doc;
    if (!f.choices.empty()) {
      doc += ": ";
      for (size_t i = 0; i < f.choices.size(); ++i) doc += (i ? ", " : "") + f.choices[i];
    }
    const auto other = kOtherDefaults.find({op.name, f.name});
    if (f.required)
      text += fmt::format("  Required<{}> {};  // {}\n", f.type, f.name, doc);
    else
      text += fmt::format("  {} {} = {};  // {}\n", f.type, member(f.name),
                          other == kOtherDefaults.end() ? f.default_literal : other->second, doc);
  }
  return text + "};\n";
}

bool has_options(const OpDef& op) {
  return std::any_of(op.fields.begin(), op.fields.end(), [&](const AttrField& f) { return !is_count(op, f); });
}

// Outputs that are only shown on demand (output_mean_var) are for call_all.
bool returns_one(const OpDef& op) { return !op.num_outputs_of && static_cast<int>(op.output_names.size()) - op.num_hidden == 1; }

// `with_optional`: whether the inputs that a call may leave out are parameters.
std::string function(const OpDef& op, const std::string& name, const std::string& options, bool with_optional) {
  bool required = false;
  for (const AttrField& f : op.fields) required |= f.required;
  std::vector<std::string> parameters, given;
  for (const auto& i : op.inputs) {
    if (i.present && !with_optional) continue;
    parameters.push_back(fmt::format("const Tensor{}& {}", op.is_variadic ? "s" : "", i.name));
    given.push_back(kOfSummands.contains(op.name) ? fmt::format("detail::summands({})", i.name) : i.name);
  }
  std::string collect;
  if (op.is_variadic) {
    collect = fmt::format("  const Tensors& inputs = {};\n", op.inputs[0].name);
  } else if (with_optional) {
    collect = "  Tensors inputs;\n";
    for (const std::string& i : given) collect += fmt::format("  if ({0}.defined()) inputs.push_back({0});\n", i);
  } else {
    collect = fmt::format("  const Tensor inputs[] = {{{}}};\n", fmt::join(given, ", "));
  }
  if (has_options(op)) parameters.push_back(fmt::format("const {}& options{}", options, required ? "" : " = {}"));
  const bool one = returns_one(op);
  std::string text = fmt::format("// {}\ninline {} {}({}) {{\n", op.doc, one ? "Tensor" : "Tensors", name, fmt::join(parameters, ", "));
  text += fmt::format("  static const OpDef& op = OpRegistry::global().get(\"{}\");\n{}", op.name, collect);
  std::string attrs = "nullptr";
  if (!op.fields.empty()) {
    text += "  const std::pair<std::string_view, AttrValue> attrs[] = {";
    for (const AttrField& f : op.fields) {
      const std::string value =
          is_count(op, f) ? "static_cast<int64_t>(inputs.size())" : fmt::format("detail::attr_value(options.{})", member(f.name));
      text += fmt::format("{}{{\"{}\", {}}}", &f == op.fields.data() ? "" : ", ", f.name, value);
    }
    text += "};\n";
    attrs = "op.make_attrs(attrs)";
  }
  return text + fmt::format("  return {}(op, inputs, {});\n}}\n", one ? "apply_one" : "detail::visible_outputs", attrs);
}
std::string functions(const OpDef& op, const std::string& name, const std::string& options) {
  const bool has_optional = std::any_of(op.inputs.begin(), op.inputs.end(), [](const auto& i) { return static_cast<bool>(i.present); });
  std::string text = function(op, name, options, has_optional && !op.is_variadic);
  if (has_optional && !op.is_variadic) text += function(op, name, options, false);
  return text + "\n";
}

constexpr const char* kHead = R"(// Written by the build from the registry of operators: one function per operator and alias.
#pragma once
#include <cmath>

#include "gluino/op.h"

namespace gluino {

// An option that has no default: leaving it out does not compile.
template <class T>
struct Required {
  template <class U>
    requires std::is_convertible_v<U, T>
  Required(U&& v) : value(std::forward<U>(v)) {}
  T value;
};

namespace detail {
Tensor summands(const Tensor& t);  // whole numbers as int64
template <class T>
AttrValue attr_value(const T& v) {
  if constexpr (std::is_same_v<T, int>) return static_cast<int64_t>(v);
  else return v;
}
template <class T>
AttrValue attr_value(const std::optional<T>& v) {
  return v ? attr_value(*v) : AttrValue();
}
template <class T>
AttrValue attr_value(const Required<T>& v) {
  return attr_value(v.value);
}
inline Tensors visible_outputs(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  Tensors all = apply(op, inputs, attrs);
  all.resize(op.num_visible_outputs(attrs));
  return all;
}
}  // namespace detail

)";

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: opgen OUTPUT\n");
    return 2;
  }
  std::string text = kHead;
  std::set<std::string> written;
  std::map<const OpDef*, std::vector<std::string>> names;
  for (const Spelled spelled : {Spelled::as_it_is, Spelled::without_prefix, Spelled::converted})
    for (const auto& op : gluino::OpRegistry::global().all())
      for (const std::string& n : public_names(*op, spelled))
        if (written.insert(n).second) names[op.get()].push_back(n);
  for (const auto& op : gluino::OpRegistry::global().all()) {
    const std::vector<std::string>& own = names[op.get()];
    if (own.empty() || op->inputs.empty()) continue;
    const bool of_images = own.front().starts_with(kImageSpace);
    const auto without_space = [&](const std::string& name) { return of_images ? name.substr(kImageSpace.size()) : name; };
    const std::string options = camel_case(without_space(own.front())) + "Options";
    if (of_images) text += "namespace image {\n";
    if (has_options(*op)) text += options_struct(*op, options);
    for (const std::string& n : own) text += functions(*op, without_space(n), options);
    if (of_images) text += "}  // namespace image\n\n";
  }
  text += "}  // namespace gluino\n";
  FILE* out = std::fopen(argv[1], "w");
  if (!out || std::fwrite(text.data(), 1, text.size(), out) != text.size() || std::fclose(out) != 0) return 1;
  return 0;
}
