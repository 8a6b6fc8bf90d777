// A program that reads values: a tree of segments. After each segment a value decides which branch follows; branches
// are added as they are met. Segments run operator by operator, so that autograd records them like eager code.
#pragma once
#include "exec/trace_program.h"

namespace gluino {

struct SegmentRun {
  bool complete = false;  // false: the value led to a branch not seen before
  Tensors outputs;
  std::vector<std::pair<TracedValue, Tensor>> write_backs;
  std::vector<Tensors> memo;  // results of the calls that ran
};

class SegmentTree {
 public:
  // Branches after one value beyond this many are not kept: the value is not a decision but data.
  static constexpr size_t kMaxBranches = 16;

  std::vector<Shape> shapes;  // of the inputs; extents are fixed in such a program

  struct Segment {
    std::vector<TracedCall> calls;
    std::optional<TracedRead> read;  // none: the program ends here
    std::vector<std::pair<Tensor, std::unique_ptr<Segment>>> branches;
    std::vector<TracedValue> outputs;
    std::vector<std::pair<TracedValue, TracedValue>> write_backs;
  };
  std::unique_ptr<Segment> root;

  SegmentRun run(const Tensors& inputs) const;
  int insert(Trace trace);  // returns the number of new segments
  const Tensors& captured() const { return captured_; }
  std::string str() const;

 private:
  TracedValue adopt(TracedValue v, const Trace& trace);  // captured tensors get the tree's numbers
  Tensors captured_;
};

}  // namespace gluino
