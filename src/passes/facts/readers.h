// Who reads what.
#pragma once
#include <limits>
#include <span>

#include "graph/graph.h"

namespace gluino {

// For each node the nodes that read it, in order and once per input, then kCaller for each of its values that the graph returns.
class Readers {
 public:
  static constexpr int kCaller = std::numeric_limits<int>::max();  // a reader after all nodes
  explicit Readers(const Graph& graph);
  std::span<const int> of(int node) const { return {readers_.data() + first_[node], readers_.data() + first_[node + 1]}; }
  int count(int node) const { return static_cast<int>(of(node).size()); }
  // Whether one of those that read this very value, nodes or kCaller, is as asked for.
  template <class F>
  bool any_of(ValueId v, const F& is_wanted) const {
    for (size_t i = first_[v.node]; i < first_[v.node + 1]; ++i)
      if (outputs_[i] == v.index && is_wanted(readers_[i])) return true;
    return false;
  }
  int only_node(int node) const { return count(node) == 1 && of(node)[0] != kCaller ? of(node)[0] : -1; }  // -1: there are others, or none

 private:
  std::vector<size_t> first_;           // by node: where its readers begin
  std::vector<int> readers_, outputs_;  // and which of the node's outputs each of them reads
};

}  // namespace gluino
