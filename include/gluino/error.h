// The kinds of errors gluino raises. A message names the operator or file, what was found and what was needed.
#pragma once
#include <stdexcept>
#include <string>

namespace gluino {

// What a message already says about where the error came up; what is further in the list was added later, further out.
enum class Located : unsigned char { nowhere, in_operator, in_network };  // in_network: it names a block or a node

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, Located located = Located::nowhere) : std::runtime_error(what), located_(located) {}
  Located located() const { return located_; }

 private:
  Located located_;
};

// The caller's mistake: wrong shapes, dtypes, attributes, indices or uses of the interface.
class UserError : public Error {
 public:
  using Error::Error;
};
class ShapeError : public UserError {
 public:
  using UserError::UserError;
};
class DTypeError : public UserError {
 public:
  using UserError::UserError;
};
class AttrError : public UserError {
 public:
  using UserError::UserError;
};
class IndexError : public UserError {
 public:
  using UserError::UserError;
};

// Files, memory, the operating system.
class SystemError : public Error {
 public:
  using Error::Error;
};

// An invariant of gluino itself is broken; the message asks for a report.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& what) : Error("this is a bug in gluino: " + what) {}
};

}  // namespace gluino
