// Reads JSON from the front to the end, without a tree: bodies of inference requests are mostly numbers, which go straight into tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gluino/dtype.h"
#include "serve/http/message.h"

namespace gluino::serve {

// All functions raise HttpError 400 for text that is not JSON, or not what was asked for.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  // Calls f(key) for each member; it must take the value. `what` names the object in messages.
  template <class F>
  void object(const char* what, F&& f) {
    expect('{', what, "an object");
    if (take('}')) return;
    do {
      std::string unescaped;
      const std::string_view key = text("a key", unescaped);
      expect(':', what, "a ':' after a key");
      f(key);
    } while (take(','));
    expect('}', what, "a '}' or ','");
  }
  template <class F>
  void array(const char* what, F&& f) {
    expect('[', what, "an array");
    if (take(']')) return;
    do f();
    while (take(','));
    expect(']', what, "a ']' or ','");
  }
  std::string string(const char* what);
  int64_t integer(const char* what);
  bool boolean(const char* what);
  std::string_view skip();  // any value; returns its text
  void end();               // nothing may follow

  // An array of numbers or truth values, or arrays of such, in row-major order, as elements of a type. Exactly `count` of them.
  void numbers(std::string_view what, DType dtype, int64_t count, char* to);

 private:
  void expect(char c, const char* what, const char* wanted);
  bool take(char c) {  // if it comes next, after blanks
    blanks();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  std::string_view text(const char* what, std::string& unescaped);  // a string; where it has escapes, what it means goes into `unescaped`
  [[noreturn]] void fail(const std::string& message) const;
  bool skip_string();
  template <class T>
  void numbers_of(std::string_view what, int64_t count, T* to);
  template <class T>
  T number(std::string_view what);
  const char *begin_, *at_, *end_;
};

}  // namespace gluino::serve
