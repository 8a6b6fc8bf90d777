#include "base/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/format.h"

namespace gluino {
namespace {

struct Closer {
  void operator()(FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<FILE, Closer>;

}  // namespace

std::string read_file(const std::string& path) {
  File f(std::fopen(path.c_str(), "rb"));
  if (!f) raise<SystemError>("cannot open '{}': {}", path, std::strerror(errno));
  std::string bytes;
  char block[1 << 16];
  for (size_t n; (n = std::fread(block, 1, sizeof block, f.get())) > 0;) bytes.append(block, n);
  if (std::ferror(f.get())) raise<SystemError>("cannot read '{}': {}", path, std::strerror(errno));
  return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  File f(std::fopen(temporary.c_str(), "wb"));
  if (!f) raise<SystemError>("cannot write '{}': {}", path, std::strerror(errno));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), f.get()) == bytes.size();
  const bool closed = std::fclose(f.release()) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    std::remove(temporary.c_str());
    raise<SystemError>("cannot write '{}': {}", path, std::strerror(reason));
  }
}

}  // namespace gluino
