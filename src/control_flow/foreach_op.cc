// _foreach. The kernel runs the body node by node. The gradient runs it again, from the last step to the first, so that
// only the states between the steps are kept.
#include "base/format.h"
#include "control_flow/loop_support.h"

namespace gluino::loops {
namespace {

struct ForeachCounts {
  ForeachCounts(const ForeachAttrs& a, size_t num_inputs)
      : data(a.in_data_locs.size()), states(a.in_state_locs.size()), rest(a.remain_locs.size()) {
    need(a.bodies.size() == 1, "one body is needed");
    need(num_inputs == data + states + rest && data > 0,
         fmt::format("{} inputs are given for {} data, {} states and {} others", num_inputs, data, states, rest));
    need(
        a.num_outputs == a.bodies[0].num_outputs() && a.num_out_data >= 0 && a.num_outputs - a.num_out_data == static_cast<int64_t>(states),
        fmt::format("it gives {} outputs for {} outputs and {} states", a.bodies[0].num_outputs(), a.num_out_data, states));
    const auto end = static_cast<size_t>(a.bodies[0].num_inputs());
    check_places(a.in_data_locs, end, "in_data_locs");
    check_places(a.in_state_locs, end, "in_state_locs");
    check_places(a.remain_locs, end, "remain_locs");
  }
  size_t data, states, rest;
};
// What the body gets, from what the operator gets: data, states, others.
template <class T>
std::vector<T> foreach_body_inputs(const ForeachAttrs& a, std::span<const T> rows, std::span<const T> states, std::span<const T> rest) {
  std::vector<T> in(a.bodies[0].num_inputs());
  auto put = [&](const OptionalInts& locs, std::span<const T> values) {
    for (size_t i = 0; i < locs.size(); ++i)
      if (locs[i]) in[*locs[i]] = values[i];
  };
  put(a.in_data_locs, rows);
  put(a.in_state_locs, states);
  put(a.remain_locs, rest);
  return in;
}
template <class T>
std::vector<T> foreach_body_inputs(const ForeachAttrs& a, const std::vector<T>& rows, const std::vector<T>& states,
                                   std::span<const T> all) {
  return foreach_body_inputs<T>(a, std::span<const T>(rows), std::span<const T>(states), all.subspan(rows.size() + states.size()));
}

std::vector<Shape> foreach_shapes(const ForeachAttrs& a, std::span<const Shape> in) {
  const ForeachCounts n(a, in.size());
  std::vector<Shape> rows, states(in.begin() + static_cast<long>(n.data), in.begin() + static_cast<long>(n.data + n.states));
  for (size_t i = 0; i < n.data; ++i) {
    if (in[i].empty()) throw ShapeError("the data is a scalar, but an axis to iterate over is needed");
    if (in[i][0] != in[0][0]) raise<ShapeError>("data 0 has {} positions, but data {} has {}", in[0][0], i, in[i][0]);
    rows.push_back(row_shape(in[i]));
  }
  std::vector<Shape> out = a.bodies[0].infer_shapes(foreach_body_inputs(a, rows, states, in));
  for (size_t i = 0; i < n.states; ++i) check_same_shape("state", i, states[i], out[a.num_out_data + i]);
  for (size_t i = 0; i < static_cast<size_t>(a.num_out_data); ++i) out[i] = with_rows(out[i], in[0][0]);
  out.push_back(trace_shape(a.num_outputs, in.size()));
  return out;
}
std::vector<DType> foreach_types(const ForeachAttrs& a, std::span<const DType> in, DType) {
  const ForeachCounts n(a, in.size());
  const std::vector<DType> rows(in.begin(), in.begin() + static_cast<long>(n.data)),
      states(in.begin() + static_cast<long>(n.data), in.begin() + static_cast<long>(n.data + n.states));
  std::vector<DType> out = a.bodies[0].infer_types(foreach_body_inputs(a, rows, states, in));
  for (size_t i = 0; i < n.states; ++i) check_same_type("state", i, states[i], out[a.num_out_data + i]);
  out.push_back(DType::int64);
  return out;
}
// Shapes of weights that the body uses follow from the data.
void complete_foreach(const ForeachAttrs& a, OptionalShapes& in, const OptionalShapes&) {
  const ForeachCounts n(a, in.size());
  OptionalShapes rows, states(in.begin() + static_cast<long>(n.data), in.begin() + static_cast<long>(n.data + n.states)), out;
  for (size_t i = 0; i < n.data; ++i) rows.push_back(in[i] && !in[i]->empty() ? std::optional(row_shape(*in[i])) : std::nullopt);
  OptionalShapes body = foreach_body_inputs<std::optional<Shape>>(a, rows, states, in);
  a.bodies[0].infer_shapes(body, out);
  for (size_t i = 0; i < n.states; ++i)
    if (a.in_state_locs[i]) in[n.data + i] = body[*a.in_state_locs[i]];
  for (size_t i = 0; i < n.rest; ++i)
    if (a.remain_locs[i]) in[n.data + n.states + i] = body[*a.remain_locs[i]];
}

LoopDependence foreach_dependence(const ForeachAttrs& a, const ForeachCounts& n, bool is_any) {
  Dependence states(n.states, n.data + n.states + n.rest);
  for (size_t i = 0; i < n.states; ++i) states.add(i, n.data + i);
  return {static_cast<size_t>(a.num_out_data), std::move(states), is_any};
}
bool add_step(LoopDependence& dependence, const ForeachAttrs& a, const Dependence& body) {
  const Dependence& states = dependence.states();
  Dependence given(a.bodies[0].num_inputs(), states.num_inputs());
  const auto put = [&](const OptionalInts& locs, size_t first) {
    for (size_t i = 0; i < locs.size(); ++i)
      if (locs[i]) given.add(*locs[i], first + i);
  };
  put(a.in_data_locs, 0);
  put(a.remain_locs, a.in_data_locs.size() + a.in_state_locs.size());
  for (size_t i = 0; i < a.in_state_locs.size(); ++i)
    if (a.in_state_locs[i]) given.add(*a.in_state_locs[i], states, i);
  return dependence.add_step(body, given);
}

void foreach_kernel(const ForeachAttrs& a, KernelContext& k) {
  const Tensors inputs = kernel_inputs(k);
  const ForeachCounts n(a, inputs.size());
  const std::span<const Tensor> all(inputs);
  ForwardRun forward(k);
  Tensors states(inputs.begin() + static_cast<long>(n.data), inputs.begin() + static_cast<long>(n.data + n.states));
  const int64_t steps = impl_of(inputs[0]).shape[0];
  std::optional<Body::Runner> run;
  LoopDependence dependence = foreach_dependence(a, n, false);
  Tensors inner;
  bool is_open = true;
  for (int64_t i = 0; i < steps; ++i) {
    const Tensors in = foreach_body_inputs(a, rows_at(all.first(n.data), i), states, all);
    if (!run) run.emplace(a.bodies[0], in);
    const Tensors out = (*run)(in, inner);
    if (is_open || a.bodies[0].has_loops()) is_open = add_step(dependence, a, a.bodies[0].dependence(inner));
    for (size_t j = 0; j < static_cast<size_t>(a.num_out_data); ++j) copy_into(out[j], row_of(k.out(static_cast<int>(j)), i));
    states.assign(out.begin() + a.num_out_data, out.end());
  }
  for (size_t j = 0; j < n.states; ++j) copy_into(states[j], k.out(static_cast<int>(static_cast<size_t>(a.num_out_data) + j)));
  forward.finish(k, steps, dependence.result());
}

// The states before every step and the random streams that it draws from, found by running the body again.
struct Replay {
  std::vector<Tensors> states;
  std::vector<RandomStream> streams;
};
Replay replay_foreach(const ForeachAttrs& a, const ForeachCounts& n, const BackwardInputs& b) {
  const std::span<const Tensor> all(b.inputs);
  const ReplayRandom random(b.inputs[0].device(), b.trace.first);
  Replay r;
  Tensors states(b.inputs.begin() + static_cast<long>(n.data), b.inputs.begin() + static_cast<long>(n.data + n.states));
  for (int64_t i = 0; i < b.trace.steps; ++i) {
    r.states.push_back(states);
    r.streams.push_back(random.next());
    if (i + 1 == b.trace.steps) break;
    const Tensors out = run_again(a.bodies[0], foreach_body_inputs(a, rows_at(all.first(n.data), i), states, all));
    states.assign(out.begin() + a.num_out_data, out.end());
  }
  return r;
}
std::vector<bool> wanted_of_body(const ForeachAttrs& a, const ForeachCounts& n, const std::vector<bool>& wanted) {
  std::vector<bool> of_body(a.bodies[0].num_inputs(), false);
  auto want = [&](const OptionalInts& locs, size_t first, bool always) {
    for (size_t i = 0; i < locs.size(); ++i)
      if (locs[i] && (always || wanted[first + i])) of_body[*locs[i]] = true;
  };
  want(a.in_data_locs, 0, false);
  want(a.in_state_locs, n.data, true);  // gradients pass through them from step to step
  want(a.remain_locs, n.data + n.states, false);
  return of_body;
}

void foreach_backward_kernel(const ForeachAttrs& a, KernelContext& k) {
  const BackwardInputs b(k, a.num_outputs);
  const ForeachCounts n(a, b.inputs.size());
  const PauseTracing pause;
  const autograd::Scope scope(false, b.trace.training);
  const std::span<const Tensor> all(b.inputs), heads_of_rows = std::span<const Tensor>(b.heads).first(static_cast<size_t>(a.num_out_data));
  const std::vector<bool> wanted = wanted_flags(a.wanted, b.inputs.size()), of_body = wanted_of_body(a, n, wanted);
  Replay replay = replay_foreach(a, n, b);
  Tensors gradients(b.inputs.size());
  for (size_t i = 0; i < n.data; ++i)
    if (wanted[i]) gradients[i] = zeros_for(b.inputs[i]);
  Tensors state_heads(b.heads.begin() + a.num_out_data, b.heads.end());
  for (int64_t i = b.trace.steps; i-- > 0;) {
    const ReplayRandom random(b.inputs[0].device(), replay.streams[i]);
    Tensors heads = rows_at(heads_of_rows, i);
    heads.insert(heads.end(), state_heads.begin(), state_heads.end());
    const Tensors in = foreach_body_inputs(a, rows_at(all.first(n.data), i), replay.states[i], all);
    const Tensors found = body_gradients(a.bodies[0], in, of_body, heads, b.trace.training);
    auto at = [&](const std::optional<int64_t>& loc) { return loc ? found[*loc] : Tensor(); };
    for (size_t j = 0; j < n.data; ++j)
      if (const Tensor g = at(a.in_data_locs[j]); wanted[j] && g.defined()) copy_into(g, row_of(gradients[j], i));
    for (size_t j = 0; j < n.states; ++j) state_heads[j] = at(a.in_state_locs[j]);
    for (size_t j = 0; j < n.rest; ++j) add_to(gradients[n.data + n.states + j], at(a.remain_locs[j]));
    replay.states.pop_back();
  }
  for (size_t j = 0; j < n.states; ++j) gradients[n.data + j] = state_heads[j];
  store_gradients(k, a.wanted, gradients);
}

Tensors unrolled_foreach(const ForeachAttrs& a, const Tensors& inputs) {
  const ForeachCounts n(a, inputs.size());
  const std::span<const Tensor> all(inputs);
  const auto split = inputs.begin() + static_cast<long>(n.data);
  auto [outputs, states] = run_foreach(
      [&](const Tensors& rows, const Tensors& before) -> TensorsPair {
        const Tensors in = foreach_body_inputs(a, rows, before, all);
        const Tensors out = Body::Runner(a.bodies[0], in)(in);
        return {Tensors(out.begin(), out.begin() + a.num_out_data), Tensors(out.begin() + a.num_out_data, out.end())};
      },
      Tensors(inputs.begin(), split), Tensors(split, split + static_cast<long>(n.states)));
  outputs.insert(outputs.end(), states.begin(), states.end());
  return outputs;
}

GLUINO_OP(_foreach, ForeachAttrs) {
  define_loop(op.doc("Runs a body for every position of the first axis of the data, with states from step to step."))
      .state_if([](const ForeachAttrs& a, int input) {
        // Asked of files whose attributes nobody has checked yet.
        const auto first = a.in_data_locs.size() + a.in_state_locs.size(), i = static_cast<size_t>(input);
        if (a.bodies.size() != 1 || i < first || i - first >= a.remain_locs.size()) return false;
        const auto& loc = a.remain_locs[i - first];
        return loc && *loc >= 0 && *loc < a.bodies[0].num_inputs() && a.bodies[0].is_state(static_cast<int>(*loc));
      })
      .shape(foreach_shapes)
      .dtype(foreach_types)
      .complete(complete_foreach)
      .kernel(foreach_kernel)
      .gradient({.all_inputs = true, .last_output = true}, [](const ForeachAttrs& a, const Gradient& g) {
        return loop_gradient(a, g, "_foreach_backward", [&](const Tensors& in, int64_t) { return unrolled_foreach(a, in); });
      });
  says_what_depends<ForeachAttrs>("_foreach", [](const ForeachAttrs& a, std::span<const Shape> in) {
    const bool is_known = !in[0].empty();
    LoopDependence dependence = foreach_dependence(a, ForeachCounts(a, in.size()), !is_known || a.bodies[0].has_loops());
    const Dependence body = a.bodies[0].dependence();
    for (int64_t step = 0; !is_known || step < in[0][0]; ++step)
      if (!add_step(dependence, a, body)) break;
    return dependence.result();
  });
}
GLUINO_OP(_foreach_backward, ForeachAttrs) { define_backward(op.doc("The gradients of _foreach.")).kernel(foreach_backward_kernel); }

}  // namespace
}  // namespace gluino::loops
