// Nodes that update a state in place: what reads the state before must not be computed after.
#pragma once
#include <map>

#include "graph/graph.h"

namespace gluino {

class StateUpdates {
 public:
  explicit StateUpdates(const Graph& graph);
  // Whether something that node n reads is updated by a node between n and `later`.
  bool forbid_moving(int n, int later) const;

 private:
  ValueId memory_of(ValueId v) const { return viewed_[v.node].node < 0 ? v : viewed_[v.node]; }
  const Graph& graph_;
  std::vector<ValueId> viewed_;                  // by node the value whose memory it is a view of; node -1: it is none
  std::map<ValueId, std::vector<int>> updates_;  // by memory the nodes that update it, in order
};

}  // namespace gluino
