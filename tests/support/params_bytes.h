// Files of tensors written byte by byte, in the layouts that only old versions of MXNet wrote.
#pragma once
#include <string>

#include "gluino/io.h"

namespace gluino::test {

// Appends little-endian numbers.
class Bytes {
 public:
  Bytes& u16(uint16_t v) { return raw(&v, sizeof v); }
  Bytes& u32(uint32_t v) { return raw(&v, sizeof v); }
  Bytes& u64(uint64_t v) { return raw(&v, sizeof v); }
  Bytes& i32(int32_t v) { return raw(&v, sizeof v); }
  Bytes& i64(int64_t v) { return raw(&v, sizeof v); }
  Bytes& f32(float v) { return raw(&v, sizeof v); }
  Bytes& text(const std::string& s) { return raw(s.data(), s.size()); }
  const std::string& str() const { return bytes_; }

 private:
  Bytes& raw(const void* p, size_t n) { return bytes_.append(static_cast<const char*>(p), n), *this; }
  std::string bytes_;
};

struct ParamsFile {
  std::string name, bytes;
  NamedTensors content;  // what reading it gives
};
std::vector<ParamsFile> params_of_every_era();

}  // namespace gluino::test
