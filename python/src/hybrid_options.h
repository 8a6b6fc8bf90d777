// hybridize()'s keywords.
#pragma once
#include "gluino/hybrid.h"
#include "object.h"

namespace gluino::python {

inline HybridOptions to_options(const py::dict& flags) {
  HybridOptions o;
  for (const auto& [name, value] : flags) {
    const auto key = py::cast<std::string>(name);
    if (key == "static_alloc")
      o.static_alloc = py::cast<bool>(value);
    else if (key == "static_shape")
      o.static_shape = py::cast<bool>(value);
    else if (key == "inline_limit")
      o.inline_limit = py::cast<int>(value);
    else if (key == "forward_bulk_size")
      o.forward_bulk_size = py::cast<int>(value);
    else if (key == "backward_bulk_size")
      o.backward_bulk_size = py::cast<int>(value);
    else if (key == "verify")
      o.verify = py::cast<bool>(value);
    else if (key == "strict")
      o.strict = py::cast<bool>(value);
    else if (key == "max_plans")
      o.max_plans = py::cast<int>(value);
    else
      throw py::type_error("hybridize: no option is named '" + key +
                           "'; there are static_alloc, static_shape, inline_limit, "
                           "forward_bulk_size, backward_bulk_size, verify, strict and max_plans");
  }
  return o;
}

}  // namespace gluino::python
