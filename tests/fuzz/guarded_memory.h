// Memory that shows accesses out of bounds: every block touches an unmapped page on one side and known bytes on the other, and is
// filled before it is given out.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor/pool.h"

namespace gluino::fuzz {

class GuardedMemory final : public MemorySource {
 public:
  enum class Place { before_guard, behind_guard };  // the side of the unmapped page
  struct Filling {
    unsigned char byte;
    Place place;
  };
  static constexpr int64_t kLargestBlock = int64_t{4} << 20, kMostLive = int64_t{64} << 20;

  void start(Filling filling);  // for the blocks from now on
  void* allocate(int64_t bytes) override;
  bool release(void* data) override;
  std::string take_damage();  // what was found around blocks that were released since the last time, or ""

 private:
  struct Block {
    char* pages;  // the first usable byte; unmapped pages lie around
    int64_t page_bytes, bytes;
  };
  static char* map_pages(int64_t page_bytes);
  void check_surroundings(const char* data, const Block& block);

  std::mutex mutex_;
  Filling filling_{0, Place::before_guard};
  int64_t live_ = 0;
  std::unordered_map<void*, Block> blocks_;
  std::map<int64_t, std::vector<char*>> free_;  // by page_bytes
  std::string damage_;
};

}  // namespace gluino::fuzz
