#include "gluino/attrs.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "base/format.h"

namespace gluino {
namespace {

[[noreturn]] void bad(const std::string& who, const std::string& text, std::string_view needed) {
  raise<AttrError>("{}: '{}' is not {}", who, text, needed);
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

std::optional<double> to_double(std::string_view s) {
  s = trim(s);
  if (!s.empty() && s.front() == '+') s.remove_prefix(1);
  double v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (s.empty() || end != s.data() + s.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return s.front() == '-' ? -HUGE_VAL : HUGE_VAL;
  return v;
}

std::optional<int64_t> to_int(std::string_view s) {
  s = trim(s);
  if (!s.empty() && (s.back() == 'L' || s.back() == 'l')) s.remove_suffix(1);  // Python 2 wrote 3L
  int64_t v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (!s.empty() && end == s.data() + s.size() && error == std::errc()) return v;
  if (s == "True") return 1;
  if (s == "False") return 0;
  const auto d = to_double(s);  // "1e3", "2.0"
  if (d && *d == std::floor(*d) && std::abs(*d) < 9e15) return static_cast<int64_t>(*d);
  return std::nullopt;
}

// The parts of "(1, 2)", "[1,2]" or a bare "3".
std::vector<std::string_view> elements(const std::string& who, const std::string& text) {
  std::string_view s = trim(text);
  if (!s.empty() && (s.front() == '(' || s.front() == '[')) {
    const char close = s.front() == '(' ? ')' : ']';
    if (s.size() < 2 || s.back() != close) bad(who, text, "a tuple");
    s = trim(s.substr(1, s.size() - 2));
  }
  std::vector<std::string_view> parts;
  while (!s.empty()) {
    const size_t comma = s.find(',');
    parts.push_back(trim(s.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    s = trim(s.substr(comma + 1));
  }
  return parts;
}

std::string print_double(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  return fmt::format("{}", v);  // the shortest text that reads back as v
}

template <class C, class F>
std::string print_tuple(const C& values, F&& print) {
  std::string text = "(";
  for (const auto& v : values) text += (text.size() > 1 ? ", " : "") + print(v);
  return text + (values.size() == 1 ? ",)" : ")");
}
template <class C, class F>
std::string braces(const C& values, F&& print) {
  std::string text = "{";
  for (const auto& v : values) text += (text.size() > 1 ? ", " : "") + print(v);
  return text + "}";
}
auto print_int = [](int64_t v) { return std::to_string(v); };
auto print_optional_int = [](const std::optional<int64_t>& v) { return v ? std::to_string(*v) : std::string("None"); };

[[noreturn]] void bad_value(const std::string& who, const AttrValue& v, std::string_view needed) { bad(who, attr_text(v), needed); }

std::string quote(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

}  // namespace

std::string attr_text(const AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return "None";
        else
          return AttrType<T>::print(v);
      },
      value);
}

size_t find_attr_choice(const std::string& who, const std::vector<std::string>& choices, const AttrValue& v) {
  const std::string text = attr_text(v);
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i] == text) return i;
  raise<AttrError>("{}: '{}' is not one of {}", who, text, fmt::join(choices, ", "));
}

namespace detail {
#define GLUINO_X(Type)                                                                                       \
  template void add_field(std::vector<AttrField>&, std::string_view, size_t, const Type&, std::string_view); \
  template void add_field(std::vector<AttrField>&, std::string_view, size_t, const std::optional<Type>&, std::string_view);
GLUINO_ATTR_TYPES(GLUINO_X)
#undef GLUINO_X

// f(a whole number of so many bytes)
static auto with_bytes(size_t bytes, auto&& f) {
  return bytes == 1 ? f(uint8_t{}) : bytes == 2 ? f(uint16_t{}) : bytes == 4 ? f(uint32_t{}) : f(uint64_t{});
}

void add_choice(std::vector<AttrField>& to, std::string_view name, size_t offset, size_t bytes, size_t default_value,
                std::span<const char* const> choices, std::string_view doc) {
  AttrField& f = to.emplace_back();
  f.name = name;
  f.doc = doc;
  f.type = "std::string";
  f.choices.assign(choices.begin(), choices.end());
  f.default_text = f.choices.at(default_value);
  f.default_literal = '"' + f.default_text + '"';
  f.set = [offset, bytes, names = f.choices](void* a, const std::string& who, const AttrValue& v) {
    const size_t choice = find_attr_choice(who, names, v);
    with_bytes(bytes, [&](auto value) {
      value = static_cast<decltype(value)>(choice);
      return std::memcpy(static_cast<char*>(a) + offset, &value, sizeof(value));
    });
  };
  f.print = [offset, bytes, names = f.choices](const void* a) {
    return with_bytes(bytes, [&](auto value) {
      std::memcpy(&value, static_cast<const char*>(a) + offset, sizeof(value));
      return names.at(value);
    });
  };
}
}  // namespace detail

// ---- bool
const char* AttrType<bool>::name() { return "bool"; }
bool AttrType<bool>::parse(const std::string& who, const std::string& text) {
  if (text == "True" || text == "true" || text == "1") return true;
  if (text == "False" || text == "false" || text == "0" || text == "None") return false;
  bad(who, text, "True or False");
}
std::string AttrType<bool>::print(const bool& v) { return v ? "True" : "False"; }
bool AttrType<bool>::from(const std::string& who, const AttrValue& v) {
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  if (const auto* i = std::get_if<int64_t>(&v)) return *i != 0;
  bad_value(who, v, "True or False");
}
std::string AttrType<bool>::literal(const bool& v) { return v ? "true" : "false"; }

// ---- int64_t and int
const char* AttrType<int64_t>::name() { return "int64_t"; }
int64_t AttrType<int64_t>::parse(const std::string& who, const std::string& text) {
  if (const auto v = to_int(text)) return *v;
  bad(who, text, "an integer");
}
std::string AttrType<int64_t>::print(const int64_t& v) { return std::to_string(v); }
int64_t AttrType<int64_t>::from(const std::string& who, const AttrValue& v) {
  if (const auto* i = std::get_if<int64_t>(&v)) return *i;
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  if (const auto* d = std::get_if<double>(&v); d && *d == std::floor(*d) && std::abs(*d) < 9e15) return static_cast<int64_t>(*d);
  if (const auto* s = std::get_if<Shape>(&v); s && s->ndim() == 1) return (*s)[0];
  bad_value(who, v, "an integer");
}
std::string AttrType<int64_t>::literal(const int64_t& v) { return std::to_string(v); }

static int narrow(const std::string& who, int64_t v) {
  if (v < INT32_MIN || v > INT32_MAX) raise<AttrError>("{}: {} does not fit into 32 bits", who, v);
  return static_cast<int>(v);
}
const char* AttrType<int>::name() { return "int"; }
int AttrType<int>::parse(const std::string& who, const std::string& text) { return narrow(who, AttrType<int64_t>::parse(who, text)); }
std::string AttrType<int>::print(const int& v) { return std::to_string(v); }
int AttrType<int>::from(const std::string& who, const AttrValue& v) { return narrow(who, AttrType<int64_t>::from(who, v)); }
std::string AttrType<int>::literal(const int& v) { return std::to_string(v); }

// ---- double
const char* AttrType<double>::name() { return "double"; }
double AttrType<double>::parse(const std::string& who, const std::string& text) {
  if (const auto v = to_double(text)) return *v;
  if (text == "True") return 1;
  if (text == "False") return 0;
  bad(who, text, "a number");
}
std::string AttrType<double>::print(const double& v) { return print_double(v); }
double AttrType<double>::from(const std::string& who, const AttrValue& v) {
  if (const auto* d = std::get_if<double>(&v)) return *d;
  if (const auto* i = std::get_if<int64_t>(&v)) return static_cast<double>(*i);
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  bad_value(who, v, "a number");
}
std::string AttrType<double>::literal(const double& v) {
  if (std::isinf(v)) return v < 0 ? "-HUGE_VAL" : "HUGE_VAL";
  return print_double(v);
}

// ---- string
const char* AttrType<std::string>::name() { return "std::string"; }
std::string AttrType<std::string>::parse(const std::string&, const std::string& text) { return text; }
std::string AttrType<std::string>::print(const std::string& v) { return v; }
std::string AttrType<std::string>::from(const std::string&, const AttrValue& v) { return attr_text(v); }
std::string AttrType<std::string>::literal(const std::string& v) { return quote(v); }

// ---- Shape
const char* AttrType<Shape>::name() { return "Shape"; }
Shape AttrType<Shape>::parse(const std::string& who, const std::string& text) {
  Shape shape;
  if (text == "None") return shape;
  for (std::string_view part : elements(who, text)) {
    const auto v = to_int(part);
    if (!v) bad(who, text, "a tuple of integers");
    if (shape.ndim() == Shape::kMaxAxes) raise<AttrError>("{}: more than {} elements", who, Shape::kMaxAxes);
    shape.push_back(*v);
  }
  return shape;
}
std::string AttrType<Shape>::print(const Shape& v) { return print_tuple(std::vector<int64_t>(v.begin(), v.end()), print_int); }
Shape AttrType<Shape>::from(const std::string& who, const AttrValue& v) {
  if (const auto* s = std::get_if<Shape>(&v)) return *s;
  if (const auto* i = std::get_if<int64_t>(&v)) return Shape{*i};
  if (std::holds_alternative<std::monostate>(v)) return {};
  if (const auto* o = std::get_if<OptionalInts>(&v)) {
    Shape s;
    for (const auto& e : *o) {
      if (!e) bad_value(who, v, "a tuple of integers");
      s.push_back(*e);
    }
    return s;
  }
  bad_value(who, v, "a tuple of integers");
}
std::string AttrType<Shape>::literal(const Shape& v) { return "Shape" + braces(v, print_int); }

// ---- OptionalInts
const char* AttrType<OptionalInts>::name() { return "OptionalInts"; }
OptionalInts AttrType<OptionalInts>::parse(const std::string& who, const std::string& text) {
  OptionalInts out;
  for (std::string_view part : elements(who, text)) {
    if (part == "None") {
      out.push_back(std::nullopt);
    } else if (const auto v = to_int(part)) {
      out.push_back(*v);
    } else {
      bad(who, text, "a tuple of integers or None");
    }
  }
  return out;
}
std::string AttrType<OptionalInts>::print(const OptionalInts& v) { return print_tuple(v, print_optional_int); }
OptionalInts AttrType<OptionalInts>::from(const std::string& who, const AttrValue& v) {
  if (const auto* o = std::get_if<OptionalInts>(&v)) return *o;
  if (std::holds_alternative<std::monostate>(v)) return {std::nullopt};
  const Shape s = AttrType<Shape>::from(who, v);
  return OptionalInts(s.begin(), s.end());
}
std::string AttrType<OptionalInts>::literal(const OptionalInts& v) {
  return "OptionalInts" + braces(v, [](const auto& e) { return e ? std::to_string(*e) : "std::nullopt"; });
}

// ---- Floats
const char* AttrType<Floats>::name() { return "Floats"; }
Floats AttrType<Floats>::parse(const std::string& who, const std::string& text) {
  Floats out;
  for (std::string_view part : elements(who, text)) {
    const auto v = to_double(part);
    if (!v) bad(who, text, "a tuple of numbers");
    out.push_back(*v);
  }
  return out;
}
std::string AttrType<Floats>::print(const Floats& v) { return print_tuple(v, print_double); }
Floats AttrType<Floats>::from(const std::string& who, const AttrValue& v) {
  if (const auto* f = std::get_if<Floats>(&v)) return *f;
  if (const auto* d = std::get_if<double>(&v)) return {*d};
  const Shape s = AttrType<Shape>::from(who, v);
  return Floats(s.begin(), s.end());
}
std::string AttrType<Floats>::literal(const Floats& v) { return "Floats" + braces(v, print_double); }

// ---- DType
const char* AttrType<DType>::name() { return "DType"; }
DType AttrType<DType>::parse(const std::string& who, const std::string& text) {
  if (const auto d = find_dtype(text)) return *d;
  if (const auto code = to_int(text))  // some files hold the number
    for (DType d : kAllDTypes)
      if (static_cast<int64_t>(d) == *code) return d;
  bad(who, text, "a dtype");
}
std::string AttrType<DType>::print(const DType& v) { return std::string(dtype_name(v)); }
DType AttrType<DType>::from(const std::string& who, const AttrValue& v) {
  if (const auto* d = std::get_if<DType>(&v)) return *d;
  return parse(who, attr_text(v));
}
std::string AttrType<DType>::literal(const DType& v) {
  return v == DType::boolean ? "DType::boolean" : "DType::" + std::string(dtype_name(v));
}

}  // namespace gluino
