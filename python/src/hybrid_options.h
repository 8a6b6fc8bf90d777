// hybridize()'s keywords: the members of HybridOptions by their names.
#pragma once
#include "base/format.h"
#include "gluino/hybrid.h"
#include "object.h"

namespace gluino::python {

template <auto member>
void set_option(HybridOptions& o, py::handle value) {
  o.*member = py::cast<std::remove_reference_t<decltype(o.*member)>>(value);
}
inline constexpr std::pair<std::string_view, void (*)(HybridOptions&, py::handle)> kHybridOptions[] = {
    {"static_alloc", set_option<&HybridOptions::static_alloc>},
    {"static_shape", set_option<&HybridOptions::static_shape>},
    {"inline_limit", set_option<&HybridOptions::inline_limit>},
    {"forward_bulk_size", set_option<&HybridOptions::forward_bulk_size>},
    {"backward_bulk_size", set_option<&HybridOptions::backward_bulk_size>},
    {"verify", set_option<&HybridOptions::verify>},
    {"strict", set_option<&HybridOptions::strict>},
    {"max_plans", set_option<&HybridOptions::max_plans>},
};

inline std::vector<std::string_view> hybrid_option_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, set] : kHybridOptions) names.push_back(name);
  return names;
}

inline HybridOptions to_options(const py::dict& flags) {
  HybridOptions o;
  for (const auto& [name, value] : flags) {
    const auto key = py::cast<std::string>(name);
    const auto* const option = std::ranges::find(kHybridOptions, key, [](const auto& known) { return known.first; });
    if (option == std::end(kHybridOptions))
      throw py::type_error(fmt::format("hybridize: no option is named '{}'; there are {}", key, fmt::join(hybrid_option_names(), ", ")));
    try {
      option->second(o, value);
    } catch (const py::cast_error&) {
      throw py::type_error(fmt::format("hybridize: {} cannot be {}; a truth value or a whole number is needed", key,
                                       py::cast<std::string>(py::repr(value))));
    }
  }
  return o;
}

}  // namespace gluino::python
