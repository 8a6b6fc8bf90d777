#include "exec/kept_values.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/background.h"
#include "base/cache_folder.h"
#include "base/env.h"
#include "base/format.h"
#include "tensor/impl.h"

namespace gluino {
namespace {

namespace fs = std::filesystem;
constexpr const char* kEnding = ".value";
constexpr size_t kPage = 4096;  // the elements begin on a page of their own

struct Header {
  char magic[16];
  uint64_t bytes;
  XXH128_hash_t identity, sample;
};
constexpr char kMagic[16] = "gluino value 1\n";

// This very build of the library: another one may arrange numbers in another way.
const std::string& build_identity() {
  static const auto* text = new std::string([] {
    Dl_info here{};
    struct stat file {};
    if (!dladdr(reinterpret_cast<void*>(&build_identity), &here) || stat(here.dli_fname, &file) != 0) return std::string();
    return fmt::format("{} {} {}.{}", file.st_size, file.st_ino, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
  }());
  return *text;
}
XXH128_hash_t identity_hash(std::string_view identity) {
  const std::string whole = fmt::format("{}\n{}", build_identity(), identity);
  return XXH3_128bits(whole.data(), whole.size());
}

// A hash of a few bytes of every page: what a power cut leaves of a file lacks whole pages. To read all of it would take longer than all
// the rest of a first call.
XXH128_hash_t hash_sample(const char* elements, size_t bytes) {
  constexpr size_t kLine = 64;
  std::string sample;
  sample.reserve((bytes / kPage + 2) * kLine);
  for (size_t at = 0; at < bytes; at += kPage) sample.append(elements + at, std::min(kLine, bytes - at));
  sample.append(elements + bytes - std::min(kLine, bytes), std::min(kLine, bytes));
  return XXH3_128bits(sample.data(), sample.size());
}

struct Mapping {
  void* data;
  size_t bytes;
  ~Mapping() { munmap(data, bytes); }
};
std::shared_ptr<Mapping> map_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat info {};
  void* data = MAP_FAILED;
  if (fstat(file, &info) == 0 && info.st_size >= static_cast<off_t>(kPage))
    data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
  futimens(file, nullptr);  // used now
  close(file);
  if (data == MAP_FAILED) return nullptr;
  return std::make_shared<Mapping>(data, static_cast<size_t>(info.st_size));
}

bool write_all(int file, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(file, at, bytes);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

BackgroundQueue& writer() {
  static BackgroundQueue* const queue = [] {
    auto* made = new BackgroundQueue(std::chrono::milliseconds(300));  // a short process must get on, too
    std::atexit([] { writer().stop(); });
    return made;
  }();
  return *queue;
}

}  // namespace

KeptValues* KeptValues::get() {
  static KeptValues* const kept = []() -> KeptValues* {
    const int64_t megabytes = env_int("GLUINO_CACHE_MB").value_or(2048);
    const std::string folder = cache_folder();
    return folder.empty() || megabytes <= 0 ? nullptr : new KeptValues(folder, megabytes << 20);
  }();
  return kept;
}

std::string hash_of(const Tensor& t) {
  const XXH128_hash_t h = XXH3_128bits(bytes_of(t), static_cast<size_t>(t.size() * dtype_bytes(t.dtype())));
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::string KeptValues::file_of(std::string_view identity) const {
  const XXH128_hash_t h = identity_hash(identity);
  return fmt::format("{}/{:016x}{:016x}{}", folder_, h.high64, h.low64, kEnding);
}

Tensor KeptValues::find(std::string_view identity, const Shape& shape, DType dtype) const {
  const auto bytes = static_cast<size_t>(shape.elements() * dtype_bytes(dtype));
  const std::shared_ptr<Mapping> file = map_file(file_of(identity));
  if (!file || file->bytes != kPage + bytes) return {};
  Header header;
  std::memcpy(&header, file->data, sizeof header);
  char* elements = static_cast<char*>(file->data) + kPage;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.bytes != bytes ||
      !XXH128_isEqual(header.identity, identity_hash(identity)) || !XXH128_isEqual(header.sample, hash_sample(elements, bytes)))
    return {};
  Tensor t = make_shape_only(shape, dtype, current_device());
  impl_of(t).storage = make_ref<Storage>(elements, static_cast<int64_t>(bytes), current_device(), [file] {});
  impl_of(t).data = elements;
  return t;
}

void KeptValues::put(std::string_view identity, const Tensor& value) const {
  std::error_code ignored;
  if (fs::create_directories(folder_, ignored)) fs::permissions(folder_, fs::perms::owner_all, ignored);
  const auto bytes = static_cast<size_t>(value.size() * dtype_bytes(value.dtype()));
  const std::string target = file_of(identity);
  if (fs::exists(target, ignored) && fs::file_size(target, ignored) == kPage + bytes) return;
  make_room(static_cast<int64_t>(kPage + bytes));
  char first_page[kPage] = {};
  Header header{.magic = {}, .bytes = bytes, .identity = identity_hash(identity), .sample = hash_sample(bytes_of(value), bytes)};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::memcpy(first_page, &header, sizeof header);
  static std::atomic<int> number{0};
  const std::string temporary = fmt::format("{}.{}.{}", target, getpid(), number++);
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  const bool written = write_all(file, first_page, kPage) && write_all(file, bytes_of(value), bytes);
  if ((close(file) != 0) || !written || std::rename(temporary.c_str(), target.c_str()) != 0) fs::remove(temporary, ignored);
}

void KeptValues::put_later(std::string identity, Tensor value) const {
  writer().push([this, identity = std::move(identity), value = std::move(value)] { put(identity, value); });
}

void KeptValues::make_room(int64_t bytes) const {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    int64_t bytes;
  };
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder_, error)) {
    if (file.path().filename().string().find(kEnding) == std::string::npos) continue;  // those of unfinished writes are counted too
    Entry e{file.path(), file.last_write_time(error), static_cast<int64_t>(file.file_size(error))};
    if (!error) entries.push_back(std::move(e));
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : entries) bytes += e.bytes;
  for (const Entry& e : entries) {
    if (bytes <= most_bytes_) return;
    fs::remove(e.path, error);
    bytes -= e.bytes;
  }
}

}  // namespace gluino
