#include "passes/eliminate_common.h"

#include <map>
#include <tuple>

namespace gluino {

Graph eliminate_common(const Graph& graph, const PassContext&) {
  using Key = std::tuple<const OpDef*, StringMap, bool, std::optional<bool>, std::vector<ValueId>>;
  std::map<Key, int> seen;
  Rewriter rewriter(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.node(i);
    if (!node.op || has_effect(node) || node.op->has_subgraphs()) {
      rewriter.keep(static_cast<int>(i));
      continue;
    }
    Key key{node.op, node.op->print_attrs(node.attrs), node.mode.is_paused, node.mode.training, {}};
    for (ValueId v : node.inputs) std::get<4>(key).push_back(rewriter.mapped(v));
    const auto it = seen.find(key);
    if (it == seen.end()) {
      seen.emplace(std::move(key), rewriter.keep(static_cast<int>(i)));
      continue;
    }
    std::vector<ValueId> same;
    for (int k = 0; k < static_cast<int>(node.outputs.size()); ++k) same.push_back({it->second, k});
    rewriter.replace(static_cast<int>(i), std::move(same));
  }
  return rewriter.finish();
}

}  // namespace gluino
