#include "tensor/pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/format.h"
#include "tensor/storage.h"

namespace gluino {
namespace {

// Size classes: four per power of two, so that at most a quarter of a block is unused.
int size_class(int64_t bytes) {
  const uint64_t n = static_cast<uint64_t>(bytes < kAlignment ? kAlignment : bytes);
  const int log = std::bit_width(n - 1) - 1;  // 2^log < n <= 2^(log + 1)
  const int quarter = static_cast<int>((n - 1 - (uint64_t{1} << log)) >> (log - 2));
  return log * 4 + quarter;
}
constexpr int kFirstClass = 5 * 4 + 3;  // of kAlignment bytes
int64_t class_bytes(int c) { return (int64_t{4} + c % 4 + 1) << (c / 4 - 2); }
constexpr int kClasses = 64 * 4;
constexpr int kSmallClasses = 13 * 4;  // up to 8 KiB: cached per thread
constexpr size_t kThreadCacheDepth = 32;
constexpr int kFirstLargeClass = 19 * 4 + 3;  // of 1 MiB: what is kept of these is bounded
constexpr int64_t kLargestBlock = int64_t{1} << 46;
constexpr int64_t kLargeToSystem = int64_t{64} << 10;

// Those that lie in a block altogether.
struct WholePages {
  WholePages(void* data, int64_t bytes) {
    static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    auto* const begin = static_cast<char*>(data);
    const auto address = reinterpret_cast<uintptr_t>(begin);
    first = begin + ((address + page - 1) / page * page - address);
    last = begin + bytes - (address + static_cast<uintptr_t>(bytes)) % page;
  }
  // To the system, until something is written there.
  bool give_back() const { return first < last && madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED) == 0; }
  char *first, *last;
};
void* map_pages(size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}
// Arrays of some MB need hundreds of small pages, more than the CPU knows at once where they are. Asked for where all of a large page will
// be used. Not for the largest blocks: of those sometimes only some rows are written, each of which would take a page.
constexpr size_t kHugePage = size_t{2} << 20, kMostInHugePages = size_t{256} << 20;
void* map_huge_pages(size_t bytes, size_t used) {
  char* const data = static_cast<char*>(map_pages(bytes + kHugePage));
  if (!data) return map_pages(bytes);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(data) % kHugePage) % kHugePage;
  if (before) munmap(data, before);
  munmap(data + before + bytes, kHugePage - before);
  madvise(data + before, used / kHugePage * kHugePage, MADV_HUGEPAGE);  // without them it works, too
  return data + before;
}
// Large blocks are the system's own: among malloc's they would leave holes, since it keeps large ones, too, once some were freed.
void* block_from_system(int64_t used, int c) {
  const auto bytes = static_cast<size_t>(class_bytes(c)), touched = static_cast<size_t>(used);
  if (c >= kFirstLargeClass) return touched >= kHugePage && bytes <= kMostInHugePages ? map_huge_pages(bytes, touched) : map_pages(bytes);
  void* data = nullptr;
  return posix_memalign(&data, kAlignment, bytes) == 0 ? data : nullptr;
}
void give_to_system(void* block, int c) {
  if (c >= kFirstLargeClass) {
    munmap(block, static_cast<size_t>(class_bytes(c)));
    return;
  }
  // free() alone keeps what lies between other blocks.
  if (class_bytes(c) >= kLargeToSystem) WholePages(block, class_bytes(c)).give_back();
  std::free(block);
}

struct FreeBlock {
  void* data;
  int64_t since;  // allocations before it was freed
};

// How much of the large blocks is kept when they are free: as much as lately was live at once, twice, since a loop that frees all of one
// size before it asks for all of another would else get fresh pages each time.
class LargeBlocks {
 public:
  void note_allocation(int64_t bytes, int64_t live) {
    peak_ = std::max(peak_, live + bytes);
    allocated_ += bytes;
    if (allocated_ < 32 * std::max(peak_, kLeast)) return;
    peak_before_ = std::exchange(peak_, live);
    allocated_ = 0;
  }
  int64_t most() const { return 2 * std::max({peak_, peak_before_, kLeast / 2}); }
  int64_t cached = 0;

 private:
  static constexpr int64_t kLeast = int64_t{64} << 20;
  int64_t allocated_ = 0, peak_ = 0, peak_before_ = 0;
};

struct Pool {
  NoForkMutex mutex;
  std::array<std::vector<FreeBlock>, kClasses> free;
  LargeBlocks large;
  std::atomic<int64_t> live{0}, peak{0}, cached{0}, allocations{0};

  void* take(int c) {
    auto& blocks = free[static_cast<size_t>(c)];
    if (blocks.empty()) return nullptr;
    void* data = blocks.back().data;
    blocks.pop_back();
    forget(c);
    return data;
  }
  // Gives the large blocks that were freed first back to the system, until so many bytes are kept.
  void trim(int64_t most) {
    while (large.cached > most) {
      int oldest = -1;
      for (int c = kFirstLargeClass; c < kClasses; ++c)
        if (!free[c].empty() && (oldest < 0 || free[c].front().since < free[oldest].front().since)) oldest = c;
      give_to_system(free[oldest].front().data, oldest);
      free[oldest].erase(free[oldest].begin());
      forget(oldest);
    }
  }

 private:
  void forget(int c) {
    cached.fetch_sub(class_bytes(c), std::memory_order_relaxed);
    if (c >= kFirstLargeClass) large.cached -= class_bytes(c);
  }
};

// Leaked on purpose: tensors in static objects may be freed after everything else.
Pool& pool(Device device) {
  static auto* pools = new std::array<Pool, Device::kMaxDevices>;
  return (*pools)[device.id()];
}

// A small stack of free blocks per size class; what does not fit goes to the pool, what a dying thread holds is freed.
struct ThreadCache {
  void release() {
    for (int c = kFirstClass; c < kSmallClasses; ++c) {
      const auto k = static_cast<size_t>(c);
      pool(Device()).cached.fetch_sub(class_bytes(c) * count[k], std::memory_order_relaxed);
      while (count[k] > 0) std::free(blocks[k][--count[k]]);
    }
  }
  std::array<std::array<void*, kThreadCacheDepth>, kSmallClasses> blocks;
  std::array<uint8_t, kSmallClasses> count{};
  bool alive = true;
  ~ThreadCache() {
    alive = false;
    release();
  }
};
thread_local ThreadCache thread_cache;  // serves cpu(0) only, the device that nearly everybody uses

thread_local bool frees_to_system = false;

MemorySource* other_source = nullptr;

void count_allocation(Pool& p, int64_t bytes) {
  const int64_t live = p.live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t peak = p.peak.load(std::memory_order_relaxed);
  while (live > peak && !p.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {}
  p.allocations.fetch_add(1, std::memory_order_relaxed);
}

// More than the machine has is refused at once: the system would promise it, and end the process when it is written.
void check_machine_has(int64_t bytes, const Pool& p, Device device) {
  static const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const int64_t live = p.live.load(std::memory_order_relaxed);
  if (bytes > machine - live)
    raise<SystemError>("out of memory: {} bytes were asked for on {}; {} bytes are live, and the machine has {}", bytes, device.str(), live,
                       machine);
}

void* new_block(int64_t bytes, int c, const Pool& p, Device device) {
  constexpr int64_t kLarge = int64_t{256} << 20;
  if (class_bytes(c) > kLarge) check_machine_has(bytes, p, device);
  void* data = block_from_system(bytes, c);
  if (!data) raise<SystemError>("out of memory: {} bytes were asked for on {}; {} bytes are live", bytes, device.str(), p.live.load());
  return data;
}

void* block_of_other_source(int64_t bytes, Pool& p, Device device) {
  void* data = other_source->allocate(bytes);
  if (!data) raise<SystemError>("out of memory: {} bytes were asked for on {}; {} bytes are live", bytes, device.str(), p.live.load());
  count_allocation(p, bytes);
  return data;
}

}  // namespace

void install_memory_source(MemorySource* source) { other_source = source; }

void* pool_allocate(int64_t bytes, Device device) {
  Pool& p = pool(device);
  if (bytes < 0 || bytes > kLargestBlock) raise<SystemError>("out of memory: {} bytes were asked for on {}", bytes, device.str());
  if (other_source) return block_of_other_source(bytes, p, device);
  const int c = size_class(bytes);
  const auto k = static_cast<size_t>(c);
  void* data = nullptr;
  if (c < kSmallClasses && device.id() == 0 && thread_cache.alive && thread_cache.count[k] > 0) {
    data = thread_cache.blocks[k][--thread_cache.count[k]];
    p.cached.fetch_sub(class_bytes(c), std::memory_order_relaxed);
  } else {
    std::lock_guard lock(p.mutex);
    if (c >= kFirstLargeClass) p.large.note_allocation(bytes, p.live.load(std::memory_order_relaxed));
    data = p.take(c);
  }
  if (!data) data = new_block(bytes, c, p, device);
  count_allocation(p, bytes);
  return data;
}

void pool_free(void* data, int64_t bytes, Device device) {
  Pool& p = pool(device);
  p.live.fetch_sub(bytes, std::memory_order_relaxed);
  if (other_source && other_source->release(data)) return;
  if (frees_to_system && bytes >= kLargeToSystem) return give_to_system(data, size_class(bytes));
  const int c = size_class(bytes);
  const auto k = static_cast<size_t>(c);
  p.cached.fetch_add(class_bytes(c), std::memory_order_relaxed);
  if (c < kSmallClasses && device.id() == 0 && thread_cache.alive && thread_cache.count[k] < kThreadCacheDepth) {
    thread_cache.blocks[k][thread_cache.count[k]++] = data;
    return;
  }
  std::lock_guard lock(p.mutex);
  p.free[k].push_back({data, p.allocations.load(std::memory_order_relaxed)});
  if (c < kFirstLargeClass) return;
  p.large.cached += class_bytes(c);
  // A quarter at once: the system takes its time.
  if (p.large.cached > p.large.most()) p.trim(p.large.most() * 3 / 4);
}

void trim_cached_memory(Device device) {
  constexpr int64_t kLeast = int64_t{16} << 20;
  Pool& p = pool(device);
  std::lock_guard lock(p.mutex);
  p.trim(std::max(kLeast, p.live.load(std::memory_order_relaxed)));
}

FreesToSystem::FreesToSystem() : previous_(std::exchange(frees_to_system, true)) {}
FreesToSystem::~FreesToSystem() { frees_to_system = previous_; }

void fill_with_zeros(void* data, int64_t bytes) {
  constexpr int64_t kLarge = int64_t{128} << 10;
  const WholePages pages(data, bytes);
  // Private memory without a file, as malloc gives it, is zero after this.
  if (bytes < kLarge || other_source || !pages.give_back()) {
    std::memset(data, 0, static_cast<size_t>(bytes));
    return;
  }
  auto* const begin = static_cast<char*>(data);
  std::memset(begin, 0, static_cast<size_t>(pages.first - begin));
  std::memset(pages.last, 0, static_cast<size_t>(begin + bytes - pages.last));
}

MemoryStats memory_stats(Device device) {
  const Pool& p = pool(device);
  return {p.live.load(), p.peak.load(), p.cached.load(), p.allocations.load()};
}

void reset_peak(Device device) {
  Pool& p = pool(device);
  p.peak.store(p.live.load());
}

void release_cached_memory(Device device) {
  Pool& p = pool(device);
  if (device.id() == 0) thread_cache.release();
  std::lock_guard lock(p.mutex);
  for (int c = kFirstClass; c < kClasses; ++c) {
    auto& blocks = p.free[c];
    p.cached.fetch_sub(class_bytes(c) * static_cast<int64_t>(blocks.size()));
    for (const FreeBlock& block : blocks) give_to_system(block.data, c);
    blocks.clear();
  }
  p.large.cached = 0;
}

Storage::Storage(int64_t bytes, Device device) : data_(static_cast<char*>(pool_allocate(bytes, device))), bytes_(bytes), device_(device) {}
Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> deleter)
    : data_(static_cast<char*>(data)), bytes_(bytes), device_(device), deleter_(std::move(deleter)) {}
Storage::~Storage() {
  if (deleter_) {
    deleter_();
  } else {
    pool_free(data_, bytes_, device_);
  }
}

}  // namespace gluino
