// Which heads the backward pass reads where. When only some results are differentiated, what belongs to the others alone is left out, as in
// eager code: from their zeros it would make NaN where it meets an infinity.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace gluino {

class HeadSets {
 public:
  static constexpr int kForward = -1, kAlways = 0;
  explicit HeadSets(const Graph& graph);
  // Nodes of one part are run or left out together: kForward, kAlways, or others of which each has heads of its own. With one head there
  // are these two.
  int part(int node) const { return parts_[node]; }
  // By part the numbers of its heads: it is needed where one of them is given.
  const std::vector<std::vector<int>>& heads() const { return heads_; }

 private:
  std::vector<int> parts_;  // by node
  std::vector<std::vector<int>> heads_;
};

}  // namespace gluino
