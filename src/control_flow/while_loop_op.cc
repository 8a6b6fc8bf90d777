// _while_loop and _cond: the steps that are made, or the branch that is taken, depend on values.
#include "base/format.h"
#include "control_flow/loop_support.h"

namespace gluino::loops {
namespace {

bool is_true(const Tensor& t) {
  if (impl_of(t).shape.elements() != 1) raise<ShapeError>("the condition has shape {}, but one element is needed", impl_of(t).shape);
  return t.item<double>() != 0;
}
template <class T>
std::vector<T> picked(const OptionalInts& locs, std::span<const T> all) {
  std::vector<T> out;
  for (const auto& loc : locs) out.push_back(all[*loc]);
  return out;
}
void check_all_places(const OptionalInts& locs, const Body& body, size_t num_inputs, std::string_view name) {
  need(static_cast<int>(locs.size()) == body.num_inputs(),
       fmt::format("{} names {} inputs, the body has {}", name, locs.size(), body.num_inputs()));
  for (const auto& loc : locs) need(loc.has_value(), fmt::format("{} leaves an input of the body open", name));
  check_places(locs, num_inputs, name);
}

// ---- while_loop

// Which inputs of the operator the loop variables are.
std::vector<size_t> variable_inputs(const WhileLoopAttrs& a, size_t num_inputs) {
  need(a.bodies.size() == 2, "two bodies are needed: the condition and the loop");
  check_all_places(a.cond_input_locs, a.bodies[0], num_inputs, "cond_input_locs");
  check_all_places(a.func_input_locs, a.bodies[1], num_inputs, "func_input_locs");
  check_places(a.func_var_locs, a.func_input_locs.size(), "func_var_locs");
  need(a.bodies[0].num_outputs() == 1, "the condition must give one tensor");
  need(a.num_outputs == a.bodies[1].num_outputs() && a.num_out_data >= 0 &&
           a.num_outputs - a.num_out_data == static_cast<int64_t>(a.func_var_locs.size()),
       fmt::format("it gives {} outputs for {} outputs and {} loop variables", a.bodies[1].num_outputs(), a.num_out_data,
                   a.func_var_locs.size()));
  std::vector<size_t> inputs;
  for (size_t i = 0; i < a.func_var_locs.size(); ++i) {
    const auto& loc = a.func_var_locs[i];
    inputs.push_back(loc ? static_cast<size_t>(*a.func_input_locs[*loc]) : i);
    need(inputs.back() < num_inputs, "a loop variable is missing");
  }
  return inputs;
}
// The operator's inputs with the loop variables' present values.
template <class T>
std::vector<T> current(std::span<const T> all, const std::vector<size_t>& places, const std::vector<T>& vars) {
  std::vector<T> now(all.begin(), all.end());
  for (size_t i = 0; i < places.size(); ++i) now[places[i]] = vars[i];
  return now;
}
template <class T>
std::vector<T> values_at(std::span<const T> all, const std::vector<size_t>& places) {
  std::vector<T> out;
  for (size_t p : places) out.push_back(all[p]);
  return out;
}

std::vector<Shape> while_shapes(const WhileLoopAttrs& a, std::span<const Shape> in) {
  const std::vector<size_t> places = variable_inputs(a, in.size());
  if (const Shape truth = a.bodies[0].infer_shapes(picked(a.cond_input_locs, in))[0]; truth.elements() != 1)
    raise<ShapeError>("the condition has shape {}, but one element is needed", truth);
  std::vector<Shape> out = a.bodies[1].infer_shapes(picked(a.func_input_locs, in));
  for (size_t i = 0; i < places.size(); ++i) check_same_shape("loop variable", i, in[places[i]], out[a.num_out_data + i]);
  for (size_t i = 0; i < static_cast<size_t>(a.num_out_data); ++i) out[i] = with_rows(out[i], a.max_iterations);
  out.push_back(trace_shape(a.num_outputs, in.size()));
  return out;
}
std::vector<DType> while_types(const WhileLoopAttrs& a, std::span<const DType> in, DType) {
  const std::vector<size_t> places = variable_inputs(a, in.size());
  std::vector<DType> out = a.bodies[1].infer_types(picked(a.func_input_locs, in));
  for (size_t i = 0; i < places.size(); ++i) check_same_type("loop variable", i, in[places[i]], out[a.num_out_data + i]);
  out.push_back(DType::int64);
  return out;
}
// Shapes of weights that a body uses follow from its other inputs.
void complete_from(const Body& body, const OptionalInts& locs, OptionalShapes& in) {
  OptionalShapes of_body = picked<std::optional<Shape>>(locs, in), out;
  body.infer_shapes(of_body, out);
  for (size_t i = 0; i < locs.size(); ++i) in[*locs[i]] = of_body[i];
}

LoopDependence while_dependence(const WhileLoopAttrs& a, const std::vector<size_t>& places, size_t num_inputs, bool is_any) {
  Dependence variables(places.size(), num_inputs);
  for (size_t i = 0; i < places.size(); ++i) variables.add(i, places[i]);
  return {static_cast<size_t>(a.num_out_data), std::move(variables), is_any};
}
bool add_step(LoopDependence& dependence, const WhileLoopAttrs& a, const std::vector<size_t>& places, const Dependence& body) {
  const Dependence& variables = dependence.states();
  Dependence given(a.func_input_locs.size(), variables.num_inputs());
  for (size_t i = 0; i < a.func_input_locs.size(); ++i) {
    const auto loc = static_cast<size_t>(*a.func_input_locs[i]);
    const auto variable = std::ranges::find(places, loc);
    if (variable == places.end())
      given.add(i, loc);
    else
      given.add(i, variables, variable - places.begin());
  }
  return dependence.add_step(body, given);
}

void while_kernel(const WhileLoopAttrs& a, KernelContext& k) {
  const Tensors inputs = kernel_inputs(k);
  const std::span<const Tensor> all(inputs);
  const std::vector<size_t> places = variable_inputs(a, inputs.size());
  ForwardRun forward(k);
  const Body::Runner condition(a.bodies[0], picked(a.cond_input_locs, all)), body(a.bodies[1], picked(a.func_input_locs, all));
  LoopDependence dependence = while_dependence(a, places, inputs.size(), false);
  Tensors now = inputs, inner;
  bool is_open = true;
  int64_t step = 0;
  for (; step < a.max_iterations && is_true(condition(picked<Tensor>(a.cond_input_locs, now))[0]); ++step) {
    const Tensors out = body(picked<Tensor>(a.func_input_locs, now), inner);
    if (is_open || a.bodies[1].has_loops()) is_open = add_step(dependence, a, places, a.bodies[1].dependence(inner));
    for (size_t j = 0; j < static_cast<size_t>(a.num_out_data); ++j) copy_into(out[j], row_of(k.out(static_cast<int>(j)), step));
    now = current(all, places, Tensors(out.begin() + a.num_out_data, out.end()));
  }
  for (size_t j = 0; j < static_cast<size_t>(a.num_out_data); ++j) clear_rows(k.out(static_cast<int>(j)), step);
  for (size_t j = 0; j < places.size(); ++j) copy_into(now[places[j]], k.out(static_cast<int>(static_cast<size_t>(a.num_out_data) + j)));
  forward.finish(k, step, dependence.result());
}

void while_backward_kernel(const WhileLoopAttrs& a, KernelContext& k) {
  const BackwardInputs b(k, a.num_outputs);
  const std::span<const Tensor> all(b.inputs), heads_of_rows = std::span<const Tensor>(b.heads).first(static_cast<size_t>(a.num_out_data));
  const std::vector<size_t> places = variable_inputs(a, b.inputs.size());
  const PauseTracing pause;
  const autograd::Scope scope(false, b.trace.training);
  std::vector<Tensors> before;  // the loop variables of every step
  std::vector<RandomStream> streams;
  {
    const ReplayRandom random(b.inputs[0].device(), b.trace.first);
    Tensors vars = values_at(all, places);
    for (int64_t i = 0; i < b.trace.steps; ++i) {
      const Tensors now = current(all, places, vars);
      run_again(a.bodies[0], picked<Tensor>(a.cond_input_locs, now));  // it may draw random numbers
      before.push_back(vars);
      streams.push_back(random.next());
      if (i + 1 == b.trace.steps) break;
      const Tensors out = run_again(a.bodies[1], picked<Tensor>(a.func_input_locs, now));
      vars.assign(out.begin() + a.num_out_data, out.end());
    }
  }
  std::vector<bool> wanted = wanted_flags(a.wanted, b.inputs.size()), of_body;
  for (size_t p : places) wanted[p] = true;  // gradients pass through them from step to step
  for (const auto& loc : a.func_input_locs) of_body.push_back(wanted[*loc]);
  Tensors gradients(b.inputs.size()), var_heads(b.heads.begin() + a.num_out_data, b.heads.end());
  for (int64_t i = b.trace.steps; i-- > 0;) {
    const ReplayRandom random(b.inputs[0].device(), streams[i]);
    Tensors heads = rows_at(heads_of_rows, i);
    heads.insert(heads.end(), var_heads.begin(), var_heads.end());
    const Tensors now = current(all, places, before[i]);
    const Tensors found = body_gradients(a.bodies[1], picked<Tensor>(a.func_input_locs, now), of_body, heads, b.trace.training);
    Tensors here(b.inputs.size());
    for (size_t j = 0; j < found.size(); ++j) add_to(here[*a.func_input_locs[j]], found[j]);
    for (size_t j = 0; j < places.size(); ++j) {
      var_heads[j] = here[places[j]];
      here[places[j]] = Tensor();
    }
    for (size_t j = 0; j < here.size(); ++j) add_to(gradients[j], here[j]);
  }
  for (size_t j = 0; j < places.size(); ++j) gradients[places[j]] = var_heads[j];
  store_gradients(k, a.wanted, gradients);
}

// As many steps as the forward run made; rows after the last one are 0.
Tensors unrolled_while(const WhileLoopAttrs& a, const Tensors& inputs, int64_t steps) {
  const std::span<const Tensor> all(inputs);
  const std::vector<size_t> places = variable_inputs(a, inputs.size());
  auto [outputs, vars] = run_while_loop(
      [&](const Tensors& vars) {
        run_again(a.bodies[0], picked<Tensor>(a.cond_input_locs, current(all, places, vars)));
        return ones({1});
      },
      [&](const Tensors& vars) -> TensorsPair {
        const Tensors out = run_again(a.bodies[1], picked<Tensor>(a.func_input_locs, current(all, places, vars)));
        return {Tensors(out.begin(), out.begin() + a.num_out_data), Tensors(out.begin() + a.num_out_data, out.end())};
      },
      values_at(all, places), steps);
  for (Tensor& t : outputs) {
    Shape shape = impl_of(t).shape;
    shape[0] = a.max_iterations - shape[0];
    if (shape[0] > 0) {
      const Tensor parts[] = {t, zeros(shape, {t.dtype(), t.device()})};
      t = call("Concat", parts, {{"num_args", int64_t{2}}, {"dim", int64_t{0}}});
    }
  }
  outputs.insert(outputs.end(), vars.begin(), vars.end());
  return outputs;
}

// Whether a body that reads input `input` of the operator updates it.
bool updates(const Body& body, const OptionalInts& locs, int input) {
  for (size_t i = 0; i < locs.size() && static_cast<int>(i) < body.num_inputs(); ++i)
    if (locs[i] == input && body.is_state(static_cast<int>(i))) return true;
  return false;
}

GLUINO_OP(_while_loop, WhileLoopAttrs) {
  define_loop(op.doc("Runs a body while a condition on its variables holds, at most max_iterations times."))
      .state_if([](const WhileLoopAttrs& a, int input) {
        return a.bodies.size() == 2 && (updates(a.bodies[0], a.cond_input_locs, input) || updates(a.bodies[1], a.func_input_locs, input));
      })
      .shape(while_shapes)
      .dtype(while_types)
      .kernel(while_kernel)
      .complete([](const WhileLoopAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        variable_inputs(a, in.size());
        complete_from(a.bodies[0], a.cond_input_locs, in);
        complete_from(a.bodies[1], a.func_input_locs, in);
      })
      .gradient({.all_inputs = true, .last_output = true}, [](const WhileLoopAttrs& a, const Gradient& g) {
        return loop_gradient(a, g, "_while_loop_backward", [&](const Tensors& in, int64_t steps) { return unrolled_while(a, in, steps); });
      });
  says_what_depends<WhileLoopAttrs>("_while_loop", [](const WhileLoopAttrs& a, std::span<const Shape> in) {
    const std::vector<size_t> places = variable_inputs(a, in.size());
    LoopDependence dependence = while_dependence(a, places, in.size(), true);
    const Dependence body = a.bodies[1].dependence();
    while (add_step(dependence, a, places, body)) {}
    return dependence.result();
  });
}
GLUINO_OP(_while_loop_backward, WhileLoopAttrs) { define_backward(op.doc("The gradients of _while_loop.")).kernel(while_backward_kernel); }

GLUINO_OP(_while_loop_rows, NoAttrs) {
  op.doc("The rows that _while_loop has made: those before the first step that it did not make.")
      .input("data")
      .input("trace")
      .own_dtype()
      .dtypes(DTypeSet::any)
      .dynamic_shape()
      .identity_if([](const auto&, bool) { return true; })
      .refuses_values()
      .kernel([](const NoAttrs&, KernelContext& k) {
        Shape shape = k.in(0).shape();
        const Shape trace = k.in(1).shape();
        need(shape.ndim() > 0 && trace.ndim() == 1 && trace[0] >= LoopTrace::kNumbers, "these are no results of a loop");
        const autograd::Scope off_tape(false, std::nullopt);
        const int64_t steps = LoopTrace::load(k.in(1).astype(DType::int64)).steps;
        need(steps >= 0 && steps <= shape[0], "these are no results of a loop");
        shape[0] = steps;
        Tensor out = make_tensor(shape, k.in(0).dtype(), k.in(0).device());
        std::memcpy(bytes_of(out), bytes_of(k.in(0)), shape.elements() * dtype_bytes(out.dtype()));
        k.set_out(0, out);
      })
      .gradient({},
                [](const Gradient& g) -> Tensors {
                  return {call("_slice_backward", {g.head(), g.like(0)}, {{"begin", OptionalInts{0}}}), Tensor()};
                })
      .sample_without_gradient({{3, 2}, SampleInput({4}, 1, 2, true)});
}

// ---- cond

void check_cond(const CondAttrs& a, size_t num_inputs) {
  need(a.bodies.size() == 3, "three bodies are needed: the condition and two branches");
  check_all_places(a.cond_input_locs, a.bodies[0], num_inputs, "cond_input_locs");
  check_all_places(a.then_input_locs, a.bodies[1], num_inputs, "then_input_locs");
  check_all_places(a.else_input_locs, a.bodies[2], num_inputs, "else_input_locs");
  need(a.bodies[0].num_outputs() == 1, "the condition must give one tensor");
  need(a.num_outputs == a.bodies[1].num_outputs() && a.num_outputs == a.bodies[2].num_outputs(),
       "the branches give another number of tensors than num_outputs");
}
const OptionalInts& branch_locs(const CondAttrs& a, bool first) { return first ? a.then_input_locs : a.else_input_locs; }
const Body& branch_body(const CondAttrs& a, bool first) { return a.bodies[first ? 1 : 2]; }
Dependence branch_dependence(const CondAttrs& a, bool first, const Tensors& inner, size_t num_inputs) {
  const OptionalInts& locs = branch_locs(a, first);
  Dependence given(locs.size(), num_inputs);
  for (size_t i = 0; i < locs.size(); ++i) given.add(i, *locs[i]);
  return branch_body(a, first).dependence(inner).through(given);
}

std::vector<Shape> cond_shapes(const CondAttrs& a, std::span<const Shape> in) {
  check_cond(a, in.size());
  if (const Shape truth = a.bodies[0].infer_shapes(picked(a.cond_input_locs, in))[0]; truth.elements() != 1)
    raise<ShapeError>("the condition has shape {}, but one element is needed", truth);
  std::vector<Shape> yes = a.bodies[1].infer_shapes(picked(a.then_input_locs, in));
  const std::vector<Shape> no = a.bodies[2].infer_shapes(picked(a.else_input_locs, in));
  for (size_t i = 0; i < yes.size(); ++i)
    if (!(yes[i] == no[i]))
      raise<ShapeError>("output {} has shape {} in the first branch and {} in the second; they must be the same", i, yes[i], no[i]);
  yes.push_back(trace_shape(a.num_outputs, in.size()));
  return yes;
}
std::vector<DType> cond_types(const CondAttrs& a, std::span<const DType> in, DType) {
  check_cond(a, in.size());
  std::vector<DType> yes = a.bodies[1].infer_types(picked(a.then_input_locs, in));
  const std::vector<DType> no = a.bodies[2].infer_types(picked(a.else_input_locs, in));
  for (size_t i = 0; i < yes.size(); ++i)
    if (yes[i] != no[i])
      raise<DTypeError>("output {} is {} in the first branch and {} in the second; they must be the same", i, yes[i], no[i]);
  yes.push_back(DType::int64);
  return yes;
}

void cond_kernel(const CondAttrs& a, KernelContext& k) {
  const Tensors inputs = kernel_inputs(k);
  check_cond(a, inputs.size());
  ForwardRun forward(k);
  Tensors inner;
  auto run = [&](const Body& body, const OptionalInts& locs) {
    const Tensors in = picked<Tensor>(locs, inputs);
    return Body::Runner(body, in)(in, inner);
  };
  const bool first = is_true(run(a.bodies[0], a.cond_input_locs)[0]);
  const Tensors out = run(branch_body(a, first), branch_locs(a, first));
  for (size_t i = 0; i < out.size(); ++i) copy_into(out[i], k.out(static_cast<int>(i)));
  forward.finish(k, first ? 1 : 0, branch_dependence(a, first, inner, inputs.size()));
}

void cond_backward_kernel(const CondAttrs& a, KernelContext& k) {
  const BackwardInputs b(k, a.num_outputs);
  const PauseTracing pause;
  const autograd::Scope scope(false, b.trace.training);
  const ReplayRandom random(b.inputs[0].device(), b.trace.first);
  run_again(a.bodies[0], picked<Tensor>(a.cond_input_locs, b.inputs));  // it may draw random numbers
  const bool first = b.trace.steps != 0;
  const OptionalInts& locs = branch_locs(a, first);
  const std::vector<bool> wanted = wanted_flags(a.wanted, b.inputs.size());
  std::vector<bool> of_body;
  for (const auto& loc : locs) of_body.push_back(wanted[*loc]);
  const Tensors found = body_gradients(branch_body(a, first), picked<Tensor>(locs, b.inputs), of_body, b.heads, b.trace.training);
  Tensors gradients(b.inputs.size());
  for (size_t i = 0; i < found.size(); ++i) add_to(gradients[*locs[i]], found[i]);
  store_gradients(k, a.wanted, gradients);
}

GLUINO_OP(_cond, CondAttrs) {
  define_loop(op.doc("Runs one of two bodies, by the value that a third one gives."))
      .state_if([](const CondAttrs& a, int input) {
        return a.bodies.size() == 3 && (updates(a.bodies[0], a.cond_input_locs, input) || updates(a.bodies[1], a.then_input_locs, input) ||
                                        updates(a.bodies[2], a.else_input_locs, input));
      })
      .shape(cond_shapes)
      .dtype(cond_types)
      .kernel(cond_kernel)
      .complete([](const CondAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        check_cond(a, in.size());
        complete_from(a.bodies[0], a.cond_input_locs, in);
        complete_from(a.bodies[1], a.then_input_locs, in);
        complete_from(a.bodies[2], a.else_input_locs, in);
      })
      .gradient({.all_inputs = true, .last_output = true}, [](const CondAttrs& a, const Gradient& g) {
        return loop_gradient(a, g, "_cond_backward", [&](const Tensors& in, int64_t first) {
          run_again(a.bodies[0], picked<Tensor>(a.cond_input_locs, in));
          return run_again(branch_body(a, first != 0), picked<Tensor>(branch_locs(a, first != 0), in));
        });
      });
  says_what_depends<CondAttrs>("_cond", [](const CondAttrs& a, std::span<const Shape> in) {
    Dependence either = branch_dependence(a, true, {}, in.size());
    const Dependence second = branch_dependence(a, false, {}, in.size());
    for (size_t o = 0; o < second.num_outputs(); ++o) either.add(o, second, o);
    return either;
  });
}
GLUINO_OP(_cond_backward, CondAttrs) { define_backward(op.doc("The gradients of _cond.")).kernel(cond_backward_kernel); }

}  // namespace
}  // namespace gluino::loops
