#include "exec/segments.h"

#include "base/format.h"

namespace gluino {
namespace {

bool same_decision(const TracedRead& read, const Tensor& seen, const Tensor& now) {
  return read.shape_only ? impl_of(seen).shape == impl_of(now).shape : array_equal(seen, now);
}

std::string decision_text(const TracedRead& read, const Tensor& seen) {
  if (read.shape_only) return "of shape " + impl_of(seen).shape.str();
  return impl_of(seen).shape.elements() == 1 ? fmt::format("{}", seen.item<double>()) : "as it was seen";
}

int count_segments(const SegmentTree::Segment& s) {
  int n = 1;
  for (const auto& [value, branch] : s.branches) n += count_segments(*branch);
  return n;
}

}  // namespace

SegmentRun SegmentTree::run(const Tensors& inputs) const {
  SegmentRun r;
  auto value = [&](const TracedValue& v) {
    switch (v.kind) {
      case TracedValue::Kind::input: return inputs[v.index];
      case TracedValue::Kind::captured: return captured_[v.index];
      case TracedValue::Kind::call: break;
    }
    return r.memo[v.index][v.output];
  };
  const Segment* segment = root.get();
  while (true) {
    for (const TracedCall& call : segment->calls) {
      Tensors in;
      for (const TracedValue& v : call.inputs) in.push_back(value(v));
      r.memo.push_back(apply(*call.op, in, call.attrs));
    }
    if (!segment->read) break;
    const Tensor now = value(segment->read->value);
    const Segment* next = nullptr;
    for (const auto& [seen, branch] : segment->branches)
      if (same_decision(*segment->read, seen, now)) next = branch.get();
    if (!next) return r;
    segment = next;
  }
  for (const TracedValue& v : segment->outputs) r.outputs.push_back(value(v));
  for (const auto& [target, v] : segment->write_backs) r.write_backs.emplace_back(target, value(v));
  r.complete = true;
  return r;
}

TracedValue SegmentTree::adopt(TracedValue v, const Trace& t) {
  if (v.kind != TracedValue::Kind::captured) return v;
  const Tensor& tensor = t.captured[v.index];
  size_t k = 0;
  while (k < captured_.size() && !captured_[k].is_same(tensor)) ++k;
  if (k == captured_.size()) captured_.push_back(tensor);
  v.index = static_cast<int>(k);
  return v;
}

int SegmentTree::insert(Trace t) {
  const int before = root ? count_segments(*root) : 0;
  for (TracedCall& c : t.calls)
    for (TracedValue& v : c.inputs) v = adopt(v, t);
  std::unique_ptr<Segment>* place = &root;
  int done = 0;
  for (size_t k = 0; k <= t.reads.size(); ++k) {
    const bool last = k == t.reads.size();
    const int end = last ? static_cast<int>(t.calls.size()) : t.reads[k].calls_before;
    if (!*place) {
      *place = std::make_unique<Segment>();
      Segment& s = **place;
      s.calls.assign(t.calls.begin() + done, t.calls.begin() + end);
      if (last) {
        for (const TracedValue& v : t.outputs) s.outputs.push_back(adopt(v, t));
        for (const auto& [target, v] : t.write_backs) s.write_backs.emplace_back(adopt(target, t), adopt(v, t));
      } else {
        s.read = t.reads[k];
        s.read->value = adopt(s.read->value, t);
      }
    }
    done = end;
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
  return count_segments(*root) - before;
}

std::string SegmentTree::str() const {
  std::string text = "the program reads values and is a tree of segments:\n";
  auto print = [&](auto&& self, const Segment& s, int depth) -> void {
    const std::string indent(depth * 2, ' ');
    text += fmt::format("{}segment of {} operators", indent, s.calls.size());
    text += s.read ? fmt::format(", then a value is read ({} branches seen)\n", s.branches.size()) : ", end\n";
    for (const auto& [seen, branch] : s.branches) {
      text += fmt::format("{}when it is {}:\n", indent, decision_text(*s.read, seen));
      self(self, *branch, depth + 1);
    }
  };
  if (root) print(print, *root, 1);
  return text;
}

}  // namespace gluino
