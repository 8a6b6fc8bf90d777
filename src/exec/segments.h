// A program that reads values: a tree of segments. After each segment a value decides which branch follows; branches
// are added as they are met. A tree whose branches are met again has its segments compiled, each a program of its own.
#pragma once
#include "base/fork.h"
#include "exec/segment_plan.h"

namespace gluino {

struct SegmentRun {
  const Ending* ending = nullptr;  // null: the value led to a branch not seen before
  Tensors values;                  // of the ending
  std::vector<Tensors> memo;       // results of the calls that ran
};

// Several threads may run one at the same time, and one may add a branch meanwhile.
class SegmentTree {
 public:
  // Branches after one value beyond this many are not kept: the value is not a decision but data.
  static constexpr size_t kMaxBranches = 16;

  explicit SegmentTree(std::vector<Shape> shapes) : shapes_(std::move(shapes)) {}
  const std::vector<Shape>& shapes() const { return shapes_; }  // of the inputs; extents are fixed in such a program

  SegmentRun run(const Tensors& inputs);
  int insert(Trace trace);  // returns the number of new segments
  // False when something that a trace read has changed, or a tensor's owner has let go of it.
  bool is_current(const Tensors& inputs) const;
  CapturedTensors captured() const;
  bool updates_layers() const;  // operators of it update states as they run
  bool updates_leaf(const Tensors& inputs) const;
  std::string str() const;

 private:
  struct Segment {
    std::vector<TracedCall> calls;
    std::optional<TracedRead> read;  // none: the program ends here
    std::vector<std::pair<Tensor, std::unique_ptr<Segment>>> branches;
    Ending ending;
    int first = 0;                 // number of its first call
    std::set<TracedValue> needed;  // results of its calls that something after them asks for
    std::shared_ptr<SegmentPlan> plan;
  };
  std::shared_ptr<SegmentPlan> plan_of(Segment& segment);
  bool reads_what_is_written(const Segment& segment) const;
  static void note_needed(const std::vector<Segment*>& path, const Trace& trace);
  Segment* branch_of(const Segment& segment, const Tensor& now) const;
  static int count_segments(const Segment& s);
  void adopt(TracedValue& v, const Trace& trace);  // captured tensors get the tree's numbers
  void adopt(Ending::Alias& a, const Trace& trace);
  int adopted(int index, const Trace& trace);

  const std::vector<Shape> shapes_;
  mutable NoForkMutex mutex_;  // of what follows; the calls of a segment do not change once it is reached
  std::unique_ptr<Segment> root_;
  int known_runs_ = 0;  // that met no new branch, less those that did
  bool updates_layers_ = false;
  std::vector<TapePlaces> tape_places_;
  std::vector<TracedUpdate> recorded_updates_;
  std::set<TracedValue> written_;  // tensors of the caller that some ending updates
  CapturedTensors captured_;
  PointerMap<int> captured_places_;  // in it
  std::vector<SettingRead> settings_;
  std::vector<std::pair<int, std::shared_ptr<CapturedTensor>>> captured_inputs_;
};

// What a program read outside its inputs is as it was, as far as that can be seen.
bool still_holds(const std::vector<SettingRead>& settings, const CapturedTensors& captured,
                 const std::vector<std::pair<int, std::shared_ptr<CapturedTensor>>>& captured_inputs, const Tensors& inputs);

}  // namespace gluino
