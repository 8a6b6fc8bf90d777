#pragma once
#include "gluino/error.h"

namespace gluino {

// Raised in a trace that meets what no program can do: the function runs as it is then.
class Untraceable final : public UserError {
 public:
  enum class Lasts : uint8_t { yes, no };   // no: the next call may be traced again
  enum class Undone : uint8_t { yes, no };  // yes: variables that user code has bound to values of the trace are what they were
  explicit Untraceable(const std::string& why, Lasts lasts = Lasts::yes, Undone undone = Undone::no)
      : UserError(why, Located::in_network), lasts_(lasts), undone_(undone) {}  // it passes operators and blocks as it is
  bool is_lasting() const { return lasts_ == Lasts::yes; }
  bool is_undone() const { return undone_ == Undone::yes; }

 private:
  Lasts lasts_;
  Undone undone_;
};

// What eager code does and a trace cannot: the user is told, instead of the call being made without a program.
class NotInATrace final : public UserError {
 public:
  using UserError::UserError;
};

}  // namespace gluino
