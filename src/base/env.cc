#include "base/env.h"

#include <charconv>
#include <cstdlib>

namespace gluino {

std::optional<std::string> env_text(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<int> env_int(const char* name) {
  const auto text = env_text(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

}  // namespace gluino
