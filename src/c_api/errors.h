// From C++ exceptions to status codes, and the last error of each thread.
#pragma once
#include "gluino/c_api.h"
#include "gluino/error.h"

namespace gluino::c_api {

// Mistakes in the use of this interface itself; the function's name is put in front of the message.
class CallError : public UserError {
 public:
  explicit CallError(const std::string& what, gluino_status status = GLUINO_ERROR_ARGUMENT) : UserError(what), status_(status) {}
  gluino_status status() const { return status_; }

 private:
  gluino_status status_;
};

// Remembers the exception being handled for gluino_last_error_*() and gives its code.
gluino_status remember_exception(const char* function) noexcept;

// The body of every function of the interface that can fail.
template <class F>
gluino_status guarded(const char* function, F&& body) noexcept {
  try {
    body();
    return GLUINO_OK;
  } catch (...) {
    return remember_exception(function);
  }
}

template <class T>
T* not_null(T* pointer, const char* name) {
  if (!pointer) throw CallError(std::string(name) + " is a null pointer");
  return pointer;
}
// A list of `count` things; null is good enough for none.
template <class T>
void check_list(const T* list, size_t count, const char* name) {
  if (count > 0) not_null(list, name);
}

}  // namespace gluino::c_api
