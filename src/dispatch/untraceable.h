#pragma once
#include "gluino/error.h"

namespace gluino {

// Raised in a trace that meets what no program can do: the function runs as it is then.
class Untraceable final : public UserError {
 public:
  enum class Lasts : uint8_t { yes, no };  // no: the next call may be traced again
  explicit Untraceable(const std::string& why, Lasts lasts = Lasts::yes) : UserError(why), lasts_(lasts) {}
  bool is_lasting() const { return lasts_ == Lasts::yes; }

 private:
  Lasts lasts_;
};

}  // namespace gluino
