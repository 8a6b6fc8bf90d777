#include "graph/head_sets.h"

#include <algorithm>

namespace gluino {

int HeadSets::of(std::vector<int> set) {
  const auto [known, is_new] = numbers_.try_emplace(set, static_cast<int>(sets_.size()));
  if (is_new) sets_.push_back(std::move(set));
  return known->second;
}

int HeadSets::join(int a, int b) {
  if (a == b || b == kNone) return a;
  if (a == kNone) return b;
  const auto [known, is_new] = joined_.try_emplace(std::minmax(a, b), kNone);
  if (!is_new) return known->second;
  std::vector<int> both;
  std::ranges::set_union(sets_[a], sets_[b], std::back_inserter(both));
  return known->second = of(std::move(both));
}

}  // namespace gluino
