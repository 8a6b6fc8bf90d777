// What the operators behind foreach, while_loop and cond share: running bodies off the tape, running them again for
// gradients, and what they say about themselves.
#pragma once
#include <algorithm>

#include "autograd/tape.h"
#include "control_flow/loops.h"
#include "dispatch/dependent_outputs.h"
#include "dispatch/mode.h"
#include "dispatch/random.h"
#include "gluino/autograd.h"

namespace gluino::loops {

inline constexpr int64_t kMaxOutputs = 1 << 16;  // files may ask for more, which no body has

// What the forward run leaves for the backward one, in a hidden output, int64: four numbers, and behind them which inputs each output
// came to depend on.
struct LoopTrace {
  bool training = false;
  int64_t steps = 0;     // for cond: 1 when the first branch ran
  RandomStream first{};  // the first random stream that was drawn

  static constexpr int64_t kNumbers = 4;
  static LoopTrace load(const Tensor& t);
  void store(Tensor& t, Dependence of_run) const;
};
Shape trace_shape(int64_t num_outputs, size_t num_inputs);
Dependence dependence_in(const Tensor& trace, size_t num_outputs, size_t num_inputs);

// Which inputs of a loop its outputs depend on, step by step, as eager code comes to know it: first come `rows` outputs, of which each step
// gives one row, then the states that go from step to step.
class LoopDependence {
 public:
  // is_any: of a run of so many or fewer steps.
  LoopDependence(size_t rows, Dependence states, bool is_any);
  const Dependence& states() const { return states_; }
  // given: what the body's inputs depend on in this step. False: it has changed nothing, so that more steps of a body that is always the
  // same will not.
  bool add_step(const Dependence& body, const Dependence& given);
  Dependence result() const;

 private:
  Dependence rows_, states_;
  bool is_any_;
};

// Bodies run for real, off the tape, and draw streams that follow each other, so that they can be drawn again.
class ForwardRun {
 public:
  explicit ForwardRun(KernelContext& k);
  void finish(KernelContext& k, int64_t steps, Dependence of_run);

 private:
  Device device_;
  PauseTracing pause_;
  autograd::Scope off_tape_;
  LoopTrace trace_;
  std::optional<ReplayRandom> random_;
};

// ---- tensors by step
Shape row_shape(const Shape& s);
Tensor row_of(const Tensor& t, int64_t i);
Tensors rows_at(std::span<const Tensor> tensors, int64_t step);
void copy_into(const Tensor& from, const Tensor& to);
void clear_rows(Tensor& t, int64_t first);  // from row `first` on
Tensor zeros_for(const Tensor& like);
void add_to(Tensor& sum, const Tensor& t);
Tensors kernel_inputs(const KernelContext& k);

// Runs a body a second time: states, which the first run updated, are copied.
Tensors run_again(const Body& body, Tensors inputs);
// Gradients of one run of a body with respect to the wanted inputs; null where nothing flows.
Tensors body_gradients(const Body& body, Tensors inputs, const std::vector<bool>& wanted, const Tensors& heads, bool training);

// ---- checks of what a file may hold
void need(bool ok, std::string_view what);
void check_places(const OptionalInts& locs, size_t end, std::string_view name);
void check_same_shape(const char* role, size_t i, const Shape& before, const Shape& after);
void check_same_type(const char* role, size_t i, DType before, DType after);
Shape with_rows(const Shape& row, int64_t rows);

// What a gradient operator reads: heads, inputs of the forward operator, its LoopTrace.
struct BackwardInputs {
  BackwardInputs(const KernelContext& k, int64_t num_outputs);
  LoopTrace trace;
  Tensors heads, inputs;
};
// Where gradients go: null ones are zeros.
void store_gradients(KernelContext& k, const std::vector<int>& wanted, const Tensors& gradients);
std::vector<bool> wanted_flags(const std::vector<int>& wanted, size_t count);
// On the tape, when the gradient is itself differentiated.
Tensors tape_gradients(const Tensors& outputs, const Tensors& variables, const Tensors& heads, const LoopTrace& trace);

// Gradients by an operator of their own; unrolled(inputs, steps) gives the outputs on the tape.
template <class A, class Unrolled>
Tensors loop_gradient(const A& a, const Gradient& g, std::string_view backward, Unrolled&& unrolled) {
  const auto num_outputs = static_cast<int>(a.num_outputs);
  Tensors heads, inputs, variables, result(static_cast<size_t>(g.num_inputs()));
  for (int i = 0; i < num_outputs; ++i) heads.push_back(g.head(i));
  auto attrs = std::make_shared<A>(a);
  for (int i = 0; i < g.num_inputs(); ++i) {
    inputs.push_back(g.in(i));
    if (!g.wants(i) || !is_floating(impl_of(g.like(i)).dtype)) continue;
    attrs->wanted.push_back(i);
    variables.push_back(g.in(i));
  }
  if (variables.empty()) return result;
  const Tensor& trace = g.out(num_outputs);
  Tensors found;
  if (mode().recording && !trace.is_symbolic()) {
    const LoopTrace t = LoopTrace::load(trace);
    const ReplayRandom random(trace.device(), t.first);
    const autograd::Scope scope(true, t.training);
    // One input may be computed from another, whose gradient is not to hold what flows through the first: that is added outside.
    for (size_t i = 0; i < variables.size(); ++i) {
      Tensor& input = inputs[static_cast<size_t>(attrs->wanted[i])];
      input = variables[i] = call("_copy", {input});
    }
    found = tape_gradients(unrolled(inputs, t.steps), variables, heads, t);
  } else {
    heads.insert(heads.end(), inputs.begin(), inputs.end());
    heads.push_back(trace);
    found = apply(OpRegistry::global().get(backward), heads, attrs);
  }
  for (size_t i = 0; i < found.size(); ++i) result[attrs->wanted[i]] = found[i];
  return result;
}

template <class A>
bool any_random(const A& a) {
  for (size_t i = 0; i < a.bodies.size(); ++i)
    if (a.bodies[i].draws_random()) return true;
  return false;
}

// What all three forward operators say about themselves.
template <class A>
OpBuilder<A>& define_loop(OpBuilder<A>& op) {
  return op.variadic("data")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .mode_dependent()
      .subgraphs(&A::bodies)
      .hidden_outputs(1)
      .num_outputs([](const A& a) { return std::clamp<int64_t>(a.num_outputs, 0, kMaxOutputs) + 1; })
      .random_if([](const A& a) { return any_random(a); });
}
// Which inputs the outputs depend on: what the run has found, or what any run may find.
template <class A, class OfAnyRun>
void says_what_depends(const std::string& op, OfAnyRun&& of_any_run) {
  says_dependent_outputs(op, [of_any_run](const void* attrs, std::span<const Shape> in, const Tensor& hidden) {
    const A& a = *static_cast<const A*>(attrs);
    return hidden.defined() ? dependence_in(hidden, static_cast<size_t>(a.num_outputs), in.size()) : of_any_run(a, in);
  });
}

// And all three gradients. The bodies' random numbers are drawn again, not anew.
template <class A>
OpBuilder<A>& define_backward(OpBuilder<A>& op) {
  const auto pick = [](const A& a, auto in) {
    std::vector<std::decay_t<decltype(in[0])>> out;
    for (int i : a.wanted) out.push_back(in[a.num_outputs + i]);
    return out;
  };
  return op.variadic("data")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .subgraphs(&A::bodies)
      .num_outputs([](const A& a) { return a.wanted.size(); })
      .shape([pick](const A& a, std::span<const Shape> in) { return pick(a, in); })
      .dtype([pick](const A& a, std::span<const DType> in, DType) { return pick(a, in); })
      .not_differentiable("higher derivatives of a loop are computed on the tape, step by step");
}

}  // namespace gluino::loops
