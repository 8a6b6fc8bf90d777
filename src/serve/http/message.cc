#include "serve/http/message.h"

#include <nlohmann/json.hpp>

namespace gluino::serve {

std::string_view HttpRequest::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers)
    if (name == lower_case_name) return value;
  return {};
}

std::string_view status_text(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

// Every answer has one, so it is put together without a format.
std::string HttpResponse::head(bool keep_alive) const {
  std::string text;
  text.reserve(192);
  text.append("HTTP/1.1 ").append(std::to_string(status)).append(" ").append(status_text(status));
  text.append("\r\nContent-Type: ").append(content_type).append("\r\nContent-Length: ").append(std::to_string(body.size())).append("\r\n");
  for (const auto& [name, value] : headers) text.append(name).append(": ").append(value).append("\r\n");
  text += keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
  return text;
}

HttpResponse error_response(int status, const std::string& message) {
  // Messages may quote what the client sent, which need not be UTF-8.
  HttpResponse response{.status = status,
                        .body = nlohmann::json{{"error", message}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace gluino::serve
