#include "base/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/format.h"

namespace gluino {
namespace {

// First in every file; the identity follows, then zeros up to a page of the content's own. The checksum is over all that follows.
struct Header {
  char magic[16];
  uint64_t identity_bytes, content_bytes;
  XXH128_hash_t checksum;
};
constexpr char kMagic[16] = "gluino cache 2\n";
constexpr size_t kPage = 4096;

std::string with_padding(std::string_view identity) {
  std::string text(identity);
  text.resize((sizeof(Header) + identity.size() + kPage - 1) / kPage * kPage - sizeof(Header));
  return text;
}

class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (file_ >= 0) close(file_);
  }
  int get() const { return file_; }
  int release() { return std::exchange(file_, -1); }

 private:
  int file_;
};

// What others could have changed; empty: nothing.
std::string doubt_about(const struct stat& info) {
  if (info.st_uid != geteuid()) return fmt::format("it belongs to user {}, not to user {} of this process", info.st_uid, geteuid());
  if (info.st_mode & 022) return fmt::format("others may write to it (mode {:o})", info.st_mode & 0777);
  return {};
}

void warn_once(const std::string& folder, const std::string& why) {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true)) return;
  fmt::print(stderr,
             "gluino: the cache folder '{}' is not used: {}; give it to this user alone (chown, chmod 700), or name another one in "
             "GLUINO_CACHE\n",
             folder, why);
}

// The folder, if it can be trusted; every file is opened through it, so that nobody exchanges it in between.
int open_folder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat info {};
  if (folder < 0 || fstat(folder, &info) != 0) return folder;
  const std::string doubt = doubt_about(info);
  if (doubt.empty()) return folder;
  warn_once(path, doubt);
  close(folder);
  return -1;
}

void make_folders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

bool read_all(int file, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::read(file, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

class Checksum {
 public:
  Checksum() { XXH3_128bits_reset(state_.get()); }
  void add(std::string_view bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }
  XXH128_hash_t value() const { return XXH3_128bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_{XXH3_createState()};
};

}  // namespace

std::string cache_folder() {
  if (const auto own = env_text("GLUINO_CACHE")) return *own;
  if (const auto xdg = env_text("XDG_CACHE_HOME")) return *xdg + "/gluino";
  if (const auto home = env_text("HOME")) return *home + "/.cache/gluino";
  return "";
}

std::string CacheFolder::name_of(std::string_view identity) const {
  const XXH128_hash_t h = XXH3_128bits(identity.data(), identity.size());
  return fmt::format("{:016x}{:016x}{}", h.high64, h.low64, ending_);
}

// A file of the folder, up to its content. Not open: there is none that can be believed.
struct CacheFolder::Piece {
  std::unique_ptr<OpenFile> file;
  Header header{};
  std::string before;  // what stands between header and content

  // `content` is all of it, and was read from the file.
  bool fits(std::string_view content) const {
    Checksum checksum;
    checksum.add(before);
    checksum.add(content);
    return XXH128_isEqual(checksum.value(), header.checksum);
  }
};

CacheFolder::Piece CacheFolder::open_piece(std::string_view identity) const {
  const OpenFile folder(open_folder(path_));
  if (folder.get() < 0) return {};
  Piece piece;
  piece.file = std::make_unique<OpenFile>(openat(folder.get(), name_of(identity).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const int file = piece.file->get();
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || !doubt_about(info).empty()) return {};
  const std::string wanted = with_padding(identity);
  piece.before.resize(wanted.size());
  if (!read_all(file, &piece.header, sizeof piece.header) || std::memcmp(piece.header.magic, kMagic, sizeof kMagic) != 0 ||
      piece.header.identity_bytes != identity.size() || !read_all(file, piece.before.data(), piece.before.size()) || piece.before != wanted)
    return {};
  // The length in the file is believed only as far as the file itself reaches.
  if (piece.header.content_bytes != static_cast<uint64_t>(info.st_size) - sizeof piece.header - wanted.size()) return {};
  futimens(file, nullptr);  // used now
  return piece;
}

bool CacheFolder::find(std::string_view identity, const std::function<char*(size_t)>& memory) const {
  const Piece piece = open_piece(identity);
  if (!piece.file) return false;
  const auto bytes = static_cast<size_t>(piece.header.content_bytes);
  char* content = memory(bytes);
  return content && read_all(piece.file->get(), content, bytes) && piece.fits({content, bytes});
}

std::shared_ptr<MappedFile> CacheFolder::map(std::string_view identity, size_t bytes) const {
  const Piece piece = open_piece(identity);
  if (!piece.file || piece.header.content_bytes != bytes) return nullptr;
  const std::shared_ptr<MappedFile> mapped = MappedFile::map(piece.file->release(), sizeof(Header) + piece.before.size(), bytes);
  return mapped && piece.fits({mapped->data(), bytes}) ? mapped : nullptr;
}

std::optional<std::string> CacheFolder::find(std::string_view identity) const {
  std::string content;
  const bool is_found = find(identity, [&](size_t bytes) {
    content.resize(bytes);
    return content.data();
  });
  return is_found ? std::optional(std::move(content)) : std::nullopt;
}

void CacheFolder::put(std::string_view identity, std::string_view content) const {
  make_folders(path_);
  const OpenFile folder(open_folder(path_));
  if (folder.get() < 0) return;
  const std::string before = with_padding(identity);
  Checksum checksum;
  checksum.add(before);
  checksum.add(content);
  Header header{.magic = {}, .identity_bytes = identity.size(), .content_bytes = content.size(), .checksum = checksum.value()};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  try {
    AtomicFile file(path_ + "/" + name_of(identity), AtomicFile::Durability::passing, 0600);
    file.write({reinterpret_cast<const char*>(&header), sizeof header});
    file.write(before);
    file.write(content);
    file.commit();
  } catch (const SystemError&) {  // the next process makes it again
  }
}

void CacheFolder::make_room(int64_t bytes, int64_t most_bytes) const {
  struct Entry {
    std::string name;
    timespec used;
    int64_t bytes;
  };
  const int folder = open_folder(path_);
  if (folder < 0) return;
  DIR* listing = fdopendir(folder);
  if (!listing) {
    close(folder);
    return;
  }
  std::vector<Entry> entries;
  while (const dirent* entry = readdir(listing)) {
    struct stat info {};
    if (!std::string_view(entry->d_name).ends_with(ending_) || fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    entries.push_back({entry->d_name, info.st_mtim, info.st_size});
    bytes += info.st_size;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Entry& e : entries) {
    if (bytes <= most_bytes) break;
    unlinkat(folder, e.name.c_str(), 0);
    bytes -= e.bytes;
  }
  closedir(listing);
}

}  // namespace gluino
