// Formatting of gluino's own types with fmt, and raise(): the one way to throw a formatted error.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gluino/dtype.h"
#include "gluino/error.h"
#include "gluino/shape.h"

template <>
struct fmt::is_range<gluino::Shape, char> : std::false_type {};
// Without options: {} alone.
template <>
struct fmt::formatter<gluino::Shape> {
  constexpr auto parse(fmt::format_parse_context& c) { return c.begin(); }
  fmt::appender format(const gluino::Shape& s, fmt::format_context& c) const;
};
template <>
struct fmt::formatter<gluino::DType> {
  constexpr auto parse(fmt::format_parse_context& c) { return c.begin(); }
  fmt::appender format(gluino::DType d, fmt::format_context& c) const;
};

namespace gluino {

namespace detail {
// There are a thousand messages: putting them together is compiled once, here for every type of error.
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void raise_text(fmt::string_view text, fmt::format_args args) {
  throw E(fmt::vformat(text, args));
}
extern template void raise_text<UserError>(fmt::string_view text, fmt::format_args args);
extern template void raise_text<ShapeError>(fmt::string_view text, fmt::format_args args);
extern template void raise_text<DTypeError>(fmt::string_view text, fmt::format_args args);
extern template void raise_text<AttrError>(fmt::string_view text, fmt::format_args args);
extern template void raise_text<IndexError>(fmt::string_view text, fmt::format_args args);
extern template void raise_text<SystemError>(fmt::string_view text, fmt::format_args args);
extern template void raise_text<InternalError>(fmt::string_view text, fmt::format_args args);
}  // namespace detail

template <class E, class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> text, Args&&... args) {
  detail::raise_text<E>(text, fmt::make_format_args(args...));
}

// The candidate nearest to `name` by edit distance, as "; did you mean 'x'?", or "" when none is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace gluino
