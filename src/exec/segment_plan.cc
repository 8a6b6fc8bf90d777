#include "exec/segment_plan.h"

#include <algorithm>

#include "dispatch/mode.h"
#include "gluino/autograd.h"

namespace gluino {
namespace {

constexpr size_t kTooFewCalls = 1;  // one call alone is as fast as it can be

bool updates_state(const TracedCall& call) {
  if (call.op->is_mode_dependent && !call.mode.training.value_or(mode().training)) return false;
  for (size_t i = 0; i < call.inputs.size(); ++i)
    if (call.op->is_state_input(call.attrs, i)) return true;
  return false;
}

}  // namespace

size_t SegmentPlan::usable(const std::vector<TracedCall>& calls) {
  const auto end = std::ranges::find_if(calls, [](const TracedCall& c) { return c.op->is_dynamic_shape || updates_state(c); });
  const auto count = static_cast<size_t>(end - calls.begin());
  return count > kTooFewCalls ? count : 0;
}

SegmentPlan::SegmentPlan(std::vector<TracedCall> calls, int first, const std::set<TracedValue>& needed)
    : calls_(std::move(calls)), first_(first) {
  const auto is_own = [this](const TracedValue& v) { return v.kind == TracedValue::Kind::call && v.index >= first_; };
  for (const TracedCall& call : calls_)
    for (const TracedValue& v : call.inputs)
      if (v.kind != TracedValue::Kind::captured && !is_own(v) && places_.try_emplace(v, given_.size()).second) given_.push_back(v);
  const int end = first_ + static_cast<int>(calls_.size());
  for (const TracedValue& v : needed)
    if (is_own(v) && v.index < end) results_.push_back(v);
}

HybridCache::Result SegmentPlan::run_calls(const Tensors& given, const ValueOf& value_of) const {
  std::vector<Tensors> made;
  const auto value = [&](const TracedValue& v) {
    if (v.kind == TracedValue::Kind::call && v.index >= first_) return made[v.index - first_][v.output];
    if (v.kind == TracedValue::Kind::captured) return value_of(v);
    return given[places_.at(v)];
  };
  for (const TracedCall& call : calls_) {
    Tensors in;
    for (const TracedValue& v : call.inputs) in.push_back(value(v));
    made.push_back(run_call(call, std::move(in)));
  }
  HybridCache::Result result;
  for (const TracedValue& v : results_) result.tensors.push_back(value(v));
  return result;
}

void SegmentPlan::run(const ValueOf& value_of, std::vector<Tensors>& memo) {
  Tensors given;
  for (const TracedValue& v : given_) given.push_back(value_of(v));
  const Tensors results = cache_.call([&](const Tensors& in) { return run_calls(in, value_of); }, given).tensors;
  for (const TracedCall& call : calls_) memo.emplace_back(call.op->num_outputs(call.attrs));
  for (size_t i = 0; i < results.size(); ++i) memo[results_[i].index][results_[i].output] = results[i];
}

void SegmentPlan::fill(const ValueOf& value_of, const RandomStream& first_stream, std::vector<Tensors>& memo) const {
  const ReplayRandom random(current_device(), first_stream);
  for (size_t k = 0; k < calls_.size(); ++k) {
    Tensors in;
    for (const TracedValue& v : calls_[k].inputs) in.push_back(value_of(v));
    memo[first_ + k] = run_call(calls_[k], std::move(in));
  }
}

}  // namespace gluino
