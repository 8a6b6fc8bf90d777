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
  Graph (*run)(Graph, const PassContext&);
};

// Makes a graph of another one, node by node, while values are replaced by others. Nodes that are kept are moved, at the end: until then
// `from` is whole. A graph of which all is kept is not touched.
class Rewriter {
 public:
  explicit Rewriter(Graph& from) : from_(from) {
    first_.reserve(from.nodes.size());
    sources_.reserve(from.nodes.size());
    size_t values = 0;
    for (const Graph::Node& node : from.nodes) {
      first_.push_back(values);
      values += node.outputs.size();
    }
    map_.resize(values);
  }
  ValueId mapped(ValueId v) const { return map_[place(v)]; }
  bool is_mapped(ValueId v) const { return mapped(v).node >= 0; }
  // Keeps node n with its inputs mapped; they must have been before.
  int keep(int n) {
    const int number = count();
    is_changed_ |= n != number;
    sources_.push_back(n);
    map_outputs(n, from_.node(n).outputs.size(), number);
    return number;
  }
  // Node n becomes `node` of the new graph.
  int put(int n, Graph::Node node) {
    const size_t outputs = std::min(node.outputs.size(), from_.node(n).outputs.size());
    const int number = add(std::move(node));
    map_outputs(n, outputs, number);
    return number;
  }
  // A further node.
  int add(Graph::Node node) {
    const int number = count();
    is_changed_ = true;
    sources_.push_back(~static_cast<int>(made_.size()));
    made_.push_back(std::move(node));
    return number;
  }
  // All outputs of node n become these values of the new graph.
  void replace(int n, const std::vector<ValueId>& values) {
    for (size_t i = 0; i < values.size(); ++i) replace({n, static_cast<int>(i)}, values[i]);
  }
  void replace(ValueId v, ValueId by) {
    is_changed_ = true;
    map_[place(v)] = by;
  }
  // A node of the new graph. One that was kept still names its inputs as in the old graph.
  const Graph::Node& node(ValueId v) const {
    const int source = sources_[v.node];
    return source < 0 ? made_[~source] : from_.node(source);
  }
  const OutputInfo& info(ValueId v) const { return node(v).outputs[v.index]; }
  bool is_changed() const { return is_changed_ || sources_.size() != from_.nodes.size(); }
  Graph finish() {
    if (!is_changed()) return std::move(from_);
    Graph to;
    to.nodes.reserve(sources_.size());
    for (const int source : sources_) {
      if (source < 0) {
        to.nodes.push_back(std::move(made_[~source]));
        continue;
      }
      Graph::Node& kept = from_.nodes[source];
      for (ValueId& v : kept.inputs) v = mapped(v);
      to.nodes.push_back(std::move(kept));
    }
    for (ValueId v : from_.outputs) to.outputs.push_back(mapped(v));
    to.parts = std::move(from_.parts);
    return to;
  }

 private:
  int count() const { return static_cast<int>(sources_.size()); }
  size_t place(ValueId v) const { return first_[v.node] + static_cast<size_t>(v.index); }
  void map_outputs(int n, size_t outputs, int number) {
    for (size_t i = 0; i < outputs; ++i) map_[first_[n] + i] = {number, static_cast<int>(i)};
  }

  Graph& from_;
  std::vector<size_t> first_;  // by node of the old graph, where its values begin in
  std::vector<ValueId> map_;   // what became of each value of the old graph; node -1: nothing yet
  std::vector<int> sources_;   // of the new nodes: the number of one that is kept, or ~ the place in made_
  std::vector<Graph::Node> made_;
  bool is_changed_ = false;
};

// Whether running the node does something besides computing its outputs: draws random numbers or updates a state.
bool has_effect(const Graph::Node& node);

}  // namespace gluino
