// A regular expression for names. std::regex takes seconds to compile wherever it is used: here it stands behind one function.
#pragma once
#include <memory>
#include <string>

namespace gluino {

class NamePattern {
 public:
  explicit NamePattern(const std::string& text);  // ECMAScript's grammar; raises UserError where it is none
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  bool fits_beginning(const std::string& name) const;

 private:
  struct Expression;
  std::unique_ptr<const Expression> expression_;
};

}  // namespace gluino
