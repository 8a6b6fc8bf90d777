// Typed attributes: a plain struct that lists its fields once. Parsing from the strings of files, printing,
// keyword arguments, documentation and the generated C++ functions all come from that list.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gluino/detail/kept_function.h"
#include "gluino/dtype.h"
#include "gluino/error.h"
#include "gluino/shape.h"

namespace gluino {

using OptionalInts = std::vector<std::optional<int64_t>>;  // (1, None, 3)
using Floats = std::vector<double>;
using StringMap = std::map<std::string, std::string>;

// A value of any attribute, before it has met its field. monostate is None.
using AttrValue = std::variant<std::monostate, bool, int64_t, double, std::string, Shape, OptionalInts, Floats, DType>;

// Reads and writes one type of field. `who` ("Pooling: attribute 'kernel'") starts error messages.
template <class T>
struct AttrType;
#define GLUINO_ATTR_TYPES(X) X(bool) X(int) X(int64_t) X(double) X(std::string) X(Shape) X(OptionalInts) X(Floats) X(DType)
#define GLUINO_X(Type)                                                  \
  template <>                                                           \
  struct AttrType<Type> {                                               \
    static const char* name(); /* as C++ spells it */                   \
    static Type parse(const std::string& who, const std::string& text); \
    static std::string print(const Type& value);                        \
    static Type from(const std::string& who, const AttrValue& value);   \
    static std::string literal(const Type& value); /* C++ source */     \
  };
GLUINO_ATTR_TYPES(GLUINO_X)
#undef GLUINO_X

template <class T>
struct AttrType<std::optional<T>> {
  static std::string name() { return std::string("std::optional<") + AttrType<T>::name() + ">"; }
  static std::optional<T> parse(const std::string& who, const std::string& text) {
    if (text == "None" || text == "null") return std::nullopt;
    return AttrType<T>::parse(who, text);
  }
  static std::string print(const std::optional<T>& v) { return v ? AttrType<T>::print(*v) : "None"; }
  static std::optional<T> from(const std::string& who, const AttrValue& v) {
    if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
    return AttrType<T>::from(who, v);
  }
  static std::string literal(const std::optional<T>& v) { return v ? AttrType<T>::literal(*v) : "std::nullopt"; }
};

std::string attr_text(const AttrValue& value);  // as files spell it

// One field of an attribute struct, with the struct's type erased.
struct AttrField {
  std::string name, doc;
  std::string type;                  // C++ spelling, for the generated functions
  std::string default_text;          // as files spell it
  std::string default_literal;       // as C++ source
  std::vector<std::string> choices;  // non-empty for an enumeration
  bool required = false;
  std::function<void(void* attrs, const std::string& who, const AttrValue& value)> set;
  std::function<std::string(const void* attrs)> print;
};

size_t find_attr_choice(const std::string& who, const std::vector<std::string>& choices, const AttrValue& v);
namespace detail {
// Appends the field of type M that stands `offset` bytes behind the beginning of its struct.
template <class M>
GLUINO_ONCE void add_field(std::vector<AttrField>& to, std::string_view name, size_t offset, const M& default_value, std::string_view doc) {
  AttrField& f = to.emplace_back();
  f.name = name;
  f.doc = doc;
  f.type = AttrType<M>::name();
  f.default_text = AttrType<M>::print(default_value);
  f.default_literal = AttrType<M>::literal(default_value);
  f.set = [offset](void* a, const std::string& who, const AttrValue& v) {
    M& target = *reinterpret_cast<M*>(static_cast<char*>(a) + offset);
    const auto* text = std::get_if<std::string>(&v);
    target = text ? AttrType<M>::parse(who, *text) : AttrType<M>::from(who, v);
  };
  f.print = [offset](const void* a) { return AttrType<M>::print(*reinterpret_cast<const M*>(static_cast<const char*>(a) + offset)); };
}
#define GLUINO_X(Type)                                                                                              \
  extern template void add_field(std::vector<AttrField>&, std::string_view, size_t, const Type&, std::string_view); \
  extern template void add_field(std::vector<AttrField>&, std::string_view, size_t, const std::optional<Type>&, std::string_view);
GLUINO_ATTR_TYPES(GLUINO_X)
#undef GLUINO_X
// An enumeration of so many bytes.
void add_choice(std::vector<AttrField>& to, std::string_view name, size_t offset, size_t bytes, size_t default_value,
                std::span<const char* const> choices, std::string_view doc);
}  // namespace detail

// What a struct's `static void fields(AttrFields<A>&)` fills in.
template <class A>
class AttrFields {
 public:
  template <class M>
  AttrFields& field(std::string_view name, M A::*member, std::string_view doc) {
    return detail::add_field<M>(fields_, name, offset(member), defaults_.*member, doc), *this;
  }
  template <class M>
  AttrFields& required(std::string_view name, M A::*member, std::string_view doc) {
    field(name, member, doc);
    fields_.back().required = true;
    return *this;
  }
  // An enumeration whose values 0, 1, ... are spelled by `choices`.
  template <class E, size_t N>
  AttrFields& choice(std::string_view name, E A::*member, const char* const (&choices)[N], std::string_view doc) {
    return detail::add_choice(fields_, name, offset(member), sizeof(E), static_cast<size_t>(defaults_.*member), choices, doc), *this;
  }
  std::vector<AttrField> take() { return std::move(fields_); }

 private:
  size_t offset(auto A::*member) const {
    return static_cast<size_t>(reinterpret_cast<const char*>(&(defaults_.*member)) - reinterpret_cast<const char*>(&defaults_));
  }
  A defaults_{};
  std::vector<AttrField> fields_;
};

struct NoAttrs {
  static void fields(AttrFields<NoAttrs>&) {}
};

// An operator's attributes with the type erased; null stands for a struct without fields.
using Attrs = std::shared_ptr<const void>;

}  // namespace gluino
