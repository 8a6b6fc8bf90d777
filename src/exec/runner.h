// PlanRunner: runs a Plan. The arena is borrowed from the pool for one run, or kept until backward has run.
#pragma once
#include <atomic>
#include <memory>

#include "dispatch/prepared_call.h"
#include "exec/derived_values.h"

namespace gluino {

class PlanRunner {
 public:
  PlanRunner(Plan plan, bool keep_arena);
  ~PlanRunner();

  // One run in progress: tensors of all slots over one arena. Returned to the runner when it dies.
  class Run {
   public:
    Run(PlanRunner& runner);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    // Variables in the plan's order; null where they are given later (head gradients). destinations: tensors whose memory the
    // outputs may have, whatever their own shapes are; null where fresh memory is wanted.
    Tensors forward(std::span<const Tensor> variables, int num_outputs, std::span<const Tensor> destinations = {});
    // Head gradients are the variables from position `first` on; what needs only those that are not `given`, which are zeros, is left out.
    // `retain`: backward may be asked again.
    // destinations: memory for each output from `first_output` on, null where fresh memory is wanted. `ready`, where given, is called with
    // the number of such an output when its destination holds it and no later step reads or writes it.
    Tensors backward(std::span<const Tensor> heads, const std::vector<bool>& given, int first, int first_output, bool retain,
                     std::span<const Tensor> destinations, const std::function<void(size_t)>& ready = nullptr);
    // Memory outside the arena that backward will read, with how often it had been written when forward was over.
    struct Read {
      Tensor tensor;
      uint64_t writes;
      int node;                // of the graph that was planned
      std::vector<int> parts;  // of the plan, that read it
    };
    std::vector<Read> read_by_backward() const;

   private:
    friend class PlanRunner;
    struct State;
    PlanRunner& runner_;
    std::unique_ptr<State> state_;
  };

  const Plan& plan() const { return plan_; }
  // By part of the backward pass whether it is left out; empty: none is.
  std::vector<bool> left_out(const std::vector<bool>& given_heads) const;
  // The part that gives an output of the backward pass; -1: it is a head itself, or known before.
  int part_of_output(size_t output) const { return output_parts_[output]; }
  // What each step took when the first runs were timed; empty before, 0 for steps that have not run.
  std::vector<double> step_microseconds() const;

 private:
  friend class Run;
  // What a run goes through step by step lies together, so that a long plan touches little memory that it does not need.
  struct Call {
    PreparedCall prepared;
    size_t first;  // of its arguments: inputs, then outputs
    uint32_t inputs, outputs;
  };
  void fetch_ahead(const Run::State& state, int step, int last) const;
  void run_steps(Run::State& state, int first, int last, const std::vector<bool>& left_out, std::vector<double>* times) const;
  Plan plan_;
  const Device device_ = current_device();
  std::vector<Call> calls_;                             // beside plan_.steps
  std::vector<std::shared_ptr<DerivedValue>> derived_;  // beside plan_.derived
  bool keep_arena_;
  std::vector<size_t> first_place_;      // per slot, and at the end, in
  std::vector<size_t> places_;           // where its tensor stands among the arguments of all steps
  std::vector<int> last_use_;            // per root: the last step that reads or writes its memory
  std::vector<std::vector<int>> views_;  // per root: the other slots on its memory
  std::vector<int> viewed_constants_;    // roots that have views
  // Roots outside the arena that backward reads, and by which parts of it.
  std::vector<std::pair<int, std::vector<int>>> backward_reads_;
  std::vector<int> output_parts_;       // per output
  std::vector<int> callers_, results_;  // slots: what belongs to the caller after a run, and the roots of it that get fresh memory
  std::atomic<int> runs_{0};
  std::vector<double> step_microseconds_;  // under the mutex
  mutable NoForkMutex mutex_;
  std::vector<std::unique_ptr<Run::State>> idle_;
};

}  // namespace gluino
