#include "passes/facts/head_sets.h"

#include <algorithm>
#include <map>

namespace gluino {
namespace {

// Sets of numbers, each kept once.
class Sets {
 public:
  explicit Sets(std::vector<std::vector<int>>& sets) : sets_(sets) {}
  int of(std::vector<int> set) {
    const auto [known, is_new] = numbers_.try_emplace(set, static_cast<int>(sets_.size()));
    if (is_new) sets_.push_back(std::move(set));
    return known->second;
  }
  int join(int a, int b) {
    if (a == b) return a;
    const auto [known, is_new] = joined_.try_emplace(std::minmax(a, b), 0);
    if (is_new) {
      std::vector<int> both;
      std::ranges::set_union(sets_[a], sets_[b], std::back_inserter(both));
      known->second = of(std::move(both));
    }
    return known->second;
  }

 private:
  std::vector<std::vector<int>>& sets_;
  std::map<std::vector<int>, int> numbers_;
  std::map<std::pair<int, int>, int> joined_;
};

}  // namespace

HeadSets::HeadSets(const Graph& graph) {
  const int count = static_cast<int>(graph.nodes.size()), forward = graph.count_forward_nodes();
  parts_.assign(count, kForward);
  std::fill(parts_.begin() + forward, parts_.end(), kAlways);
  Sets sets(heads_);
  sets.of({});  // kAlways
  if (std::ranges::count_if(graph.nodes, [](const Graph::Node& n) { return n.is_head; }) < 2) return;
  for (int n = forward, head = 0; n < count; ++n) {
    if (graph.node(n).is_head) parts_[n] = sets.of({head++});
    for (ValueId v : graph.node(n).inputs)
      if (v.node >= forward) parts_[n] = sets.join(parts_[n], parts_[v.node]);
  }
  // What reads no head belongs to those that read it, where these are of one part.
  constexpr int kUnread = -2;
  std::vector<int> of_readers(count, kUnread);
  const auto read = [&](int n, int part) { of_readers[n] = of_readers[n] == kUnread || of_readers[n] == part ? part : kAlways; };
  for (ValueId v : graph.outputs) read(v.node, kAlways);
  for (int n = count; n-- > forward;) {
    if (parts_[n] == kAlways && of_readers[n] != kUnread) parts_[n] = of_readers[n];
    for (ValueId v : graph.node(n).inputs) read(v.node, parts_[n]);
  }
}

}  // namespace gluino
