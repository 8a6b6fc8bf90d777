// SharedMemory: memory that ranks of one machine see of each other, and marks in it that say how far each of them has come. Sums are then
// formed straight from the others' gradients: no bytes are sent.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "distributed/transport.h"

namespace gluino::distributed {

class SharedMemory {
 public:
  // All ranks call it together; `complete` waits for a request of theirs. Null on all ranks where one does not want it, or where they do
  // not all see each other's memory.
  static std::unique_ptr<SharedMemory> open(const Transport& transport, bool is_wanted, const std::function<void(Request)>& complete);
  ~SharedMemory();

  // Marks. All ranks make the same number of steps in the same order, so that a number says what a rank has done.
  uint32_t step();  // this rank has come one further; the number that the others reach with theirs
  bool has_reached(int rank, uint32_t number) const;
  void sleep_until(int rank, uint32_t number) const;  // or for a while; whoever calls looks again

  // A few words for all others, to be read when their owner has made its next step. They stay until its next but one.
  static constexpr int kWords = 4;
  using Words = std::array<uint64_t, kWords>;
  void post(const Words& words);
  const Words& posted(int rank) const;  // of the last post()

  // Memory of this rank, aligned to pages; null where there is no more.
  char* allocate(int64_t bytes);
  void release(char* data, int64_t bytes);
  static constexpr uint64_t kElsewhere = ~uint64_t{0};
  uint64_t place_of(const void* data) const;  // in this rank's memory, or kElsewhere
  char* at(int rank, uint64_t place) const;   // the same place of another rank's
  static constexpr int64_t kDesk = int64_t{8} << 20;
  char* desk(int rank) const;  // kDesk bytes of each rank for what lies elsewhere

 private:
  struct Header;
  SharedMemory(int rank, int size) : rank_(rank), bases_(static_cast<size_t>(size), nullptr) {}
  Header& header(int rank) const;
  bool create(uint64_t secret);
  bool attach(int rank, int pid, int file, uint64_t secret);

  const int rank_;
  std::vector<char*> bases_;  // of each rank's memory
  size_t bytes_ = 0;          // of each, as far as it may grow
  int file_ = -1;
  uint32_t steps_ = 0, posts_ = 0;
  std::mutex mutex_;
  std::map<int64_t, int64_t> free_;  // places and sizes
};

}  // namespace gluino::distributed
