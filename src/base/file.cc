#include "base/file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/atomic_file.h"
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
  // What a regular file holds, so that it is read to where it stays; others do not say.
  struct stat status {};
  if (fstat(fileno(f.get()), &status) == 0 && S_ISREG(status.st_mode)) bytes.reserve(static_cast<size_t>(status.st_size));
  char block[1 << 16];
  for (size_t n; (n = std::fread(block, 1, sizeof block, f.get())) > 0;) bytes.append(block, n);
  if (std::ferror(f.get())) raise<SystemError>("cannot read '{}': {}", path, std::strerror(errno));
  return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace gluino
