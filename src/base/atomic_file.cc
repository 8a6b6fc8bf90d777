#include "base/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <utility>

#include "base/file.h"
#include "base/format.h"

namespace gluino {
namespace {

constexpr std::string_view kBeginning = ".gluino-", kEnding = ".tmp";

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// The beginning of the names of temporaries of this machine. Locks tell which of them are in use, and not every file system shares its
// locks with other machines.
const std::string& names_of_this_machine() {
  static const auto* beginning = new std::string([] {
    char host[256] = {};
    gethostname(host, sizeof host - 1);
    uint32_t hash = 2166136261u;  // FNV-1a
    for (const char* c = host; *c; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 16777619u;
    return fmt::format("{}{:08x}-", kBeginning, hash);
  }());
  return *beginning;
}

std::string random_name() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
    raise<SystemError>("cannot get a random number: {}", std::strerror(errno));
  return fmt::format("{}{:016x}{}", names_of_this_machine(), number, kEnding);
}

// Removes a temporary whose writer has died. Writers hold a lock on theirs, which ends with them.
void remove_if_stray(const std::string& path, bool is_of_this_machine) {
  constexpr time_t kDay = 24L * 60 * 60;
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat info {};
  if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
      (is_of_this_machine || info.st_mtime + kDay < std::time(nullptr)) && flock(file, LOCK_EX | LOCK_NB) == 0)
    unlink(path.c_str());
  close(file);
}

// Gives the number of files there.
int64_t scan_for_strays(const std::string& folder) {
  DIR* entries = opendir(folder.c_str());
  if (!entries) return 0;
  int64_t count = 0;
  while (const dirent* entry = readdir(entries)) {
    ++count;
    const std::string_view name = entry->d_name;
    if (name.starts_with(kBeginning) && name.ends_with(kEnding))
      remove_if_stray(folder + "/" + entry->d_name, name.starts_with(names_of_this_machine()));
  }
  closedir(entries);
  return count;
}

// Before every write. To look through a folder of a million files takes long: no more than a hundredth of the time goes into that.
void remove_strays(const std::string& folder) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kRemembered = 64;
  constexpr int64_t kFew = 1000;
  thread_local std::map<std::string, Clock::time_point> next_scan;
  if (next_scan.size() > kRemembered) next_scan.clear();
  const Clock::time_point begin = Clock::now();
  Clock::time_point& next = next_scan[folder];
  if (begin < next) return;
  const int64_t count = scan_for_strays(folder);
  const Clock::time_point end = Clock::now();
  next = count <= kFew ? end : end + 100 * (end - begin);
}

// Some file systems have no fsync, which is not the writer's trouble.
bool sync(int file) { return fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS; }

}  // namespace

AtomicFile::AtomicFile(std::string path, Durability durability, unsigned permissions)
    : path_(std::move(path)), durability_(durability), process_(getpid()) {
  struct stat info {};
  const bool exists = stat(path_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    fail();
  }
  if (exists && !S_ISREG(info.st_mode)) {
    file_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) fail();
    return;
  }
  open_temporary(exists ? info.st_mode & 0777 : permissions);
  if (!exists) return;
  // As if the old file had been written to; that its owner stays is not always possible.
  if (info.st_uid != geteuid() && fchown(file_, info.st_uid, info.st_gid) != 0) errno = 0;
  fchmod(file_, info.st_mode & 0777);
}
AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, "")),
      waiting_(std::move(other.waiting_)),
      durability_(other.durability_),
      process_(other.process_),
      file_(std::exchange(other.file_, -1)),
      is_finished_(other.is_finished_) {}
AtomicFile::~AtomicFile() { abandon(); }
void AtomicFile::abandon() {
  if (!temporary_.empty() && process_ == getpid()) unlink(temporary_.c_str());
  temporary_.clear();
  if (file_ >= 0) close(file_);
  file_ = -1;
}

void AtomicFile::open_temporary(unsigned permissions) {
  const std::string folder = folder_of(path_);
  remove_strays(folder);
  for (;;) {
    temporary_ = folder + "/" + random_name();
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, permissions);
    if (file_ < 0) {
      temporary_.clear();
      if (errno == EEXIST) continue;
      fail();
    }
    flock(file_, LOCK_EX);  // where there are no locks nobody removes strays
    struct stat info {};
    if (fstat(file_, &info) == 0 && info.st_nlink > 0) return;
    close(file_);  // taken for a stray before it was locked
  }
}

void AtomicFile::fail() {
  const int reason = errno;
  abandon();
  raise<SystemError>("cannot write '{}': {}", path_, std::strerror(reason));
}

void AtomicFile::write(std::string_view bytes) {
  constexpr size_t kTogether = 1 << 16;
  if (waiting_.size() + bytes.size() <= kTogether) {
    waiting_ += bytes;
    return;
  }
  write_through(waiting_);
  waiting_.clear();
  write_through(bytes);
}

void AtomicFile::check_process() const {
  if (process_ != getpid()) raise<SystemError>("cannot write '{}': another process has begun it", path_);
}

void AtomicFile::write_through(std::string_view bytes) {
  check_process();
  if (file_ < 0) raise<SystemError>("cannot write '{}': an earlier write to it has failed", path_);
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail();
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void AtomicFile::finish() {
  if (is_finished_) return;
  write_through(waiting_);
  if (durability_ == Durability::lasting && !sync(file_)) fail();
  is_finished_ = true;
}

void AtomicFile::give_name() {
  check_process();
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  temporary_.clear();
}

void AtomicFile::sync_folder() {
  if (durability_ == Durability::passing) return;
  const int folder = open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // one that may be written to but not read
  const bool is_synced = sync(folder);
  close(folder);
  if (!is_synced) fail();
}

void AtomicFile::commit() { commit_together({this}); }
void AtomicFile::commit_together(const std::vector<AtomicFile*>& files) {
  for (AtomicFile* f : files) f->finish();
  for (AtomicFile* f : files) f->give_name();
  for (AtomicFile* f : files) f->sync_folder();
}

// Of several files those that do not change stay as they are: if only one does, nothing can come in between.
static bool is_there(const FileContent& f) {
  struct stat info {};
  return lstat(f.path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) == f.bytes.size() &&
         read_file(f.path) == f.bytes;
}

void write_files(const std::vector<FileContent>& files) {
  std::vector<AtomicFile> written;
  for (const FileContent& f : files) {
    if (files.size() > 1 && is_there(f)) {
      remove_strays(folder_of(f.path));
      continue;
    }
    written.emplace_back(f.path).write(f.bytes);
    written.back().finish();
  }
  std::vector<AtomicFile*> all;
  for (AtomicFile& f : written) all.push_back(&f);
  AtomicFile::commit_together(all);
}

}  // namespace gluino
