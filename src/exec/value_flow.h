// Which values of a traced program depend on which, as the tape would have it. Of a loop or branch that has run, its hidden output says
// what it ran; of one that has not, all that any run could read counts.
#pragma once
#include <span>
#include <unordered_map>

#include "dispatch/dependent_outputs.h"
#include "graph/graph.h"

namespace gluino {

std::vector<int> find_loops(const Graph& graph);  // its nodes of which not every output depends on every input

class ValueFlow {
 public:
  // hidden: of each loop; empty: none has run.
  ValueFlow(const Graph& graph, const std::vector<int>& loops, std::span<const Tensor> hidden = {});

  // A set of values: whole calls, or outputs of a loop.
  class Set {
   public:
    bool has(ValueId v) const { return parts(v.node) ? (*parts(v.node))[v.index] : is_in_[v.node]; }
    bool has_any(int node) const { return is_in_[node]; }
    void add(ValueId v);
    void add_all(int node);

   private:
    friend class ValueFlow;
    const std::vector<bool>* parts(int node) const {
      const auto it = parts_.find(node);
      return it == parts_.end() ? nullptr : &it->second;
    }
    std::vector<bool> is_in_;                           // by node: any of its values
    std::unordered_map<int, std::vector<bool>> parts_;  // of loops, by output
  };
  Set none() const;
  // Adds what a call gives from values of the set, of its first `inputs`.
  void follow(Set& set, int node, size_t inputs) const;
  void follow_input(Set& set, int node, size_t input) const;
  // Whether something of the set that a call gives is computed from this input.
  bool is_computed_from(const Set& set, int node, size_t input) const;

 private:
  const Graph& graph_;
  std::unordered_map<int, Dependence> loops_;
};

}  // namespace gluino
