#include "passes/state_updates.h"

#include <algorithm>

namespace gluino {

StateUpdates::StateUpdates(const Graph& graph) : graph_(graph) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Graph::Node& node = graph.node(n);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.op->is_state_input(node.attrs, i)) updates_.emplace_back(memory_of(node.inputs[i]), static_cast<int>(n));
  }
}

ValueId StateUpdates::memory_of(ValueId v) const {
  for (;;) {
    const Graph::Node& node = graph_.node(v);
    if (!node.op || !node.op->is_view) return v;
    v = node.inputs[0];
  }
}

bool StateUpdates::forbid_moving(int n, int later) const {
  const auto& inputs = graph_.node(n).inputs;
  return std::any_of(updates_.begin(), updates_.end(), [&](const auto& update) {
    const auto& [memory, by] = update;
    return n < by && by < later && std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return memory_of(v) == memory; });
  });
}

}  // namespace gluino
