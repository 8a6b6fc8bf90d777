#include "fuzz/guarded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace gluino::fuzz {
namespace {

constexpr int64_t kPage = 4096;
constexpr unsigned char kSurroundings = 0xC5;
constexpr int64_t kKept = int64_t{1} << 20;  // larger blocks are unmapped at once

}  // namespace

char* GuardedMemory::map_pages(int64_t page_bytes) {
  void* all = mmap(nullptr, static_cast<size_t>(page_bytes + 2 * kPage), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  char* pages = static_cast<char*>(all) + kPage;
  if (mprotect(pages, static_cast<size_t>(page_bytes), PROT_READ | PROT_WRITE) == 0) return pages;
  munmap(all, static_cast<size_t>(page_bytes + 2 * kPage));
  return nullptr;
}

void GuardedMemory::start(Filling filling) {
  const std::lock_guard lock(mutex_);
  filling_ = filling;
}

void* GuardedMemory::allocate(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > kLargestBlock || live_ + bytes > kMostLive) return nullptr;
  const int64_t page_bytes = std::max<int64_t>(1, (bytes + kPage - 1) / kPage) * kPage;
  std::vector<char*>& free = free_[page_bytes];
  char* pages = free.empty() ? map_pages(page_bytes) : free.back();
  if (!pages) return nullptr;
  if (!free.empty()) free.pop_back();
  char* data = filling_.place == Place::behind_guard ? pages : pages + page_bytes - bytes;
  if (bytes == 0 && filling_.place == Place::before_guard) data = pages + page_bytes - kAlignment;  // an address of its own
  std::memset(pages, kSurroundings, static_cast<size_t>(page_bytes));
  std::memset(data, filling_.byte, static_cast<size_t>(bytes));
  blocks_[data] = {pages, page_bytes, bytes};
  live_ += bytes;
  return data;
}

void GuardedMemory::check_surroundings(const char* data, const Block& block) {
  for (const char* p = block.pages; p < block.pages + block.page_bytes; ++p) {
    if (p == data) p += block.bytes;
    if (p == block.pages + block.page_bytes) break;
    if (static_cast<unsigned char>(*p) == kSurroundings) continue;
    damage_ = "wrote at byte " + std::to_string(p - data) + " of a block of " + std::to_string(block.bytes) + " bytes";
    return;
  }
}

bool GuardedMemory::release(void* data) {
  const std::lock_guard lock(mutex_);
  const auto it = blocks_.find(data);
  if (it == blocks_.end()) return false;
  const Block block = it->second;
  blocks_.erase(it);
  live_ -= block.bytes;
  check_surroundings(static_cast<char*>(data), block);
  if (block.page_bytes > kKept)
    munmap(block.pages - kPage, static_cast<size_t>(block.page_bytes + 2 * kPage));
  else
    free_[block.page_bytes].push_back(block.pages);
  return true;
}

std::string GuardedMemory::take_damage() {
  const std::lock_guard lock(mutex_);
  return std::exchange(damage_, {});
}

}  // namespace gluino::fuzz
