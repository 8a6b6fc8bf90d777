#include "c_api/errors.h"

#include <new>

#include "base/format.h"
#include "c_api/handles.h"

namespace gluino::c_api {
namespace {

struct LastError {
  gluino_status code = GLUINO_OK;
  std::string message, hint;
  bool is_told = true;  // false: there was no memory for the texts
};
thread_local LastError last_error;

// Messages say what is wrong, and after the last semicolon what to do about it.
std::string hint_of(const std::string& message) {
  const size_t at = message.rfind("; ");
  return at == std::string::npos ? "" : message.substr(at + 2);
}

gluino_status remember(gluino_status code, const char* function, const std::string& what) noexcept {
  LastError& last = last_error;
  last.code = code;
  try {
    last.message = function ? fmt::format("{}: {}", function, what) : what;
    last.hint = hint_of(what);
    last.is_told = true;
  } catch (...) {
    last.is_told = false;
  }
  return code;
}

}  // namespace

// A catch clause for a type that may be thrown wherever this library calls; what is not ours comes last.
gluino_status remember_exception(const char* function) noexcept {
  try {
    try {
      throw;
    } catch (const CallError& e) {
      return remember(e.status(), function, e.what());
    } catch (const ShapeError& e) {
      return remember(GLUINO_ERROR_SHAPE, nullptr, e.what());
    } catch (const DTypeError& e) {
      return remember(GLUINO_ERROR_DTYPE, nullptr, e.what());
    } catch (const AttrError& e) {
      return remember(GLUINO_ERROR_ATTRIBUTE, nullptr, e.what());
    } catch (const IndexError& e) {
      return remember(GLUINO_ERROR_INDEX, nullptr, e.what());
    } catch (const UserError& e) {
      return remember(GLUINO_ERROR_ARGUMENT, nullptr, e.what());
    } catch (const SystemError& e) {
      return remember(GLUINO_ERROR_SYSTEM, nullptr, e.what());
    } catch (const std::bad_alloc&) {
      return remember(GLUINO_ERROR_MEMORY, function, "no memory left");
    } catch (const std::exception& e) {
      return remember(GLUINO_ERROR_INTERNAL, function, e.what());
    } catch (...) {
      return remember(GLUINO_ERROR_INTERNAL, function, "something unknown was thrown");
    }
  } catch (...) {  // while the text was made
    last_error.code = GLUINO_ERROR_MEMORY;
    last_error.is_told = false;
    return GLUINO_ERROR_MEMORY;
  }
}

void raise_bad_handle(uint64_t handle, int wanted_kind, const char* wanted_name) {
  constexpr const char* kNames[] = {nullptr, "model", "array"};
  const int kind = kind_of(handle);
  const auto fail = [](const std::string& what) { throw CallError(what, GLUINO_ERROR_HANDLE); };
  if (handle == 0) fail(fmt::format("the handle is 0, which is no {}; was loading or creating it checked for errors?", wanted_name));
  if (kind == wanted_kind) fail(fmt::format("{:#x} is no {} any more; it was freed, or never was one", handle, wanted_name));
  if (kind == 1 || kind == 2) fail(fmt::format("{:#x} is the handle of an {}; a {} is needed", handle, kNames[kind], wanted_name));
  fail(fmt::format("{:#x} is no handle; a {} is needed", handle, wanted_name));
  __builtin_unreachable();
}

}  // namespace gluino::c_api

using gluino::c_api::last_error;

extern "C" {

gluino_status gluino_last_error_code(void) { return last_error.code; }
const char* gluino_last_error_message(void) { return last_error.is_told ? last_error.message.c_str() : "no memory left for the message"; }
const char* gluino_last_error_hint(void) { return last_error.is_told ? last_error.hint.c_str() : ""; }

const char* gluino_status_name(gluino_status status) {
  switch (status) {
    case GLUINO_OK: return "GLUINO_OK";
    case GLUINO_ERROR_ARGUMENT: return "GLUINO_ERROR_ARGUMENT";
    case GLUINO_ERROR_HANDLE: return "GLUINO_ERROR_HANDLE";
    case GLUINO_ERROR_SHAPE: return "GLUINO_ERROR_SHAPE";
    case GLUINO_ERROR_DTYPE: return "GLUINO_ERROR_DTYPE";
    case GLUINO_ERROR_ATTRIBUTE: return "GLUINO_ERROR_ATTRIBUTE";
    case GLUINO_ERROR_INDEX: return "GLUINO_ERROR_INDEX";
    case GLUINO_ERROR_TOO_SMALL: return "GLUINO_ERROR_TOO_SMALL";
    case GLUINO_ERROR_SYSTEM: return "GLUINO_ERROR_SYSTEM";
    case GLUINO_ERROR_MEMORY: return "GLUINO_ERROR_MEMORY";
    case GLUINO_ERROR_INTERNAL: return "GLUINO_ERROR_INTERNAL";
    default: return "GLUINO_ERROR_UNKNOWN";
  }
}

}  // extern "C"
