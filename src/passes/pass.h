// A pass takes a graph and returns a better one with the same outputs. Passes ask operators for properties and for what they compute; none
// recognises an operator by its name.
#pragma once
#include "graph/graph.h"

namespace gluino {

struct PassContext {
  bool training = false;
  bool has_backward = false;  // a backward pass will read values later, when tensors from outside may hold others
};

struct Pass {
  const char* name;
  Graph (*run)(const Graph&, const PassContext&);
};

// Copies a graph node by node while values are replaced by others.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from), map_(from.nodes.size()) {}
  ValueId mapped(ValueId v) const { return map_[v.node][v.index]; }
  // Copies node n with its inputs mapped.
  int keep(int n) {
    Graph::Node node = from_.node(n);
    for (ValueId& v : node.inputs) v = mapped(v);
    return put(n, std::move(node));
  }
  // Node n becomes `node` of the new graph.
  int put(int n, Graph::Node node) {
    const int count = static_cast<int>(node.outputs.size()), number = to_.add(std::move(node));
    auto& outs = map_[n];
    for (int i = 0; i < count; ++i) outs.push_back({number, i});
    return number;
  }
  // All outputs of node n become these values of the new graph.
  void replace(int n, std::vector<ValueId> values) { map_[n] = std::move(values); }
  Graph& graph() { return to_; }
  Graph finish() {
    for (ValueId v : from_.outputs) to_.outputs.push_back(mapped(v));
    return std::move(to_);
  }

 private:
  const Graph& from_;
  Graph to_;
  std::vector<std::vector<ValueId>> map_;
};

// Whether running the node does something besides computing its outputs: draws random numbers or updates a state.
bool has_effect(const Graph::Node& node);

}  // namespace gluino
