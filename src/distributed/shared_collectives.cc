#include "distributed/shared_collectives.h"

#include <algorithm>
#include <cstring>

#include "distributed/combine.h"
#include "distributed/shared_memory.h"

namespace gluino::distributed {
namespace {

constexpr int64_t kSmall = 8192;              // bytes that every rank adds up for itself
constexpr int64_t kChunk = int64_t{1} << 20;  // bytes of one place on the desk
constexpr int64_t kPlaces = SharedMemory::kDesk / kChunk / 2;
// A place may be written again when all have left it: whoever has made the mark of chunk c has read all that belongs to chunk c - 2, and
// chunk c + 2 is not begun before all have made that mark.
static_assert(kPlaces >= 4);

void copy(char* to, const char* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// One all-reduce: of each chunk a rank adds up its part, straight from where all ranks have theirs, and takes the others' sums from where
// these have put them. What lies in memory that the others do not see goes over the desk.
class AllReduce {
 public:
  AllReduce(Engine& engine, const char* in, char* out, int64_t count, DType dtype, Reduce how)
      : engine_(engine),
        memory_(*engine.shared()),
        in_(in),
        out_(out),
        count_(count),
        width_(dtype_bytes(dtype)),
        dtype_(dtype),
        how_(how) {
    memory_.post({memory_.place_of(in), memory_.place_of(out)});
    engine_.meet();
    for (int r = 0; r < engine_.size(); ++r) {
      const SharedMemory::Words& words = memory_.posted(r);
      inputs_.push_back(words[0]);
      outputs_.push_back(words[1]);
    }
    shows_input_ = std::ranges::count(inputs_, SharedMemory::kElsewhere) > 0;
  }

  void run() {
    const int64_t step = kChunk / width_, chunks = (count_ + step - 1) / step;
    uint32_t before = 0;
    for (int64_t c = 0; c < chunks; ++c) {
      const uint32_t mark = add_up(c);
      if (c > 0) take_sums(c - 1, before);
      before = mark;
    }
    take_sums(chunks - 1, before);
    engine_.meet();  // from here on the memory may be used for something else
  }

 private:
  int64_t begin_of(int64_t chunk) const { return chunk * (kChunk / width_); }
  std::vector<int64_t> parts_of(int64_t chunk) const {
    std::vector<int64_t> parts = part_offsets(std::min(kChunk / width_, count_ - begin_of(chunk)), engine_.size());
    for (int64_t& p : parts) p *= width_;
    return parts;
  }
  char* desk_in(int rank, int64_t chunk) const { return memory_.desk(rank) + chunk % kPlaces * kChunk; }
  char* desk_out(int rank, int64_t chunk) const { return desk_in(rank, chunk) + kPlaces * kChunk; }
  bool is_elsewhere(uint64_t place) const { return place == SharedMemory::kElsewhere; }

  uint32_t add_up(int64_t chunk) {
    const int64_t begin = begin_of(chunk) * width_;
    const std::vector<int64_t> parts = parts_of(chunk);
    const int own = engine_.rank();
    if (shows_input_) {
      if (is_elsewhere(inputs_[own])) copy(desk_in(own, chunk), in_ + begin, parts.back());
      engine_.meet();
    }
    std::vector<const char*> sources;
    for (int r = 0; r < engine_.size(); ++r)
      sources.push_back(parts[own] + (r == own                   ? in_ + begin
                                      : is_elsewhere(inputs_[r]) ? desk_in(r, chunk)
                                                                 : memory_.at(r, inputs_[r]) + begin));
    char* sum = out_ + begin + parts[own];
    const int64_t bytes = parts[own + 1] - parts[own];
    combine(sources, sum, bytes / width_, dtype_, how_);
    if (is_elsewhere(outputs_[own])) copy(desk_out(own, chunk) + parts[own], sum, bytes);
    return engine_.mark();
  }
  void take_sums(int64_t chunk, uint32_t mark) {
    engine_.await(mark);
    const int64_t begin = begin_of(chunk) * width_;
    const std::vector<int64_t> parts = parts_of(chunk);
    for (int r = 0; r < engine_.size(); ++r) {
      if (r == engine_.rank()) continue;
      const char* sums = is_elsewhere(outputs_[r]) ? desk_out(r, chunk) : memory_.at(r, outputs_[r]) + begin;
      copy(out_ + begin + parts[r], sums + parts[r], parts[r + 1] - parts[r]);
    }
  }

  Engine& engine_;
  SharedMemory& memory_;
  const char* in_;
  char* out_;
  const int64_t count_, width_;
  const DType dtype_;
  const Reduce how_;
  std::vector<uint64_t> inputs_, outputs_;  // where each rank has them
  bool shows_input_ = false;                // somebody's is not where the others see it
};

}  // namespace

void all_reduce_shared(Engine& engine, const char* in, char* out, int64_t count, DType dtype, Reduce how) {
  const int64_t bytes = count * dtype_bytes(dtype);
  if (bytes > kSmall) return AllReduce(engine, in, out, count, dtype, how).run();
  SharedMemory& memory = *engine.shared();
  copy(memory.desk(engine.rank()), in, bytes);
  engine.meet();
  std::vector<const char*> sources;
  for (int r = 0; r < engine.size(); ++r) sources.push_back(memory.desk(r));
  combine(sources, out, count, dtype, how);
  engine.meet();
}

void all_gather_pieces_shared(Engine& engine, const char* own, char* all, const std::vector<int64_t>& offsets) {
  SharedMemory& memory = *engine.shared();
  const int rank = engine.rank();
  copy(all + offsets[rank], own, offsets[rank + 1] - offsets[rank]);
  int64_t longest = 0;
  for (int r = 0; r < engine.size(); ++r) longest = std::max(longest, offsets[r + 1] - offsets[r]);
  // All pieces step by step, half of the desk in turns with the other half.
  constexpr int64_t kHalf = SharedMemory::kDesk / 2;
  const auto range_of = [&](int r, int64_t begin) { return std::clamp<int64_t>(offsets[r + 1] - offsets[r] - begin, 0, kHalf); };
  int64_t half = 0;
  for (int64_t begin = 0; begin < longest; begin += kHalf, half = kHalf - half) {
    copy(memory.desk(rank) + half, all + offsets[rank] + begin, range_of(rank, begin));
    engine.meet();
    for (int r = 0; r < engine.size(); ++r)
      if (r != rank) copy(all + offsets[r] + begin, memory.desk(r) + half, range_of(r, begin));
  }
  engine.meet();
}

void broadcast_shared(Engine& engine, char* data, int64_t bytes, int root) {
  SharedMemory& memory = *engine.shared();
  constexpr int64_t kHalf = SharedMemory::kDesk / 2;
  int64_t half = 0;
  for (int64_t begin = 0; begin < bytes; begin += kHalf, half = kHalf - half) {
    const int64_t n = std::min(kHalf, bytes - begin);
    if (engine.rank() == root) copy(memory.desk(root) + half, data + begin, n);
    engine.meet();
    if (engine.rank() != root) copy(data + begin, memory.desk(root) + half, n);
  }
  engine.meet();
}

}  // namespace gluino::distributed
