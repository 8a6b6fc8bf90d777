#include "distributed/collectives.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "distributed/combine.h"
#include "distributed/shared_collectives.h"

namespace gluino::distributed {
namespace {

constexpr int64_t kSmall = 8192;              // bytes up to which one message to everybody is faster than two of parts
constexpr int64_t kChunk = int64_t{1} << 20;  // bytes that are sent while the chunk before them is added up, in the cache where it came

constexpr int64_t kWhole = int64_t{1} << 28;  // bytes that MPI, which counts them in 32 bits, is given at once

void scale_bytes(std::vector<int64_t>& offsets, int64_t width) {
  for (int64_t& o : offsets) o *= width;
}

// Memory that is kept for the next collective: fresh pages would take as long as the bytes on their way.
struct Scratch {
  std::unique_ptr<char[]> bytes;
  int64_t size = 0;
  char* get(int64_t needed) {
    if (needed > size) bytes = std::make_unique_for_overwrite<char[]>(static_cast<size_t>(size = needed));
    return bytes.get();
  }
};

// What this rank has to add up of a chunk: the same part from every rank.
struct Exchange {
  explicit Exchange(Scratch& memory) : scratch(memory) {}
  Scratch& scratch;
  std::vector<int64_t> to, from;  // offsets in bytes: of what goes to each rank, of what comes from each
  char* received = nullptr;
  Request request = 0;

  void begin(Engine& engine, const char* in, std::vector<int64_t> parts, int64_t width) {
    to = std::move(parts);
    scale_bytes(to, width);
    const int64_t own = to[engine.rank() + 1] - to[engine.rank()];
    from.clear();
    for (int r = 0; r <= engine.size(); ++r) from.push_back(r * own);
    received = scratch.get(from.back());
    request = engine.transport().all_to_all({const_cast<char*>(in), to.data()}, {received, from.data()});
  }
  // `in`: as it was given to begin(); a rank's part for itself is not sent.
  void finish(Engine& engine, const char* in, char* out, DType dtype, Reduce how) {
    engine.complete(request);
    std::vector<const char*> sources;
    for (int r = 0; r < engine.size(); ++r) sources.push_back(r == engine.rank() ? in + to[r] : received + from[r]);
    combine(sources, out, (from[1] - from[0]) / dtype_bytes(dtype), dtype, how);
  }
};

thread_local Scratch scratches[2];  // of the engine's thread

void gather_and_combine(Engine& engine, const char* in, char* out, int64_t count, DType dtype, Reduce how) {
  const int64_t bytes = count * dtype_bytes(dtype);
  std::vector<char> all(static_cast<size_t>(bytes * engine.size()));
  engine.complete(engine.transport().all_gather(in, bytes, all.data()));
  std::vector<const char*> sources;
  for (int r = 0; r < engine.size(); ++r) sources.push_back(all.data() + r * bytes);
  combine(sources, out, count, dtype, how);
}

}  // namespace

std::vector<int64_t> part_offsets(int64_t count, int parts) {
  const int64_t part = (count + parts - 1) / parts;
  std::vector<int64_t> offsets;
  for (int p = 0; p <= parts; ++p) offsets.push_back(std::min(count, p * part));
  return offsets;
}

void all_reduce_now(Engine& engine, const char* in, char* out, int64_t count, DType dtype, Reduce how) {
  const int64_t width = dtype_bytes(dtype);
  if (engine.size() == 1) {
    if (in != out) std::memcpy(out, in, static_cast<size_t>(count * width));
    return;
  }
  if (engine.shared()) return all_reduce_shared(engine, in, out, count, dtype, how);
  if (count * width <= kSmall) return gather_and_combine(engine, in, out, count, dtype, how);
  const int64_t step = kChunk / width;
  Exchange exchanges[2] = {Exchange(scratches[0]), Exchange(scratches[1])};
  const auto begin_chunk = [&](int64_t begin, int k) {
    exchanges[k].begin(engine, in + begin * width, part_offsets(std::min(step, count - begin), engine.size()), width);
  };
  // A chunk is added up while the next one is on its way; the sums are sent meanwhile too.
  std::vector<std::vector<int64_t>> offsets;
  offsets.reserve(static_cast<size_t>((count + step - 1) / step));
  std::vector<Request> gathers;
  begin_chunk(0, 0);
  int k = 0;
  for (int64_t begin = 0; begin < count; begin += step, k ^= 1) {
    if (begin + step < count) begin_chunk(begin + step, k ^ 1);
    Exchange& e = exchanges[k];
    char* chunk = out + begin * width;
    char* own = chunk + e.to[engine.rank()];
    e.finish(engine, in + begin * width, own, dtype, how);
    offsets.push_back(e.to);
    gathers.push_back(engine.transport().all_gather_pieces(own, {chunk, offsets.back().data()}));
  }
  for (const Request r : gathers) engine.complete(r);
}

void reduce_scatter_now(Engine& engine, const char* in, char* out, int64_t count, DType dtype, Reduce how) {
  const int64_t width = dtype_bytes(dtype);
  if (engine.size() == 1) {
    std::memcpy(out, in, static_cast<size_t>(count * width));
    return;
  }
  // Chunks across the parts: of each part the same range.
  const int64_t part = (count + engine.size() - 1) / engine.size(), step = std::max<int64_t>(1, kChunk / width / engine.size());
  if (count * width <= kChunk) {
    Exchange whole(scratches[0]);
    whole.begin(engine, in, part_offsets(count, engine.size()), width);
    return whole.finish(engine, in, out, dtype, how);
  }
  std::vector<char> packed;
  for (int64_t begin = 0; begin < part; begin += step) {
    std::vector<int64_t> parts{0};
    packed.clear();
    for (int r = 0; r < engine.size(); ++r) {
      const int64_t from = std::min(count, r * part + begin), to = std::min({count, (r + 1) * part, r * part + begin + step});
      if (to > from) packed.insert(packed.end(), in + from * width, in + to * width);
      parts.push_back(parts.back() + std::max<int64_t>(0, to - from));
    }
    Exchange e(scratches[0]);
    e.begin(engine, packed.data(), std::move(parts), width);
    e.finish(engine, packed.data(), out + begin * width, dtype, how);
  }
}

void all_gather_now(Engine& engine, const char* own, char* all, int64_t bytes) {
  std::vector<int64_t> offsets;
  for (int r = 0; r <= engine.size(); ++r) offsets.push_back(r * bytes);
  all_gather_pieces_now(engine, own, all, offsets);
}

void all_gather_pieces_now(Engine& engine, const char* own, char* all, const std::vector<int64_t>& offsets) {
  if (engine.size() == 1) {
    if (own != all) std::memcpy(all, own, static_cast<size_t>(offsets.back()));
    return;
  }
  if (engine.shared()) return all_gather_pieces_shared(engine, own, all, offsets);
  if (offsets.back() <= kWhole) {
    engine.complete(engine.transport().all_gather_pieces(own, {all, offsets.data()}));
    return;
  }
  // Larger ones go rank by rank.
  for (int r = 0; r < engine.size(); ++r) {
    const int64_t bytes = offsets[r + 1] - offsets[r];
    if (r == engine.rank() && own != all + offsets[r]) std::memcpy(all + offsets[r], own, static_cast<size_t>(bytes));
    broadcast_now(engine, all + offsets[r], bytes, r);
  }
}

void broadcast_now(Engine& engine, char* data, int64_t bytes, int root) {
  if (engine.size() == 1) return;
  if (engine.shared()) return broadcast_shared(engine, data, bytes, root);
  std::vector<Request> requests;
  for (int64_t begin = 0; begin < bytes; begin += kWhole)
    requests.push_back(engine.transport().broadcast(data + begin, std::min(kWhole, bytes - begin), root));
  for (const Request r : requests) engine.complete(r);
}

}  // namespace gluino::distributed
