// Sets of heads, each kept once and known by its number. The calls of a backward pass are in parts by the heads for which they are needed:
// when only some results are differentiated, what belongs to the others alone is left out, as in eager code. From their zeros it would make
// NaN where it meets an infinity, or something where a call gives a gradient whatever flows in.
#pragma once
#include <map>
#include <vector>

namespace gluino {

class HeadSets {
 public:
  static constexpr int kNone = 0;
  HeadSets() { of({}); }
  int of(std::vector<int> set);  // in order
  int join(int a, int b);
  const std::vector<std::vector<int>>& all() const { return sets_; }

 private:
  std::vector<std::vector<int>> sets_;
  std::map<std::vector<int>, int> numbers_;
  std::map<std::pair<int, int>, int> joined_;
};

}  // namespace gluino
