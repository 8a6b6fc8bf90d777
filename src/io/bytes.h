// Reads little-endian numbers from bytes that may be damaged or hostile: every step is checked against the end.
#pragma once
#include <cstring>
#include <string>
#include <string_view>

#include "base/format.h"

namespace gluino::io {

// A file that cannot be read: names the file and the byte.
class Reader {
 public:
  Reader(std::string_view bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}
  size_t position() const { return position_; }
  size_t size() const { return bytes_.size(); }
  size_t remaining() const { return bytes_.size() - position_; }
  void seek(size_t position) { position_ = position; }

  template <class T>
  T number(std::string_view name) {
    T value;
    std::memcpy(&value, take(sizeof(T), name).data(), sizeof(T));
    return value;
  }
  std::string_view take(uint64_t count, std::string_view name) {
    if (count > remaining()) fail(fmt::format("{} needs {} bytes, but only {} are left", name, count, remaining()));
    const std::string_view part = bytes_.substr(position_, count);
    position_ += static_cast<size_t>(count);
    return part;
  }
  [[noreturn]] void fail(std::string_view why) const { raise<SystemError>("{}: damaged at byte {}: {}", what_, position_, why); }

 private:
  std::string_view bytes_;
  std::string what_;
  size_t position_ = 0;
};

class Writer {
 public:
  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void bytes(std::string_view b) { bytes_.append(b); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace gluino::io
