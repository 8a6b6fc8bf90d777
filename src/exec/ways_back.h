// Where a backward pass goes in a hybridized call, as it would in the calls that eager code records.
#pragma once
#include <span>
#include <vector>

#include "exec/program.h"

namespace gluino {

struct WaysBack {
  std::vector<bool> reached;   // per source: whether one of the given results was computed from it
  std::vector<bool> flows;     // per source: whether more than zeros may flow back to it
  std::vector<bool> released;  // per result on the tape: whether the pass goes through the call that gave it, or what it is a view of
  std::vector<bool> cut;       // per result on the tape: whether a way back from it leads through such a call
  bool passes_by_own_gradient = false;  // a call that gives a gradient of its own is not asked for it
};
// given: per result on the tape. hidden: what the loops have left; empty: of any run.
WaysBack find_ways_back(const Compiled& c, const std::vector<bool>& given, std::span<const Tensor> hidden);

}  // namespace gluino
