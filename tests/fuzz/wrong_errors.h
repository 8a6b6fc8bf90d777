// Which errors are allowed: those that name a mistake of the caller or of the file, or say how much memory there is not.
#pragma once
#include <string>

#include "gluino/error.h"

namespace gluino::fuzz {

struct Caught {
  std::string text;     // of the error
  std::string problem;  // why it should not have been raised, or ""
  bool is_users = false;
};

// Inside a catch block.
inline Caught caught_error() {
  try {
    throw;
  } catch (const InternalError& e) {
    return {e.what(), e.what()};
  } catch (const UserError& e) {
    return {e.what(), "", true};
  } catch (const SystemError& e) {
    return {e.what(), ""};
  } catch (const std::exception& e) {
    return {e.what(), std::string("an error that is not gluino's: ") + e.what()};
  }
}

}  // namespace gluino::fuzz
