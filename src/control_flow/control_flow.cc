// foreach, while_loop and cond as functions: loops over eager operators, or the recording of one node.
#include "gluino/control_flow.h"

#include "base/format.h"
#include "control_flow/loops.h"
#include "dispatch/mode.h"
#include "dispatch/untraceable.h"

namespace gluino {
namespace {

bool is_symbolic_call(std::initializer_list<const Tensors*> groups) {
  if (mode().tracing) return true;
  for (const Tensors* group : groups)
    for (const Tensor& t : *group)
      if (t.is_symbolic()) return true;
  return false;
}

void check_defined(const char* what, const char* role, const Tensors& tensors) {
  for (const Tensor& t : tensors)
    if (!t.defined()) raise<UserError>("{}: {} holds a null tensor", what, role);
}

bool knows_shape(const Tensor& t) { return !impl_of(t).symbolic || impl_of(t).symbolic->has_shape; }

// What goes into a loop must come out of it: as many, of the same shapes and dtypes.
void check_states(const char* what, const char* role, const Tensors& before, const Tensors& after) {
  if (before.size() != after.size())
    raise<UserError>("{}: the body returns {} {}s, but it was given {}", what, after.size(), role, before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    if (!after[i].defined()) raise<UserError>("{}: the body returns a null tensor as {} {}", what, role, i);
    if (!knows_shape(before[i]) || !knows_shape(after[i])) continue;
    const detail::TensorImpl &b = impl_of(before[i]), &a = impl_of(after[i]);
    if (!(b.shape == a.shape))
      raise<ShapeError>("{}: {} {} has shape {}, but the body returns shape {}; it must stay the same", what, role, i, b.shape, a.shape);
    if (b.dtype != a.dtype)
      raise<DTypeError>("{}: {} {} is {}, but the body returns {}; it must stay the same", what, role, i, b.dtype, a.dtype);
  }
}

// Row i of a tensor for all i at once: one operator, so that the gradient is one too.
Tensors rows_of(const Tensor& t, int64_t count) {
  const bool is_vector = impl_of(t).shape.ndim() == 1;
  const Tensor in[] = {t};
  Tensors rows = call_all("SliceChannel", in, {{"num_outputs", count}, {"axis", int64_t{0}}, {"squeeze_axis", !is_vector}});
  if (is_vector)
    for (Tensor& r : rows) r = r.reshape({});
  return rows;
}
Tensor stacked(Tensors rows) {
  const auto count = static_cast<int64_t>(rows.size());
  if (!impl_of(rows[0]).shape.empty()) return call("stack", rows, {{"num_args", count}, {"axis", int64_t{0}}});
  for (Tensor& r : rows) r = r.reshape({1});
  return call("Concat", rows, {{"num_args", count}, {"dim", int64_t{0}}});
}

// Outputs of all steps, by step.
Tensors stacked_outputs(const char* what, const std::vector<Tensors>& steps) {
  Tensors out;
  for (size_t j = 0; j < steps[0].size(); ++j) {
    Tensors rows;
    for (const Tensors& step : steps) {
      if (step.size() != steps[0].size())
        raise<UserError>("{}: the body returns {} outputs in one step and {} in another", what, steps[0].size(), step.size());
      if (!step[j].defined()) raise<UserError>("{}: the body returns a null tensor as output {}", what, j);
      rows.push_back(step[j]);
    }
    out.push_back(stacked(std::move(rows)));
  }
  return out;
}
// No step was made: a recorded body still says what the outputs would look like.
Tensors empty_outputs(const RecordedBody& body, size_t count) {
  Tensors out;
  for (size_t j = 0; j < count; ++j) {
    const detail::TensorImpl& t = impl_of(body.outputs[j]);
    Shape shape = t.shape;
    shape.insert(0, 0);
    out.push_back(make_tensor(shape, t.dtype, t.device));
  }
  return out;
}

std::vector<BodyInput> body_inputs(const std::string& role, const Tensors& tensors, bool is_slice) {
  std::vector<BodyInput> inputs;
  for (size_t i = 0; i < tensors.size(); ++i) inputs.push_back({fmt::format("{}{}", role, i), tensors[i], is_slice});
  return inputs;
}

int64_t loop_length(const Tensors& data) {
  for (const Tensor& t : data) {
    if (t.ndim() == 0) throw ShapeError("foreach: the data is a scalar, but an axis to iterate over is needed");
    if (t.extent(0) != data[0].extent(0))
      raise<ShapeError>("foreach: data 0 has {} positions, but another one has {}", data[0].extent(0), t.extent(0));
  }
  return data[0].extent(0);
}

RecordedBody record_foreach(const ForeachBody& body, const Tensors& data, const Tensors& states, size_t& num_out_data) {
  std::vector<BodyInput> inputs = body_inputs("data", data, true);
  for (BodyInput& s : body_inputs("state", states, false)) inputs.push_back(std::move(s));
  return record_body("foreach", inputs, [&](const Tensors& in) {
    const auto split = in.begin() + static_cast<long>(data.size());
    const Tensors before(split, in.end());
    auto [outputs, after] = body(Tensors(in.begin(), split), before);
    check_states("foreach", "state", states, after);
    num_out_data = outputs.size();
    outputs.insert(outputs.end(), after.begin(), after.end());
    return outputs;
  });
}

// The recorded operator's results: outputs of all steps, then states.
TensorsPair split_results(const Tensors& all, size_t first, size_t second) {
  const auto middle = all.begin() + static_cast<long>(first);
  return {Tensors(all.begin(), middle), Tensors(middle, middle + static_cast<long>(second))};
}

// Results that may be tensors which the bodies were given or found.
class PassedOn {
 public:
  explicit PassedOn(const Tensors& results) : results_(results), tracer_(Tracer::current()) {}

  void by_branches(const RecordedBody& yes, const RecordedBody& no) const {
    for (size_t i = 0; tracer_ && i < yes.passed_on.size(); ++i) {
      add(i, yes.passed_on[i], {.from = 1});
      add(i, no.passed_on[i], {.from = 0});
    }
  }
  // The states are the last results, and as many inputs of the body from `first_input` on. Without a step they are what they were.
  void by_loop(const RecordedBody& body, const Tensors& states, size_t first_input, bool may_make_none) const {
    const size_t first = body.passed_on.size() - states.size();
    // Which state this one was a step before.
    const auto before = [&](size_t k) -> std::optional<size_t> {
      const std::optional<int64_t> given = body.given_outputs[first + k];
      const bool is_state = given && *given >= static_cast<int64_t>(first_input);  // else a row of the data
      return is_state ? std::optional(static_cast<size_t>(*given) - first_input) : std::nullopt;
    };
    for (size_t k = 0; tracer_ && k < states.size(); ++k) {
      add(first + k, {{states[k], states[k]}}, {.from = 0}, may_make_none);
      std::vector<size_t> were{k};  // by how many steps before
      while (const std::optional<size_t> earlier = before(were.back())) {
        const auto known = std::ranges::find(were, *earlier);
        if (known == were.end()) {
          were.push_back(*earlier);
          continue;
        }
        const auto steps = static_cast<int64_t>(were.size()), every = steps - (known - were.begin());
        for (int64_t n = 1; n <= steps; ++n) {
          const Tensor& state = states[n < steps ? were[n] : *earlier];
          add(first + k, {{state, state}}, {.from = n, .every = n > steps - every ? every : 0});
        }
        were.clear();
        break;
      }
      for (size_t n = 1; n < were.size(); ++n) add(first + k, {{states[were[n]], states[were[n]]}}, {.from = static_cast<int64_t>(n)});
      if (!were.empty()) add(first + k, body.passed_on[first + were.back()], {.from = static_cast<int64_t>(were.size()), .every = 1});
    }
  }

 private:
  void add(size_t result, std::vector<Tracer::PossibleAlias> aliases, StepsWhen when, bool is_likely = true) const {
    for (Tracer::PossibleAlias& alias : aliases) {
      alias.steps = value_of(results_.back());
      alias.when = when;
      tracer_->on_possible_alias(results_[result], std::move(alias), is_likely);
    }
  }
  const Tensors& results_;
  Tracer* const tracer_;
};

TensorsPair foreach_node(const ForeachBody& body, const Tensors& data, const Tensors& states) {
  size_t num_out_data = 0;
  const RecordedBody r = record_foreach(body, data, states, num_out_data);
  Tensors inputs = data;
  inputs.insert(inputs.end(), states.begin(), states.end());
  inputs.insert(inputs.end(), r.free.begin(), r.free.end());
  auto a = std::make_shared<ForeachAttrs>();
  a->num_args = static_cast<int64_t>(inputs.size()) + 1;  // MXNet counts the body
  a->num_outputs = static_cast<int64_t>(num_out_data + states.size());
  a->num_out_data = static_cast<int64_t>(num_out_data);
  a->in_data_locs.assign(r.inputs.begin(), r.inputs.begin() + static_cast<long>(data.size()));
  a->in_state_locs.assign(r.inputs.begin() + static_cast<long>(data.size()), r.inputs.end());
  a->remain_locs.assign(r.free_places.begin(), r.free_places.end());
  a->bodies = std::vector<Symbol>{r.symbol};
  const Tensors all = apply(OpRegistry::global().get("_foreach"), inputs, a);
  PassedOn(all).by_loop(r, states, data.size(), !knows_shape(data[0]) || impl_of(data[0]).shape[0] == 0);
  return split_results(all, num_out_data, states.size());
}

// Inputs of an operator whose bodies read tensors from outside: each such tensor once.
class SharedInputs {
 public:
  explicit SharedInputs(Tensors given) : tensors_(std::move(given)), given_(tensors_.size()) {}
  const Tensors& tensors() const { return tensors_; }
  // Which input of the operator each input of the body is, when the body's own inputs are the given ones.
  OptionalInts places(const RecordedBody& body) {
    OptionalInts locs(variable_nodes(body.symbol).size());
    for (size_t i = 0; i < body.inputs.size(); ++i)
      if (body.inputs[i]) locs[*body.inputs[i]] = static_cast<int64_t>(i);
    for (size_t i = 0; i < body.free.size(); ++i) locs[body.free_places[i]] = place(body.free[i]);
    return locs;
  }

 private:
  int64_t place(const Tensor& t) {
    for (size_t i = given_; i < tensors_.size(); ++i)
      if (tensors_[i].is_same(t) || (tensors_[i].is_symbolic() && t.is_symbolic() && value_of(tensors_[i]) == value_of(t)))
        return static_cast<int64_t>(i);
    tensors_.push_back(t);
    return static_cast<int64_t>(tensors_.size()) - 1;
  }
  Tensors tensors_;
  size_t given_;
};

Tensors one_truth_value(const char* what, const Tensor& t) {
  if (!t.defined()) raise<UserError>("{}: the condition is a null tensor", what);
  if (knows_shape(t) && impl_of(t).shape.elements() != 1)
    raise<ShapeError>("{}: the condition has shape {}, but one element is needed", what, impl_of(t).shape);
  return {t};
}
bool is_true(const char* what, const Tensor& t) { return static_cast<bool>(one_truth_value(what, t)[0]); }

RecordedBody record_loop_body(const LoopBody& func, const Tensors& vars, size_t& num_out_data) {
  return record_body("while_loop", body_inputs("var", vars, false), [&](const Tensors& in) {
    auto [outputs, after] = func(in);
    check_states("while_loop", "loop variable", vars, after);
    num_out_data = outputs.size();
    outputs.insert(outputs.end(), after.begin(), after.end());
    return outputs;
  });
}

TensorsPair while_loop_node(const LoopCondition& cond, const LoopBody& func, const Tensors& vars, int64_t max_iterations) {
  size_t num_out_data = 0;
  const RecordedBody condition = record_body("while_loop", body_inputs("var", vars, false),
                                             [&](const Tensors& in) { return one_truth_value("while_loop", cond(in)); });
  const RecordedBody body = record_loop_body(func, vars, num_out_data);
  SharedInputs inputs(vars);
  auto a = std::make_shared<WhileLoopAttrs>();
  a->num_outputs = static_cast<int64_t>(num_out_data + vars.size());
  a->num_out_data = static_cast<int64_t>(num_out_data);
  a->max_iterations = max_iterations;
  a->cond_input_locs = inputs.places(condition);
  a->func_input_locs = inputs.places(body);
  a->func_var_locs = body.inputs;
  a->num_args = static_cast<int64_t>(inputs.tensors().size()) + 2;
  a->bodies = std::vector<Symbol>{condition.symbol, body.symbol};
  Tensors all = apply(OpRegistry::global().get("_while_loop"), inputs.tensors(), a);
  PassedOn(all).by_loop(body, vars, 0, true);
  // As many rows as there were steps, as in eager code. A body has no way to find out how many, nor has a graph of symbols.
  if (Tracer* tracer = Tracer::current(); tracer && num_out_data > 0 && tracer->outermost().is_program()) {
    if (tracer != &tracer->outermost()) throw UserError("while_loop: a body gives as many rows as there were steps");
    for (size_t i = 0; i < num_out_data; ++i) all[i] = call("_while_loop_rows", {all[i], all.back()});
  }
  return split_results(all, num_out_data, vars.size());
}

Tensors cond_node(const LoopCondition& pred, const Branch& then_func, const Branch& else_func, const Tensors& given) {
  const std::vector<BodyInput> in = body_inputs("input", given, false);
  const RecordedBody condition = record_body("cond", in, [&](const Tensors& x) { return one_truth_value("cond", pred(x)); });
  const RecordedBody yes = record_body("cond", in, then_func), no = record_body("cond", in, else_func);
  if (yes.outputs.size() != no.outputs.size())
    raise<UserError>("cond: then_func returns {} tensors, else_func {}; they must be as many", yes.outputs.size(), no.outputs.size());
  SharedInputs inputs(given);
  auto a = std::make_shared<CondAttrs>();
  a->num_outputs = static_cast<int64_t>(yes.outputs.size());
  a->cond_input_locs = inputs.places(condition);
  a->then_input_locs = inputs.places(yes);
  a->else_input_locs = inputs.places(no);
  a->num_args = static_cast<int64_t>(inputs.tensors().size()) + 3;
  a->bodies = std::vector<Symbol>{condition.symbol, yes.symbol, no.symbol};
  Tensors out = apply(OpRegistry::global().get("_cond"), inputs.tensors(), a);
  PassedOn(out).by_branches(yes, no);
  out.resize(yes.outputs.size());
  return out;
}

}  // namespace

TensorsPair run_foreach(const ForeachBody& body, const Tensors& data, const Tensors& init_states) {
  const int64_t length = loop_length(data);
  if (length == 0) {
    size_t num_out_data = 0;
    const RecordedBody r = record_foreach(body, data, init_states, num_out_data);
    return {empty_outputs(r, num_out_data), init_states};
  }
  std::vector<Tensors> rows, outputs;
  for (const Tensor& t : data) rows.push_back(rows_of(t, length));
  Tensors states = init_states;
  for (int64_t i = 0; i < length; ++i) {
    Tensors slices;
    for (const Tensors& r : rows) slices.push_back(r[i]);
    auto [out, after] = body(slices, states);
    check_states("foreach", "state", init_states, after);
    outputs.push_back(std::move(out));
    states = std::move(after);
  }
  return {stacked_outputs("foreach", outputs), states};
}

TensorsPair run_while_loop(const LoopCondition& cond, const LoopBody& func, const Tensors& loop_vars, int64_t max_iterations) {
  Tensors vars = loop_vars;
  std::vector<Tensors> outputs;
  while (static_cast<int64_t>(outputs.size()) < max_iterations && is_true("while_loop", cond(vars))) {
    auto [out, after] = func(vars);
    check_states("while_loop", "loop variable", loop_vars, after);
    outputs.push_back(std::move(out));
    vars = std::move(after);
  }
  if (!outputs.empty()) return {stacked_outputs("while_loop", outputs), vars};
  size_t num_out_data = 0;
  const RecordedBody r = record_loop_body(func, loop_vars, num_out_data);
  return {empty_outputs(r, num_out_data), vars};
}

// A body that reads values cannot be a graph, nor one that updates tensors from outside, fails, or gives other shapes in another branch. In
// a program of segments the loop then becomes part of the segments: it does what eager code does, and fails where that does.
template <class Node, class Loop>
static auto as_node_or_loop(Node&& node, Loop&& loop) {
  Tracer* const tracer = Tracer::current();
  const int failed_before = tracer ? tracer->outermost().failed_calls : 0;
  try {
    return node();
  } catch (const Untraceable&) {
    throw;
  } catch (const std::exception&) {
    if (!tracer) throw;
    tracer->outermost().failed_calls = failed_before;  // not one that user code has caught
  }
  return loop();
}

TensorsPair foreach (const ForeachBody& body, const Tensors& data, const Tensors& init_states) {
  if (data.empty()) throw UserError("foreach: there is no data to iterate over");
  check_defined("foreach", "the data", data);
  check_defined("foreach", "the states", init_states);
  if (!is_symbolic_call({&data, &init_states})) return run_foreach(body, data, init_states);
  return as_node_or_loop([&] { return foreach_node(body, data, init_states); }, [&] { return run_foreach(body, data, init_states); });
}

TensorsPair while_loop(const LoopCondition& cond, const LoopBody& func, const Tensors& loop_vars, int64_t max_iterations) {
  if (loop_vars.empty()) throw UserError("while_loop: there is no loop variable, so the condition could never change");
  if (max_iterations < 0) raise<UserError>("while_loop: max_iterations is {}, but it cannot be negative", max_iterations);
  check_defined("while_loop", "the loop variables", loop_vars);
  if (!is_symbolic_call({&loop_vars})) return run_while_loop(cond, func, loop_vars, max_iterations);
  return as_node_or_loop([&] { return while_loop_node(cond, func, loop_vars, max_iterations); },
                         [&] { return run_while_loop(cond, func, loop_vars, max_iterations); });
}

Tensors cond(const LoopCondition& pred, const Branch& then_func, const Branch& else_func, const Tensors& inputs) {
  check_defined("cond", "the inputs", inputs);
  auto choose = [&] { return is_true("cond", pred(inputs)) ? then_func(inputs) : else_func(inputs); };
  if (!is_symbolic_call({&inputs})) return choose();
  return as_node_or_loop([&] { return cond_node(pred, then_func, else_func, inputs); }, choose);
}
Tensors cond(const Tensor& pred, const std::function<Tensors()>& then_func, const std::function<Tensors()>& else_func) {
  return cond([](const Tensors& in) { return in[0]; }, [&](const Tensors&) { return then_func(); },
              [&](const Tensors&) { return else_func(); }, {pred});
}

}  // namespace gluino
