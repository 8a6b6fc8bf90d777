#include "serve/protocol/json_cursor.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace gluino::serve {
namespace {

constexpr int kMaxDepth = 64;  // more than a tensor has axes

bool is_number_char(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What a string holds as it stands.
constexpr std::array<bool, 256> kPlainChars = [] {
  std::array<bool, 256> table{};
  for (int c = ' '; c < 128; ++c) table[static_cast<size_t>(c)] = c != '"' && c != '\\';
  return table;
}();

// from_chars takes ".5", "5." and "05", which JSON does not; the caller has seen that `text` holds only what numbers are made of.
bool is_json_number(std::string_view text) {
  size_t i = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t from = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i > from;
  };
  const size_t whole = i;
  if (!digits() || (text[whole] == '0' && i > whole + 1)) return false;
  if (i < text.size() && text[i] == '.' && (++i, !digits())) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

}  // namespace

void JsonCursor::fail(const std::string& message) const {
  throw HttpError(400, fmt::format("the JSON is wrong at byte {}: {}", at_ - begin_, message));
}
void JsonCursor::expect(char c, const char* what, const char* wanted) {
  if (!take(c)) fail(fmt::format("{} needs {} here", what, wanted));
}
void JsonCursor::end() {
  blanks();
  if (at_ != end_) fail("something follows the end");
}

// Moves behind a string, and says whether it is as it stands: without escapes and in ASCII. The others are checked by the library.
bool JsonCursor::skip_string() {
  if (!take('"')) fail("a string is needed here");
  const char* const from = at_ - 1;
  bool is_plain = true;
  while (at_ < end_ && kPlainChars[static_cast<unsigned char>(*at_)]) ++at_;
  for (; at_ < end_ && *at_ != '"'; ++at_) {
    const auto c = static_cast<unsigned char>(*at_);
    is_plain = is_plain && c != '\\' && c < 128;
    if (c < ' ') fail("a string has control characters");
    if (c == '\\' && at_ + 1 < end_) ++at_;
  }
  if (at_ >= end_) fail("a string does not end");
  ++at_;
  if (!is_plain && !nlohmann::json::accept(from, at_)) fail("a string has a wrong escape, or is not UTF-8");
  return is_plain;
}

std::string_view JsonCursor::text(const char* what, std::string& unescaped) {
  blanks();
  if (at_ == end_ || *at_ != '"') fail(fmt::format("{} must be a string", what));
  const char* const from = at_;
  if (skip_string()) return {from + 1, at_ - 1};
  unescaped = nlohmann::json::parse(from, at_).get<std::string>();
  return unescaped;
}
std::string JsonCursor::string(const char* what) {
  std::string unescaped;
  return std::string(text(what, unescaped));
}

template <class T>
T JsonCursor::number(std::string_view what) {
  blanks();
  const char* from = at_;
  while (at_ < end_ && is_number_char(*at_)) ++at_;
  const std::string_view text(from, static_cast<size_t>(at_ - from));
  const auto wrong = [&](const char* why) {
    at_ = from;
    fail(fmt::format("{} {}", what, why));
  };
  if (text.empty() || !is_json_number(text)) wrong("must be numbers");
  if constexpr (std::is_floating_point_v<T>) {
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {  // what is too small is 0, what is too large infinite, as everywhere
      double wide = 0;
      const auto again = std::from_chars(text.data(), text.data() + text.size(), wide);
      if (again.ec == std::errc()) return static_cast<T>(wide);
      return static_cast<T>(std::strtod(std::string(text).c_str(), nullptr));
    }
    return value;
  } else {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      // 3.0 and 1e2 are whole numbers too.
      const double wide = std::strtod(std::string(text).c_str(), nullptr);
      if (std::trunc(wide) != wide) wrong("must be whole numbers");
      if (!(std::abs(wide) < 9.2e18)) wrong("does not fit into the datatype");
      value = static_cast<int64_t>(wide);
    }
    if (value < static_cast<int64_t>(std::numeric_limits<T>::min()) || value > static_cast<int64_t>(std::numeric_limits<T>::max()))
      wrong("does not fit into the datatype");
    return static_cast<T>(value);
  }
}

int64_t JsonCursor::integer(const char* what) { return number<int64_t>(what); }
bool JsonCursor::boolean(const char* what) {
  const std::string_view text = skip();
  if (text != "true" && text != "false") fail(fmt::format("{} must be true or false", what));
  return text == "true";
}

std::string_view JsonCursor::skip() {
  blanks();
  const char* from = at_;
  std::string open;  // brackets that wait for their end
  do {
    blanks();
    if (at_ == end_) fail("the end comes too early");
    bool is_value = true;
    if (*at_ == '{' || *at_ == '[') {
      if (open.size() >= kMaxDepth) fail("brackets are nested too deep");
      open += *at_ == '{' ? '}' : ']';
      ++at_;
      if (!take(open.back())) {
        if (open.back() == '}') {
          skip_string();
          expect(':', "an object", "a ':' after a key");
        }
        continue;
      }
      open.pop_back();
    } else if (*at_ == '"') {
      skip_string();
    } else if (is_number_char(*at_)) {
      number<double>("this");
    } else {
      is_value = false;
      for (const std::string_view word : {"true", "false", "null"})
        if (std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) {
          at_ += word.size();
          is_value = true;
          break;
        }
    }
    if (!is_value) fail("a value is needed here");
    // What may follow a value: the end of brackets, any number of them, or the next one after a comma.
    while (!open.empty()) {
      if (take(open.back())) {
        open.pop_back();
        continue;
      }
      expect(',', open.back() == '}' ? "an object" : "an array", open.back() == '}' ? "a '}' or ','" : "a ']' or ','");
      if (open.back() == '}') {
        skip_string();
        expect(':', "an object", "a ':' after a key");
      }
      break;
    }
  } while (!open.empty());
  return {from, static_cast<size_t>(at_ - from)};
}

template <class T>
void JsonCursor::numbers_of(std::string_view what, int64_t count, T* to) {
  int64_t filled = 0;
  int depth = 0;
  const auto next = [&] {
    if (filled == count) fail(fmt::format("{} has more than the {} elements that its shape says", what, count));
    blanks();
    if constexpr (std::is_same_v<T, bool>) {
      const std::string_view rest(at_, static_cast<size_t>(end_ - at_));
      const bool is_true = rest.starts_with("true") || rest.starts_with('1'), is_false = rest.starts_with("false") || rest.starts_with('0');
      if (!is_true && !is_false) fail(fmt::format("{} must be true or false", what));
      at_ += *at_ == 't' ? 4 : *at_ == 'f' ? 5 : 1;
      to[filled++] = is_true;
    } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      to[filled++] = T(number<float>(what));
    } else {
      to[filled++] = number<T>(what);
    }
  };
  if (!take('[')) fail(fmt::format("{} must be an array", what));
  depth = 1;
  bool wants_value = true;
  if (take(']')) depth = 0;
  while (depth > 0) {
    if (wants_value) {
      if (take('[')) {
        if (++depth > kMaxDepth) fail("brackets are nested too deep");
        if (!take(']')) continue;
        --depth;
      } else {
        next();
      }
      wants_value = false;
    } else if (take(',')) {
      wants_value = true;
    } else {
      expect(']', "an array", "a ']' or ','");
      --depth;
    }
  }
  if (filled != count) fail(fmt::format("{} has {} elements, its shape says {}", what, filled, count));
}

void JsonCursor::numbers(std::string_view what, DType dtype, int64_t count, char* to) {
  visit_dtype(dtype, [&]<class T>(T*) { numbers_of(what, count, reinterpret_cast<T*>(to)); });
}

}  // namespace gluino::serve
