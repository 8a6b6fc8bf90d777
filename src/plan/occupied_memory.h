// Which parts of the arena are taken while which steps run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gluino {

// A tree over the steps: a piece of memory stands at the few nodes that make up its lifetime.
class OccupiedMemory {
 public:
  explicit OccupiedMemory(int steps);
  // The lowest offset at which `bytes` are free from step `first` to `last`. Where very many pieces live at that time, it lies above all
  // of them: looking for gaps among them would cost more with every piece.
  int64_t find_place(int first, int last, int64_t bytes);
  void add(int first, int last, int64_t begin, int64_t end);

 private:
  using Range = std::pair<int64_t, int64_t>;  // begin, end
  struct Piece {
    Range range;
    int found_by;  // the number of the search that has met it
  };
  struct Node {
    std::vector<int> pieces;
    int64_t end = 0;          // the highest of its pieces
    int64_t highest_end = 0;  // of all pieces at it and below
  };
  bool collect(size_t node, int begin, int end, int first, int last, std::vector<Range>& busy);
  int64_t highest_end(size_t node, int begin, int end, int first, int last) const;
  std::vector<Node> nodes_;  // children of node k: 2 k and 2 k + 1
  std::vector<Piece> pieces_;
  int steps_ = 1, searches_ = 0;
};

}  // namespace gluino
