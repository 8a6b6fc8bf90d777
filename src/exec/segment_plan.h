// The calls of a segment as a compiled program of their own.
#pragma once
#include <map>
#include <set>

#include "dispatch/random.h"
#include "exec/trace_program.h"

namespace gluino {

class SegmentPlan {
 public:
  using ValueOf = std::function<Tensor(const TracedValue&)>;

  // How many of these calls, from the first on, can be one program; 0 where that gains nothing. Calls that update states cannot: a branch
  // that was not seen before makes the calls again. Nor can those whose results' shapes depend on values.
  static size_t usable(const std::vector<TracedCall>& calls);

  // The first of the calls is the program's call number `first`; of its results `needed` are asked for later on.
  SegmentPlan(std::vector<TracedCall> calls, int first, const std::set<TracedValue>& needed);

  // Appends one entry for each call to `memo`, in which the results that are needed are set.
  void run(const ValueOf& value_of, std::vector<Tensors>& memo);
  // Makes the calls once more, one by one, with the same random numbers, so that `memo` has all their results.
  void fill(const ValueOf& value_of, const RandomStream& first_stream, std::vector<Tensors>& memo) const;

 private:
  HybridCache::Result run_calls(const Tensors& given, const ValueOf& value_of) const;

  const std::vector<TracedCall> calls_;
  const int first_;
  std::vector<TracedValue> given_;        // inputs, and results of calls before
  std::map<TracedValue, size_t> places_;  // among them
  std::vector<TracedValue> results_;      // that are needed
  HybridCache cache_;
};

}  // namespace gluino
