// Formatting of gluino's own types with fmt, and raise(): the one way to throw a formatted error.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gluino/dtype.h"
#include "gluino/error.h"
#include "gluino/shape.h"

template <>
struct fmt::is_range<gluino::Shape, char> : std::false_type {};
template <>
struct fmt::formatter<gluino::Shape> : fmt::formatter<std::string> {
  template <class C>
  auto format(const gluino::Shape& s, C& c) const {
    return fmt::formatter<std::string>::format(s.str(), c);
  }
};
template <>
struct fmt::formatter<gluino::DType> : fmt::formatter<std::string_view> {
  template <class C>
  auto format(gluino::DType d, C& c) const {
    return fmt::formatter<std::string_view>::format(gluino::dtype_name(d), c);
  }
};

namespace gluino {

template <class E, class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> text, Args&&... args) {
  throw E(fmt::format(text, std::forward<Args>(args)...));
}

// The candidate nearest to `name` by edit distance, as "; did you mean 'x'?", or "" when none is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace gluino
