// Nodes that update a state in place: what reads the state before must not be computed after.
#pragma once
#include "graph/graph.h"

namespace gluino {

class StateUpdates {
 public:
  explicit StateUpdates(const Graph& graph);
  // Whether something that node n reads is updated by a node between n and `later`.
  bool forbid_moving(int n, int later) const;

 private:
  ValueId memory_of(ValueId v) const;  // the value whose memory a view is
  const Graph& graph_;
  std::vector<std::pair<ValueId, int>> updates_;  // the memory, and the node that updates it
};

}  // namespace gluino
