#include "io/zip.h"

#include <zip.h>

#include <algorithm>
#include <memory>

#include "base/format.h"

namespace gluino::io {
namespace {

struct ZipCloser {
  void operator()(zip_t* z) const { zip_discard(z); }
};
struct ZipFileCloser {
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};

// Deflate shrinks at most 1032 times: a larger claim is a lie that would only cost memory.
constexpr uint64_t kMaxRatio = 1032;

// `budget` is what all entries together may still unpack to; entries that share packed bytes would pass any limit of their own.
std::string read_entry(zip_t* archive, zip_uint64_t index, const std::string& what, uint64_t& budget) {
  zip_stat_t stat;
  if (zip_stat_index(archive, index, 0, &stat) != 0 || !(stat.valid & ZIP_STAT_SIZE) || !(stat.valid & ZIP_STAT_COMP_SIZE))
    raise<SystemError>("{}: entry {} of the zip has no size", what, index);
  if (stat.size > budget || stat.size / kMaxRatio > stat.comp_size + 1)
    raise<SystemError>("{}: entry '{}' claims {} bytes from {} packed ones", what, stat.name, stat.size, stat.comp_size);
  std::unique_ptr<zip_file_t, ZipFileCloser> f(zip_fopen_index(archive, index, 0));
  if (!f) raise<SystemError>("{}: entry '{}' cannot be opened: {}", what, stat.name, zip_strerror(archive));
  std::string bytes;  // grows with what is there, not with what is claimed
  char block[1 << 16];
  while (bytes.size() < stat.size) {
    const zip_int64_t n = zip_fread(f.get(), block, std::min<zip_uint64_t>(sizeof block, stat.size - bytes.size()));
    if (n <= 0) raise<SystemError>("{}: entry '{}' is damaged", what, stat.name);
    bytes.append(block, static_cast<size_t>(n));
  }
  // One more read reaches the end of the entry, where its checksum is compared.
  if (zip_fread(f.get(), block, 1) != 0) raise<SystemError>("{}: entry '{}' is damaged: {}", what, stat.name, zip_file_strerror(f.get()));
  budget -= bytes.size();
  return bytes;
}

}  // namespace

ZipEntries read_zip(std::string_view bytes, const std::string& what) {
  if (bytes.empty()) raise<SystemError>("{}: the file is empty", what);  // libzip would take it for a zip without entries
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  std::unique_ptr<zip_t, ZipCloser> archive(source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr);
  if (!archive) {
    const std::string reason = zip_error_strerror(&error);
    if (source) zip_source_free(source);
    zip_error_fini(&error);
    raise<SystemError>("{}: not a readable zip: {}", what, reason);
  }
  ZipEntries entries;
  uint64_t budget = bytes.size() * kMaxRatio;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), 0);
    if (!name) raise<SystemError>("{}: entry {} of the zip has no name", what, i);
    if (std::string_view(name).ends_with('/')) continue;
    entries.emplace_back(name, read_entry(archive.get(), static_cast<zip_uint64_t>(i), what, budget));
  }
  return entries;
}

std::string write_zip(const ZipEntries& entries) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* target = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(target);
  zip_t* archive = zip_open_from_source(target, ZIP_TRUNCATE, &error);
  if (!archive) raise<SystemError>("cannot make a zip: {}", zip_error_strerror(&error));
  for (const auto& [name, content] : entries) {
    zip_source_t* s = zip_source_buffer(archive, content.data(), content.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), s, ZIP_FL_OVERWRITE | ZIP_FL_ENC_UTF_8);
    if (index < 0) raise<SystemError>("cannot add '{}' to a zip: {}", name, zip_strerror(archive));
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive) != 0) raise<SystemError>("cannot make a zip: {}", zip_strerror(archive));
  zip_source_open(target);
  zip_source_seek(target, 0, SEEK_END);
  const zip_int64_t size = zip_source_tell(target);
  zip_source_seek(target, 0, SEEK_SET);
  std::string bytes(size, '\0');
  const zip_int64_t got = zip_source_read(target, bytes.data(), static_cast<zip_uint64_t>(size));
  zip_source_close(target);
  zip_source_free(target);
  if (got != size) throw SystemError("cannot make a zip: it could not be read back");
  return bytes;
}

}  // namespace gluino::io
