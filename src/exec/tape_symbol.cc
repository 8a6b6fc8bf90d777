// What the tape recorded, as a graph.
#include <map>
#include <set>

#include "autograd/tape.h"
#include "base/format.h"
#include "gluino/autograd.h"
#include "graph/graph.h"

namespace gluino::autograd {
namespace {

// The recorded calls behind an entry, in the order they were made; without recursion, because tapes are long.
std::vector<const TapeNode*> calls_behind(const TapeEntry& entry) {
  std::vector<const TapeNode*> found, open;
  std::set<const TapeNode*> seen;
  auto visit = [&](const TapeEntry* e) {
    if (e && !e->is_leaf() && seen.insert(e->node.get()).second) open.push_back(e->node.get());
  };
  visit(&entry);
  while (!open.empty()) {
    const TapeNode* node = open.back();
    open.pop_back();
    found.push_back(node);
    for (const Ref<TapeEntry>& input : node->inputs) visit(input.get());
  }
  std::sort(found.begin(), found.end(), [](const TapeNode* a, const TapeNode* b) { return a->sequence < b->sequence; });
  return found;
}

}  // namespace

Symbol get_symbol(const Tensor& recorded) {
  const TapeEntry* entry = entry_of(recorded);
  if (!entry) throw UserError("get_symbol: the tensor was not recorded; compute it inside autograd::record() from one with attach_grad()");
  std::map<const TapeNode*, Ref<GraphNode>> calls;
  std::map<const TapeEntry*, Value> leaves;
  auto value_of = [&](const TapeEntry* e) -> Value {
    if (e && !e->is_leaf()) return {calls.at(e->node.get()), e->index};
    Value& leaf = leaves[e];
    if (!e || !leaf.node) leaf = sym::var(unique_name("var")).outputs()[0];  // what is off the tape cannot be told apart
    return leaf;
  };
  for (const TapeNode* call : calls_behind(*entry)) {
    if (!call->op)
      raise<UserError>("get_symbol: {} was recorded as a whole, not operator by operator; a hybridized block has export() instead",
                       call->name);
    auto node = make_ref<GraphNode>();
    node->op = call->op;
    node->attrs = call->attrs;
    node->name = unique_name(call->op->name);
    for (const Ref<TapeEntry>& input : call->inputs) node->inputs.push_back(value_of(input.get()));
    calls[call] = std::move(node);
  }
  return Symbol({value_of(entry)});
}

}  // namespace gluino::autograd
