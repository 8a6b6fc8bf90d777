// HybridCache::Impl: which program answers a call. Shared by hybrid.cc (calls), verify.cc and report.cc (what it has done).
#pragma once
#include <list>

#include "base/fork.h"
#include "exec/program.h"

namespace gluino {

class HybridCache::Impl {
 public:
  Impl(HybridOptions o, NameOf n) : options(o), name_of(std::move(n)) {}

  Result call(const Function& function, const Tensors& inputs, const std::string& structure, std::span<const Tensor> destinations);
  // Runs both ways from the same state, compares results, gradients, tensors that were written, and random numbers drawn.
  Result verified(const std::shared_ptr<Compiled>& c, const Function& function, const Tensors& inputs);
  std::shared_ptr<Compiled> latest_plan() const;  // raises UserError when there is none
  // What is exported: the last one, or where that one trains, the last of the same arguments that predicts. Raises UserError when there is
  // none and the function does something else in training.
  std::shared_ptr<Compiled> predicting_plan() const;
  void clear();

  const HybridOptions options;
  const NameOf name_of;
  mutable NoForkMutex mutex;  // of all below; never held while user code or an operator runs
  HybridStats stats;
  std::list<std::shared_ptr<TracedProgram>> programs;  // most recently used first, as in the following
  std::list<std::shared_ptr<Compiled>> plans;
  struct Tree {
    Signature signature;
    std::shared_ptr<SegmentTree> tree;
  };
  std::list<Tree> trees;
  std::shared_ptr<Compiled> latest;
  struct Refused {
    Signature signature;
    std::string why;
  };
  std::list<Refused> refused;  // calls that no program can make

 private:
  struct Found {
    std::shared_ptr<Compiled> compiled;
    std::shared_ptr<SegmentTree> tree;
    std::shared_ptr<TracedProgram> program;  // without a plan for these shapes
  };
  Result call_here(const Function& function, const Tensors& inputs, const std::string& structure, std::span<const Tensor> destinations);
  Found find(const Tensors& inputs, const std::string& structure);
  std::shared_ptr<TracedProgram> find_program(const Tensors& inputs, const std::string& structure);
  Result run_found(const Found& found, const Function& function, const Tensors& inputs);
  Result run_plan(const std::shared_ptr<Compiled>& c, const Function& function, const Tensors& inputs,
                  std::span<const Tensor> destinations = {});
  static Result fail_as_eager(const Compiled& c, const Function& function, const Tensors& inputs, const RandomStream& first);
  Result run_program(const std::shared_ptr<TracedProgram>& p, const Function& function, const Tensors& inputs);
  Result run_tree(SegmentTree& tree, const Function& function, const Tensors& inputs);
  Result trace_and_run(const Function& function, const Tensors& inputs, const std::string& structure);
  void keep(std::shared_ptr<TracedProgram> program);
  void keep(std::shared_ptr<Compiled> plan);
  void keep(Signature signature, std::shared_ptr<SegmentTree> tree);
  void keep_for_files(const Signature& signature, const Trace& t, const Tensors& inputs);
  void refuse(const Signature& signature, const std::string& why);
  std::string why_not_made(const std::function<void()>& make) const;
  void give_up(const TracedProgram& program, const std::string& why);
  bool is_worth_tracing(const Signature& signature);
  bool deserves_plan(TracedProgram& program, const Tensors& inputs);

  PerProcessMutex trace_mutex_;  // one trace at a time; calls that have a program do not wait for it
  int wasted_traces_ = 0;        // rises with traces, falls with calls that need none
};

}  // namespace gluino
