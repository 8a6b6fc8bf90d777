#include "distributed/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <ctime>
#include <random>
#include <string>

namespace gluino::distributed {
namespace {

constexpr int64_t kPage = 4096, kHeaderBytes = kPage;
constexpr long kLongestSleep = 20'000'000;  // nanoseconds

int64_t whole_pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// A part of the machine's memory for each of its ranks. Only what is written takes any.
size_t bytes_for_each(int ranks) {
  const int64_t all = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  return static_cast<size_t>(whole_pages(all / ranks + 2 * SharedMemory::kDesk));
}

}  // namespace

// At the beginning of each rank's memory. What others look at often stands in a cache line of its own.
struct SharedMemory::Header {
  uint64_t secret;
  alignas(64) std::atomic<uint32_t> steps;
  std::atomic<uint32_t> sleepers;
  alignas(64) Words posts[2];
};

SharedMemory::Header& SharedMemory::header(int rank) const { return *reinterpret_cast<Header*>(bases_[rank]); }

// A file without a name: it is gone with the processes that have it open, however these end.
bool SharedMemory::create(uint64_t secret) {
  static_assert(sizeof(Header) <= kHeaderBytes && std::atomic<uint32_t>::is_always_lock_free);
  bytes_ = bytes_for_each(static_cast<int>(bases_.size()));
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < bytes_) return false;  // ftruncate() would end the process
  file_ = ::memfd_create("gluino", MFD_CLOEXEC);
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(bytes_)) != 0) return false;
  void* own = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (own == MAP_FAILED) return false;
  bases_[rank_] = static_cast<char*>(own);
  new (own) Header{};
  header(rank_).secret = secret;
  free_[kHeaderBytes + kDesk] = static_cast<int64_t>(bytes_) - kHeaderBytes - kDesk;
  return true;
}

// By the name that the system has for it. Another process may have that number where ranks live in containers: the secret tells.
bool SharedMemory::attach(int rank, int pid, int file, uint64_t secret) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(file);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return false;
  const bool fits = ::lseek(opened, 0, SEEK_END) == static_cast<off_t>(bytes_);
  void* base = fits ? ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, opened, 0) : MAP_FAILED;
  ::close(opened);
  if (base == MAP_FAILED) return false;
  bases_[rank] = static_cast<char*>(base);
  return header(rank).secret == secret;
}

std::unique_ptr<SharedMemory> SharedMemory::open(const Transport& transport, bool is_wanted, const std::function<void(Request)>& complete) {
  if (transport.local_size != transport.size) return nullptr;
  std::unique_ptr<SharedMemory> memory(new SharedMemory(transport.rank, transport.size));
  std::random_device device;
  const uint64_t secret = uint64_t{device()} << 32 | device();
  bool is_good = is_wanted && memory->create(secret);
  struct Card {
    int64_t pid, file;
    uint64_t secret;
  };
  const Card own{::getpid(), memory->file_, secret};
  std::vector<Card> cards(static_cast<size_t>(transport.size));
  complete(transport.all_gather(&own, sizeof own, cards.data()));
  for (int r = 0; r < transport.size && is_good; ++r)
    if (r != transport.rank) is_good = memory->attach(r, static_cast<int>(cards[r].pid), static_cast<int>(cards[r].file), cards[r].secret);
  const uint64_t failed = is_good ? 0 : 1;
  uint64_t any_failed = 1;
  complete(transport.all_max(&failed, &any_failed, 1));
  return any_failed ? nullptr : std::move(memory);
}

SharedMemory::~SharedMemory() {
  for (char* base : bases_)
    if (base) ::munmap(base, bytes_);
  if (file_ >= 0) ::close(file_);
}

uint32_t SharedMemory::step() {
  Header& own = header(rank_);
  own.steps.store(++steps_);
  if (own.sleepers.load() > 0) ::syscall(SYS_futex, &own.steps, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return steps_;
}
// The numbers go round.
bool SharedMemory::has_reached(int rank, uint32_t number) const {
  return static_cast<int32_t>(header(rank).steps.load(std::memory_order_acquire) - number) >= 0;
}
void SharedMemory::sleep_until(int rank, uint32_t number) const {
  Header& h = header(rank);
  h.sleepers.fetch_add(1);
  const uint32_t seen = h.steps.load();
  const timespec limit{0, kLongestSleep};
  if (static_cast<int32_t>(seen - number) < 0) ::syscall(SYS_futex, &h.steps, FUTEX_WAIT, seen, &limit, nullptr, 0);
  h.sleepers.fetch_sub(1);
}

// Two places in turn: all have read one post when they make the next.
void SharedMemory::post(const Words& words) { header(rank_).posts[++posts_ % 2] = words; }
const SharedMemory::Words& SharedMemory::posted(int rank) const { return header(rank).posts[posts_ % 2]; }

char* SharedMemory::allocate(int64_t bytes) {
  const int64_t needed = whole_pages(bytes);
  const std::lock_guard lock(mutex_);
  for (auto place = free_.begin(); place != free_.end(); ++place) {
    const auto [begin, size] = *place;
    if (size < needed) continue;
    free_.erase(place);
    if (size > needed) free_[begin + needed] = size - needed;
    return bases_[rank_] + begin;
  }
  return nullptr;
}
void SharedMemory::release(char* data, int64_t bytes) {
  int64_t begin = data - bases_[rank_], size = whole_pages(bytes);
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, size);  // what fails keeps its pages until they are used again
  const std::lock_guard lock(mutex_);
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && begin + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (const auto before = std::prev(next); before->first + before->second == begin) {
      before->second += size;
      return;
    }
  free_[begin] = size;
}

uint64_t SharedMemory::place_of(const void* data) const {
  const auto offset = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(bases_[rank_]);
  return offset < bytes_ ? offset : kElsewhere;
}
char* SharedMemory::at(int rank, uint64_t place) const { return bases_[rank] + place; }
char* SharedMemory::desk(int rank) const { return bases_[rank] + kHeaderBytes; }

}  // namespace gluino::distributed
