#include "passes/readers.h"

namespace gluino {

Readers::Readers(const Graph& graph) : readers_(graph.nodes.size()) {
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (ValueId v : graph.node(i).inputs) readers_[v.node].push_back(static_cast<int>(i));
  for (ValueId v : graph.outputs) readers_[v.node].push_back(kCaller);
}

}  // namespace gluino
