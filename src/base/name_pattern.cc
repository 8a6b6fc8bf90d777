#include "base/name_pattern.h"

#include <regex>

#include "base/format.h"

namespace gluino {

struct NamePattern::Expression {
  std::regex regex;
};

NamePattern::NamePattern(const std::string& text) try : expression_(new Expression{std::regex(text)}) {
} catch (const std::regex_error& e) {
  raise<UserError>("'{}' is not a pattern: {}", text, e.what());
}
NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;
bool NamePattern::fits_beginning(const std::string& name) const {
  return std::regex_search(name, expression_->regex, std::regex_constants::match_continuous);
}

}  // namespace gluino
