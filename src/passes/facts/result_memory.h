// Which values a graph's results are the memory of: the caller may change a result in place, and nothing else may change with it.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace gluino {

class ResultMemory {
 public:
  explicit ResultMemory(const Graph& graph);
  // The node whose memory this one's value is: itself, unless it is a view.
  int owner(int node) const { return owners_[node]; }
  // A result is the memory of this node, or a view of it.
  bool is_given(int node) const { return is_given_[owners_[node]]; }
  void give(int node) { is_given_[owners_[node]] = true; }

 private:
  std::vector<int> owners_;
  std::vector<bool> is_given_;  // by owner
};

}  // namespace gluino
