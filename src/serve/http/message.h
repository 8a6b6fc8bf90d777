// Requests and responses of HTTP/1.1, and what is wrong with a request.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gluino/error.h"

namespace gluino::serve {

// A request that is answered with a status from 400 up; the message names the mistake.
class HttpError : public Error {
 public:
  HttpError(int status, const std::string& message) : Error(message), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

struct HttpRequest {
  std::string head;  // as received, with the headers' names in lower case; the views point into it
  std::string_view method, path, query;
  std::vector<std::pair<std::string_view, std::string_view>> headers;
  std::string body;
  std::optional<uint64_t> content_length;
  int minor_version = 1;  // of HTTP/1.x
  bool is_chunked = false, keep_alive = true, wants_continue = false;

  std::string_view header(std::string_view lower_case_name) const;  // "" where it is absent
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  std::string head(bool keep_alive) const;  // the status line and the headers, with the empty line
};
HttpResponse error_response(int status, const std::string& message);
std::string_view status_text(int status);

}  // namespace gluino::serve
