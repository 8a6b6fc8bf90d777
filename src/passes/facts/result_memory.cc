#include "passes/facts/result_memory.h"

namespace gluino {

ResultMemory::ResultMemory(const Graph& graph) : is_given_(graph.nodes.size(), false) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Graph::Node& node = graph.node(n);
    const bool is_view = node.op && node.op->is_view && !node.inputs.empty();
    owners_.push_back(is_view ? owners_[node.inputs[0].node] : static_cast<int>(n));
  }
  for (ValueId v : graph.outputs) give(v.node);
}

}  // namespace gluino
