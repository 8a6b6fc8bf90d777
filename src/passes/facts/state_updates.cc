#include "passes/facts/state_updates.h"

#include <algorithm>

namespace gluino {

StateUpdates::StateUpdates(const Graph& graph) : graph_(graph) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Graph::Node& node = graph.node(n);
    viewed_.push_back(node.op && node.op->is_view ? memory_of(node.inputs[0]) : ValueId{});
    for (size_t i = 0; node.op && node.op->has_states && i < node.inputs.size(); ++i)
      if (node.op->is_state_input(node.attrs, i)) updates_[memory_of(node.inputs[i])].push_back(static_cast<int>(n));
  }
}

bool StateUpdates::forbid_moving(int n, int later) const {
  if (updates_.empty()) return false;
  const auto& inputs = graph_.node(n).inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) {
    const auto found = updates_.find(memory_of(v));
    if (found == updates_.end()) return false;
    const auto next = std::upper_bound(found->second.begin(), found->second.end(), n);
    return next != found->second.end() && *next < later;
  });
}

}  // namespace gluino
