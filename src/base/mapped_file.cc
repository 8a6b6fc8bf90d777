#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

namespace gluino {

// Whoever wants to write to the file or to shorten it waits from now on, for some ten seconds at most. A process is told by a signal that
// someone waits; here nobody needs to know, and until that is said it is a signal that does nothing.
static bool take_lease(int file) {
  return fcntl(file, F_SETSIG, SIGURG) == 0 && fcntl(file, F_SETLEASE, F_RDLCK) == 0 && fcntl(file, F_SETOWN, 0) == 0;
}

std::shared_ptr<MappedFile> MappedFile::map(int file, size_t offset, size_t bytes) {
  if (bytes == 0 || !take_lease(file)) {
    close(file);
    return nullptr;
  }
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, static_cast<off_t>(offset));
  if (data != MAP_FAILED) return std::shared_ptr<MappedFile>(new MappedFile(data, bytes, file));
  close(file);
  return nullptr;
}

MappedFile::~MappedFile() {
  munmap(data_, bytes_);
  if (file_ >= 0) close(file_);
}

void MappedFile::replace_by_copy() {
  if (file_ < 0) return;
  void* copy = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (copy == MAP_FAILED) return;  // it stays mapped, and under the lease
  std::memcpy(copy, data_, bytes_);
  mprotect(copy, bytes_, PROT_READ);
  if (mremap(copy, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, data_) == MAP_FAILED) {
    munmap(copy, bytes_);
    return;
  }
  close(file_);  // and with it the lease
  file_ = -1;
}

}  // namespace gluino
