#include "plan/occupied_memory.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gluino {

static constexpr size_t kMostPieces = 256;  // that are looked at in search of a gap

OccupiedMemory::OccupiedMemory(int steps) : steps_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(1, steps))))) {
  nodes_.resize(2 * static_cast<size_t>(steps_));
}

void OccupiedMemory::add(int first, int last, int64_t begin, int64_t end) {
  pieces_.push_back({{begin, end}, 0});
  const int number = static_cast<int>(pieces_.size()) - 1;
  size_t low = static_cast<size_t>(first) + static_cast<size_t>(steps_), high = static_cast<size_t>(last) + static_cast<size_t>(steps_);
  const auto put = [&](size_t k) {
    nodes_[k].pieces.push_back(number);
    nodes_[k].end = std::max(nodes_[k].end, end);
    for (; k > 0 && nodes_[k].highest_end < end; k /= 2) nodes_[k].highest_end = end;
  };
  for (; low <= high; low /= 2, high /= 2) {
    if (low % 2 == 1) put(low++);
    if (high % 2 == 0) put(high--);
  }
}

// The pieces that live between the steps; false: there are very many.
bool OccupiedMemory::collect(size_t node, int begin, int end, int first, int last, std::vector<Range>& busy) {
  const Node& n = nodes_[node];
  if (n.highest_end == 0 || last < begin || first >= end) return true;
  for (int k : n.pieces) {
    Piece& p = pieces_[k];
    if (std::exchange(p.found_by, searches_) == searches_) continue;
    if (busy.size() == kMostPieces) return false;
    busy.push_back(p.range);
  }
  if (end - begin == 1) return true;
  const int middle = (begin + end) / 2;
  return collect(2 * node, begin, middle, first, last, busy) && collect(2 * node + 1, middle, end, first, last, busy);
}

int64_t OccupiedMemory::highest_end(size_t node, int begin, int end, int first, int last) const {
  const Node& n = nodes_[node];
  if (n.highest_end == 0 || last < begin || first >= end) return 0;
  if (first <= begin && end <= last + 1) return n.highest_end;
  const int middle = (begin + end) / 2;
  return std::max({n.end, highest_end(2 * node, begin, middle, first, last), highest_end(2 * node + 1, middle, end, first, last)});
}

int64_t OccupiedMemory::find_place(int first, int last, int64_t bytes) {
  ++searches_;
  std::vector<Range> busy;
  if (!collect(1, 0, steps_, first, last, busy)) return highest_end(1, 0, steps_, first, last);
  std::sort(busy.begin(), busy.end());
  int64_t offset = 0;
  for (const auto& [begin, end] : busy) {
    if (offset + bytes <= begin) break;
    offset = std::max(offset, end);
  }
  return offset;
}

}  // namespace gluino
