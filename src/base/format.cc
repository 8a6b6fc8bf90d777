#include "base/format.h"

#include <vector>

fmt::appender fmt::formatter<gluino::Shape>::format(const gluino::Shape& s, fmt::format_context& c) const {
  return fmt::format_to(c.out(), "{}", s.str());
}
fmt::appender fmt::formatter<gluino::DType>::format(gluino::DType d, fmt::format_context& c) const {
  return fmt::format_to(c.out(), "{}", gluino::dtype_name(d));
}

namespace gluino {

namespace detail {
template void raise_text<UserError>(fmt::string_view text, fmt::format_args args);
template void raise_text<ShapeError>(fmt::string_view text, fmt::format_args args);
template void raise_text<DTypeError>(fmt::string_view text, fmt::format_args args);
template void raise_text<AttrError>(fmt::string_view text, fmt::format_args args);
template void raise_text<IndexError>(fmt::string_view text, fmt::format_args args);
template void raise_text<SystemError>(fmt::string_view text, fmt::format_args args);
template void raise_text<InternalError>(fmt::string_view text, fmt::format_args args);
}  // namespace detail

static size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  std::string_view nearest;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace gluino
