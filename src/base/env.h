// The one place that reads environment variables.
#pragma once
#include <optional>
#include <string>

namespace gluino {

std::optional<std::string> env_text(const char* name);
std::optional<int> env_int(const char* name);  // nullopt when absent or not a number

}  // namespace gluino
