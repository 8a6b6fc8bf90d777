// A part of a file in memory that nobody can take away. To map a file is far cheaper than to copy it: new memory costs more than its
// content. But whoever shortened the file would end every process that reads the mapping. So the file is kept from being changed by a lease
// until a copy, made later, has taken the mapping's place, at the same address.
#pragma once
#include <cstddef>
#include <memory>

namespace gluino {

class MappedFile {
 public:
  // Takes the file over. `offset` is a multiple of the page's size. Null where the system cannot map it or give a lease.
  static std::shared_ptr<MappedFile> map(int file, size_t offset, size_t bytes);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  char* data() const { return static_cast<char*>(data_); }  // to be read only
  void replace_by_copy();                                   // and lets go of the file; other threads may be reading

 private:
  MappedFile(void* data, size_t bytes, int file) : data_(data), bytes_(bytes), file_(file) {}
  void* data_;
  size_t bytes_;
  int file_;
};

}  // namespace gluino
