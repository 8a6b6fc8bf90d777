#include "passes/eliminate_common.h"

#include <map>
#include <tuple>

#include "dispatch/own_gradient.h"
#include "passes/facts/result_memory.h"

namespace gluino {
namespace {

// Calls of one operator on the same values, told apart by their attributes. Those are printed from the second call on, which few have.
class SameCalls {
 public:
  // A call of this that is there already, or -1: then it is this one, by `number`.
  int find_or_add(const Graph::Node& call, int number) {
    if (!first_) {
      first_ = &call;
      first_number_ = number;
      return -1;
    }
    if (first_->attrs == call.attrs) return first_number_;
    if (by_attrs_.empty()) by_attrs_.emplace(first_->op->print_attrs(first_->attrs), first_number_);
    const auto [known, is_new] = by_attrs_.try_emplace(call.op->print_attrs(call.attrs), number);
    return is_new ? -1 : known->second;
  }

 private:
  const Graph::Node* first_ = nullptr;
  int first_number_ = -1;
  std::map<StringMap, int> by_attrs_;
};

// Two results stay two, of which the caller may change one. What a backward pass reads later is not a result that has been changed by then,
// unless the gradient itself asks for that result.
bool may_be_one(const ResultMemory& memory, int known, int other, bool has_backward, bool is_forward) {
  if (memory.owner(other) != other) return true;  // views of one memory
  const bool is_given = memory.is_given(known), will_be_given = memory.is_given(other);
  return has_backward && is_forward ? !is_given && !will_be_given : !is_given || !will_be_given;
}

}  // namespace

Graph eliminate_common(Graph graph, const PassContext& context) {
  using Key = std::tuple<const OpDef*, bool, std::optional<bool>, std::vector<ValueId>>;
  std::map<Key, SameCalls> seen;
  Rewriter rewriter(graph);
  ResultMemory memory(graph);
  const int forward_nodes = graph.count_forward_nodes();
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Graph::Node& node = graph.node(n);
    // Two calls that give gradients of their own, whatever flows in, give two.
    if (!node.op || has_effect(node) || node.op->has_subgraphs() || has_own_gradient(*node.op)) {
      rewriter.keep(n);
      continue;
    }
    Key key{node.op, node.mode.is_paused, node.mode.training, {}};
    for (ValueId v : node.inputs) std::get<3>(key).push_back(rewriter.mapped(v));
    SameCalls& same = seen[std::move(key)];
    const int known = same.find_or_add(node, n);
    if (known < 0 || !may_be_one(memory, known, n, context.has_backward, n < forward_nodes)) {
      rewriter.keep(n);
      continue;
    }
    if (memory.is_given(n)) memory.give(known);
    if (graph.node(known).part != node.part) graph.nodes[known].part = -1;
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) rewriter.replace({n, i}, rewriter.mapped({known, i}));
  }
  return rewriter.finish();
}

}  // namespace gluino
