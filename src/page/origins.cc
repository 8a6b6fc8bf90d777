#include <map>
#include <set>

#include "page/page.h"

namespace gluino {

std::vector<std::vector<int>> find_origins(const Graph& before, const Graph& after) {
  std::map<std::string, int> number_of;
  for (size_t n = 0; n < before.nodes.size(); ++n)
    if (!before.nodes[n].is_constant()) number_of[before.nodes[n].name] = static_cast<int>(n);
  std::set<int> given;  // nodes of `before` whose value a node of `after` gives
  for (const auto& node : after.nodes)
    if (const auto it = number_of.find(node.name); it != number_of.end()) given.insert(it->second);
  std::vector<std::vector<int>> origins(after.nodes.size());
  for (size_t n = 0; n < after.nodes.size(); ++n) {
    const auto it = number_of.find(after.nodes[n].name);
    if (it == number_of.end()) continue;
    std::set<int> seen{it->second};
    std::vector<int> open{it->second};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      origins[n].push_back(at);
      for (ValueId v : before.node(at).inputs)
        if (before.node(v).op && !given.contains(v.node) && seen.insert(v.node).second) open.push_back(v.node);
    }
    std::sort(origins[n].begin(), origins[n].end());
  }
  return origins;
}

}  // namespace gluino
