#include "exec/segments.h"

#include <cstring>

#include "base/format.h"
#include "gluino/autograd.h"

namespace gluino {
namespace {

bool same_decision(const TracedRead& read, const Tensor& seen, const Tensor& now) {
  const detail::TensorImpl &a = impl_of(seen), &b = impl_of(now);
  if (!(a.shape == b.shape) || a.dtype != b.dtype) return false;
  return read.shape_only || std::memcmp(bytes_of(seen), bytes_of(now), a.shape.elements() * dtype_bytes(a.dtype)) == 0;
}

std::string decision_text(const TracedRead& read, const Tensor& seen) {
  if (read.shape_only) return "of shape " + impl_of(seen).shape.str();
  return impl_of(seen).shape.elements() == 1 ? fmt::format("{}", seen.item<double>()) : "as it was seen";
}

// Runs that met no new branch before segments are compiled: where every call brings a value of its own, nothing is gained.
constexpr int kRunsBeforePlans = 1, kCostOfNewBranch = 4, kFewestKnownRuns = -8;

}  // namespace

bool still_holds(const std::vector<SettingRead>& settings, const CapturedTensors& captured,
                 const std::vector<std::pair<int, std::shared_ptr<CapturedTensor>>>& captured_inputs, const Tensors& inputs) {
  for (const SettingRead& s : settings)
    if (s.setting->key() != s.seen) return false;
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < captured.size(); ++i) {
    if (i + 2 * kAhead < captured.size()) __builtin_prefetch(captured[i + 2 * kAhead].get());
    if (i + kAhead < captured.size()) {
      prefetch_tensor(captured[i + kAhead]->live());
      __builtin_prefetch(captured[i + kAhead]->shadow().impl().get());
    }
    if (captured[i]->is_let_go()) return false;
    captured[i]->follow();
  }
  for (const auto& [i, tensor] : captured_inputs)
    if (!inputs[i].is_same(tensor->live())) return false;
  return true;
}

int SegmentTree::count_segments(const Segment& s) {
  int n = 1;
  for (const auto& [value, branch] : s.branches) n += branch ? count_segments(*branch) : 0;
  return n;
}

SegmentTree::Segment* SegmentTree::branch_of(const Segment& segment, const Tensor& now) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [seen, branch] : segment.branches)
    if (same_decision(*segment.read, seen, now)) return branch.get();
  return nullptr;
}
std::shared_ptr<SegmentPlan> SegmentTree::plan_of(Segment& segment) {
  const std::lock_guard lock(mutex_);
  if (known_runs_ < kRunsBeforePlans || (mode().recording && reads_what_is_written(segment))) return nullptr;
  if (!segment.plan)
    if (const size_t count = SegmentPlan::usable(segment.calls))
      segment.plan = std::make_shared<SegmentPlan>(
          std::vector(segment.calls.begin(), segment.calls.begin() + static_cast<ptrdiff_t>(count)), segment.first, segment.needed);
  return segment.plan;
}

// Backward may need a tensor as it was before the run's end updates it; a segment does not know which these are.
bool SegmentTree::reads_what_is_written(const Segment& segment) const {
  return !written_.empty() && std::ranges::any_of(segment.calls, [this](const TracedCall& call) {
    return std::ranges::any_of(call.inputs, [this](const TracedValue& v) { return written_.contains(v); });
  });
}

SegmentRun SegmentTree::run(const Tensors& inputs) {
  SegmentRun r;
  CapturedTensors captured = this->captured();
  const auto value = [&](const TracedValue& v) {
    switch (v.kind) {
      case TracedValue::Kind::input: return inputs[v.index];
      case TracedValue::Kind::captured:
        if (v.index >= static_cast<int>(captured.size())) captured = this->captured();
        return captured[v.index]->live();
      case TracedValue::Kind::call: break;
    }
    return r.memo[v.index][v.output];
  };
  struct Planned {
    std::shared_ptr<SegmentPlan> plan;
    RandomStream first;
  };
  std::vector<Planned> planned;
  for (Segment* segment = root_.get();;) {
    const size_t before = r.memo.size();
    if (auto plan = plan_of(*segment)) {
      planned.push_back({plan, peek_random_stream(current_device())});
      plan->run(value, r.memo);
    }
    for (size_t k = r.memo.size() - before; k < segment->calls.size(); ++k) {
      Tensors in;
      for (const TracedValue& v : segment->calls[k].inputs) in.push_back(value(v));
      r.memo.push_back(run_call(segment->calls[k], std::move(in)));
    }
    if (!segment->read) {
      for (const TracedValue& v : segment->ending.values()) r.values.push_back(value(v));
      r.ending = &segment->ending;
      break;
    }
    segment = branch_of(*segment, value(segment->read->value));
    if (!segment) break;
  }
  if (!r.ending)
    for (const Planned& p : planned) p.plan->fill(value, p.first, r.memo);
  const std::lock_guard lock(mutex_);
  known_runs_ = r.ending ? std::min(known_runs_ + 1, kCostOfNewBranch) : std::max(known_runs_ - kCostOfNewBranch, kFewestKnownRuns);
  return r;
}

bool SegmentTree::is_current(const Tensors& inputs) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(tape_places_, [&](const TapePlaces& p) { return p.hold(inputs); }) &&
         still_holds(settings_, captured_, captured_inputs_, inputs);
}
CapturedTensors SegmentTree::captured() const {
  const std::lock_guard lock(mutex_);
  return captured_;
}

bool SegmentTree::updates_leaf(const Tensors& inputs) const {
  const std::lock_guard lock(mutex_);
  return gluino::updates_leaf(recorded_updates_, captured_, inputs);
}
bool SegmentTree::updates_layers() const {
  const std::lock_guard lock(mutex_);
  return updates_layers_;
}

int SegmentTree::adopted(int index, const Trace& t) {
  const auto [place, is_new] = captured_places_.try_emplace(t.captured[index].get(), static_cast<int>(captured_.size()));
  if (is_new) captured_.push_back(t.captured[index]);
  return place;
}
void SegmentTree::adopt(TracedValue& v, const Trace& t) {
  if (v.kind == TracedValue::Kind::captured) v.index = adopted(v.index, t);
}
void SegmentTree::adopt(Ending::Alias& a, const Trace& t) {
  if (a.of == Ending::Alias::Of::captured) a.index = adopted(a.index, t);
}

int SegmentTree::insert(Trace t) {
  const std::lock_guard lock(mutex_);
  const int before = root_ ? count_segments(*root_) : 0;
  updates_layers_ |= std::ranges::any_of(t.calls, [](const TracedCall& c) { return c.may_update_states(); });
  for (TracedCall& c : t.calls)
    for (TracedValue& v : c.inputs) adopt(v, t);
  for (Ending::Result& r : t.ending.results) {
    if (r.value) adopt(*r.value, t);
    adopt(r.in_graph, t);
    if (r.alias) adopt(*r.alias, t);
    for (Ending::PassedOn& p : r.passed_on) adopt(p.alias, t);
  }
  for (Ending::Escaped& e : t.ending.escaped) adopt(e.value, t);
  for (Ending::WriteBack& w : t.ending.write_backs) {
    adopt(w.target, t);
    adopt(w.value, t);
    written_.insert(w.target);
  }
  for (TracedUpdate& u : t.updates) {
    if (!u.is_recorded) continue;
    adopt(u.write.target, t);
    recorded_updates_.push_back(u);
  }
  for (TracedRead& r : t.reads) adopt(r.value, t);
  for (SettingRead& s : t.settings)
    if (std::none_of(settings_.begin(), settings_.end(), [&](const SettingRead& k) { return k.setting == s.setting; }))
      settings_.push_back(s);
  if (t.tape_places) tape_places_.push_back(*t.tape_places);
  for (auto& c : t.captured_inputs) captured_inputs_.push_back(c);
  std::unique_ptr<Segment>* place = &root_;
  std::vector<Segment*> path;
  int done = 0;
  for (size_t k = 0; k <= t.reads.size(); ++k) {
    const bool last = k == t.reads.size();
    const int end = last ? static_cast<int>(t.calls.size()) : t.reads[k].calls_before;
    if (!*place) {
      *place = std::make_unique<Segment>();
      Segment& s = **place;
      s.first = done;
      s.calls.assign(t.calls.begin() + done, t.calls.begin() + end);
      if (last)
        s.ending = t.ending;
      else
        s.read = t.reads[k];
    }
    done = end;
    path.push_back(place->get());
    if (last) break;
    Segment& s = **place;
    std::unique_ptr<Segment>* next = nullptr;
    for (auto& [seen, branch] : s.branches)
      if (same_decision(t.reads[k], seen, t.reads[k].seen)) next = &branch;
    if (!next) {
      if (s.branches.size() >= kMaxBranches) break;
      s.branches.emplace_back(t.reads[k].seen, nullptr);
      next = &s.branches.back().second;
    }
    place = next;
  }
  note_needed(path, t);
  return count_segments(*root_) - before;
}
// A compiled segment gives what something outside it asks for; when a new branch asks for more, it is compiled again.
void SegmentTree::note_needed(const std::vector<Segment*>& path, const Trace& t) {
  std::vector<std::pair<Segment*, int>> made_in(t.calls.size());  // per call, and where the compiled part of that segment ends
  for (Segment* s : path)
    for (size_t k = 0, count = SegmentPlan::usable(s->calls); k < s->calls.size(); ++k)
      made_in[s->first + k] = {s, s->first + static_cast<int>(count)};
  const auto ask = [&](const TracedValue& v, int by) {
    if (v.kind != TracedValue::Kind::call) return;
    const auto [segment, end] = made_in[v.index];
    if (segment && by >= end && segment->needed.insert(v).second) segment->plan = nullptr;
  };
  for (size_t k = 0; k < t.calls.size(); ++k)
    for (const TracedValue& v : t.calls[k].inputs) ask(v, static_cast<int>(k));
  const int last = static_cast<int>(t.calls.size());
  for (const TracedRead& r : t.reads) ask(r.value, last);
  for (const TracedValue& v : t.ending.values()) ask(v, last);
}

std::string SegmentTree::str() const {
  const std::lock_guard lock(mutex_);
  std::string text = "the program reads values and is a tree of segments:\n";
  auto print = [&](auto&& self, const Segment& s, size_t depth) -> void {
    const std::string indent(depth * 2, ' ');
    text += fmt::format("{}segment of {} operators{}", indent, s.calls.size(), s.plan ? " (compiled)" : "");
    text += s.read ? fmt::format(", then a value is read ({} branches seen)\n", s.branches.size()) : ", end\n";
    for (const auto& [seen, branch] : s.branches) {
      text += fmt::format("{}when it is {}:\n", indent, decision_text(*s.read, seen));
      if (branch) self(self, *branch, depth + 1);
    }
  };
  if (root_) print(print, *root_, 1);
  return text;
}

}  // namespace gluino
