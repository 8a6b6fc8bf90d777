#include "serve/http/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace gluino::serve {
namespace {

constexpr size_t kMaxTarget = 8192, kMaxHeaders = 100, kMaxChunkLine = 256;

// What words of the head are made of.
constexpr std::array<bool, 256> kTokenChars = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&'*+-.^_`|~"))
    table[static_cast<unsigned char>(c)] = true;
  return table;
}();
bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return kTokenChars[c]; });
}
// At once for a whole line: a search for each of them would take several times as long as everything else that is done with a head.
bool has_bare_line_end(std::string_view line) {
  bool found = false;
  for (const char c : line) found |= c == '\r' || c == '\n' || c == '\0';
  return found;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool equal_ignoring_case(std::string_view a, std::string_view lower_case) {
  return a.size() == lower_case.size() && std::equal(a.begin(), a.end(), lower_case.begin(), [](char x, char y) { return lower(x) == y; });
}
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}
bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (equal_ignoring_case(trimmed(list.substr(0, comma)), word)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// "http://host/path" is how proxies are asked; a server takes it, and only its path counts.
std::string_view without_host(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const size_t host = std::min(rest.find_first_of("/?"), rest.size());
    if (host == 0) return target;
    return host < rest.size() && rest[host] == '/' ? rest.substr(host) : std::string_view("/");
  }
  return target;
}

void parse_request_line(std::string_view line, HttpRequest& request) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) throw HttpError(400, "the request line is not of the form 'METHOD /path HTTP/1.1'");
  request.method = line.substr(0, first);
  const std::string_view target = without_host(line.substr(first + 1, last - first - 1)), version = line.substr(last + 1);
  if (!is_token(request.method)) throw HttpError(400, "the request's method is not a word");
  if (target.size() > kMaxTarget)
    throw HttpError(414, fmt::format("the path has {} bytes, at most {} are taken", target.size(), kMaxTarget));
  if (target.empty() || target[0] != '/') throw HttpError(400, "the request's path does not start with '/'");
  if (std::any_of(target.begin(), target.end(), [](unsigned char c) { return c <= ' ' || c >= 127; }))
    throw HttpError(400, "the request's path has bytes that must be written as %XX");
  if (!version.starts_with("HTTP/")) throw HttpError(400, "the request line does not end in HTTP/1.1");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") throw HttpError(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  request.minor_version = version == "HTTP/1.1" ? 1 : 0;
  request.keep_alive = request.minor_version == 1;
  const size_t question = std::min(target.find('?'), target.size());
  request.path = target.substr(0, question);
  request.query = target.substr(std::min(question + 1, target.size()));
}

void parse_header(char* line, size_t size, HttpRequest& request) {
  const std::string_view text(line, size);
  const size_t colon = text.find(':');
  if (colon == text.npos || !is_token(text.substr(0, colon))) throw HttpError(400, "a header is not of the form 'Name: value'");
  std::transform(line, line + colon, line, lower);
  const std::string_view value = trimmed(text.substr(colon + 1));
  if (std::any_of(value.begin(), value.end(), [](unsigned char c) { return (c < ' ' && c != '\t') || c == 127; }))
    throw HttpError(400, fmt::format("the header '{}' has control characters", text.substr(0, colon)));
  request.headers.emplace_back(text.substr(0, colon), value);
}

uint64_t parse_length(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // from_chars takes no sign for unsigned numbers, so only digits are left.
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw HttpError(400, fmt::format("Content-Length is '{}', not a number", text));
  return value;
}

// What the headers say about the body and the connection.
void apply_headers(HttpRequest& request) {
  int hosts = 0;
  for (const auto& [name, value] : request.headers) {
    if (name == "host") ++hosts;
    if (name == "content-length") {
      const uint64_t length = parse_length(value);
      if (request.content_length && *request.content_length != length) throw HttpError(400, "two different Content-Length are given");
      request.content_length = length;
    }
    if (name == "transfer-encoding") {
      if (request.is_chunked || !equal_ignoring_case(value, "chunked"))
        throw HttpError(501, fmt::format("Transfer-Encoding is '{}'; only 'chunked' is known", value));
      request.is_chunked = true;
    }
    if (name == "connection") {
      if (has_word(value, "keep-alive")) request.keep_alive = true;
      if (has_word(value, "close")) request.keep_alive = false;
    }
    if (name == "expect") {
      if (!equal_ignoring_case(value, "100-continue"))
        throw HttpError(417, fmt::format("Expect is '{}'; only '100-continue' is known", value));
      request.wants_continue = true;
    }
    if (name == "content-encoding" && !equal_ignoring_case(value, "identity"))
      throw HttpError(415, fmt::format("Content-Encoding is '{}'; send the body as it is", value));
  }
  if (request.is_chunked && request.content_length) throw HttpError(400, "both Content-Length and Transfer-Encoding are given");
  if (hosts > 1 || (hosts == 0 && request.minor_version == 1)) throw HttpError(400, "a request of HTTP/1.1 has one Host header");
}

}  // namespace

void parse_head(HttpRequest& request) {
  char* const begin = request.head.data();
  request.headers.reserve(8);
  size_t at = 0;
  bool is_first = true;
  while (true) {
    const size_t end = request.head.find("\r\n", at);
    if (end == std::string::npos) throw HttpError(400, "the head does not end");
    const std::string_view line(begin + at, end - at);
    if (has_bare_line_end(line)) throw HttpError(400, "a line of the head has a bare CR, LF or NUL");
    if (is_first) {
      parse_request_line(line, request);
    } else if (line.empty()) {
      break;
    } else {
      if (request.headers.size() == kMaxHeaders) throw HttpError(431, fmt::format("more than {} headers are given", kMaxHeaders));
      parse_header(begin + at, line.size(), request);
    }
    is_first = false;
    at = end + 2;
  }
  apply_headers(request);
}

bool ChunkDecoder::take_line(std::string_view in, size_t& at) {
  const size_t end = in.find('\n', at);
  line_.append(in.substr(at, end == in.npos ? in.npos : end - at));
  at = end == in.npos ? in.size() : end + 1;
  if (line_.size() > kMaxChunkLine) throw HttpError(400, "a line between chunks is too long");
  if (end == in.npos) return false;
  if (!line_.ends_with('\r')) throw HttpError(400, "a line between chunks does not end in CR LF");
  line_.pop_back();
  return true;
}

size_t ChunkDecoder::feed(std::string_view in, std::string& body, size_t most) {
  size_t at = 0;
  while (at < in.size() && state_ != State::done) {
    if (state_ == State::data) {
      const size_t part = std::min<uint64_t>(left_, in.size() - at);
      body.append(in.substr(at, part));
      at += part;
      left_ -= part;
      if (left_ == 0) state_ = State::data_end;
      continue;
    }
    if (!take_line(in, at)) break;
    const std::string line = std::exchange(line_, {});
    if (state_ == State::size) {
      const std::string_view digits = trimmed(std::string_view(line).substr(0, line.find(';')));
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), left_, 16);
      if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
        throw HttpError(400, "the size of a chunk is not a hexadecimal number");
      if (left_ > most - body.size()) throw HttpError(413, fmt::format("the body has more than {} bytes (--max-body)", most));
      state_ = left_ == 0 ? State::trailer : State::data;
    } else if (state_ == State::data_end) {
      if (!line.empty()) throw HttpError(400, "a chunk is longer than its size says");
      state_ = State::size;
    } else {
      trailer_bytes_ += line.size() + 2;
      if (trailer_bytes_ > kMaxHead) throw HttpError(431, "the trailer after the chunks is too long");
      if (line.empty()) state_ = State::done;
    }
  }
  return at;
}

std::vector<std::string> path_segments(std::string_view path) {
  std::vector<std::string> segments;
  std::string segment;
  for (size_t i = 1; i < path.size(); ++i) {
    if (path[i] == '/') {
      segments.push_back(std::exchange(segment, {}));
    } else if (path[i] == '%') {
      int code = 0;
      const char* digits = path.data() + i + 1;
      if (i + 2 >= path.size() || std::from_chars(digits, digits + 2, code, 16).ptr != digits + 2 || code < ' ')
        throw HttpError(400, "a '%' in the path is not followed by two hexadecimal digits of a printable character");
      segment += static_cast<char>(code);
      i += 2;
    } else {
      segment += path[i];
    }
  }
  if (!segment.empty()) segments.push_back(segment);
  return segments;
}

}  // namespace gluino::serve
