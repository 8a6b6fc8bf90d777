// Typed attributes: a plain struct that lists its fields once. Parsing from the strings of files, printing,
// keyword arguments, documentation and the generated C++ functions all come from that list.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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
#define GLUINO_ATTR_TYPE(Type)                                          \
  template <>                                                           \
  struct AttrType<Type> {                                               \
    static const char* name(); /* as C++ spells it */                   \
    static Type parse(const std::string& who, const std::string& text); \
    static std::string print(const Type& value);                        \
    static Type from(const std::string& who, const AttrValue& value);   \
    static std::string literal(const Type& value); /* C++ source */     \
  };
GLUINO_ATTR_TYPE(bool)
GLUINO_ATTR_TYPE(int)
GLUINO_ATTR_TYPE(int64_t)
GLUINO_ATTR_TYPE(double)
GLUINO_ATTR_TYPE(std::string)
GLUINO_ATTR_TYPE(Shape)
GLUINO_ATTR_TYPE(OptionalInts)
GLUINO_ATTR_TYPE(Floats)
GLUINO_ATTR_TYPE(DType)
#undef GLUINO_ATTR_TYPE

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

// What a struct's `static void fields(AttrFields<A>&)` fills in.
template <class A>
class AttrFields {
 public:
  template <class M>
  AttrFields& field(std::string name, M A::*member, std::string doc) {
    AttrField f;
    f.name = std::move(name);
    f.doc = std::move(doc);
    f.type = AttrType<M>::name();
    f.default_text = AttrType<M>::print(defaults_.*member);
    f.default_literal = AttrType<M>::literal(defaults_.*member);
    f.set = [member](void* a, const std::string& who, const AttrValue& v) {
      M& target = static_cast<A*>(a)->*member;
      const auto* text = std::get_if<std::string>(&v);
      target = text ? AttrType<M>::parse(who, *text) : AttrType<M>::from(who, v);
    };
    f.print = [member](const void* a) { return AttrType<M>::print(static_cast<const A*>(a)->*member); };
    fields_.push_back(std::move(f));
    return *this;
  }
  template <class M>
  AttrFields& required(std::string name, M A::*member, std::string doc) {
    field(std::move(name), member, std::move(doc));
    fields_.back().required = true;
    return *this;
  }
  // An enumeration whose values 0, 1, ... are spelled by `choices`.
  template <class E>
  AttrFields& choice(std::string name, E A::*member, std::vector<std::string> choices, std::string doc) {
    AttrField f;
    f.name = std::move(name);
    f.doc = std::move(doc);
    f.type = "std::string";
    f.default_text = choices.at(static_cast<size_t>(defaults_.*member));
    f.default_literal = '"' + f.default_text + '"';
    f.choices = choices;
    f.set = [member, choices](void* a, const std::string& who, const AttrValue& v) {
      static_cast<A*>(a)->*member = static_cast<E>(find_choice(who, choices, v));
    };
    f.print = [member, choices](const void* a) { return choices.at(static_cast<size_t>(static_cast<const A*>(a)->*member)); };
    fields_.push_back(std::move(f));
    return *this;
  }
  std::vector<AttrField> take() { return std::move(fields_); }

 private:
  static size_t find_choice(const std::string& who, const std::vector<std::string>& choices, const AttrValue& v);
  A defaults_{};
  std::vector<AttrField> fields_;
};

size_t find_attr_choice(const std::string& who, const std::vector<std::string>& choices, const AttrValue& v);
template <class A>
size_t AttrFields<A>::find_choice(const std::string& who, const std::vector<std::string>& choices, const AttrValue& v) {
  return find_attr_choice(who, choices, v);
}

struct NoAttrs {
  static void fields(AttrFields<NoAttrs>&) {}
};

// An operator's attributes with the type erased; null stands for a struct without fields.
using Attrs = std::shared_ptr<const void>;

}  // namespace gluino
