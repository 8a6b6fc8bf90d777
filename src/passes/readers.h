// Who reads what.
#pragma once
#include <limits>

#include "graph/graph.h"

namespace gluino {

// For each node the nodes that read it, in order and once per input, then kCaller for each of its values that the graph returns.
class Readers {
 public:
  static constexpr int kCaller = std::numeric_limits<int>::max();  // a reader after all nodes
  explicit Readers(const Graph& graph);
  const std::vector<int>& of(int node) const { return readers_[node]; }
  int count(int node) const { return static_cast<int>(of(node).size()); }
  // Whether one of those that read this very value, nodes or kCaller, is as asked for.
  template <class F>
  bool any_of(ValueId v, const F& is_wanted) const {
    for (size_t i = 0; i < readers_[v.node].size(); ++i)
      if (outputs_[v.node][i] == v.index && is_wanted(readers_[v.node][i])) return true;
    return false;
  }
  int only_node(int node) const { return count(node) == 1 && of(node)[0] != kCaller ? of(node)[0] : -1; }  // -1: there are others, or none

 private:
  std::vector<std::vector<int>> readers_, outputs_;  // by node, and which of its outputs each of them reads
};

}  // namespace gluino
