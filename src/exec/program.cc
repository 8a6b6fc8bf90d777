#include "exec/program.h"

#include <unordered_set>
#include <utility>

#include "autograd/row_gradient.h"
#include "dispatch/dependent_outputs.h"
#include "dispatch/infer.h"
#include "dispatch/overwrite.h"
#include "dispatch/random.h"
#include "exec/value_flow.h"
#include "gluino/autograd.h"
#include "graph/interpret.h"

namespace gluino {
namespace {

using TensorSet = std::unordered_set<const detail::TensorImpl*>;

// Whether a tensor of `targets` shares memory with another of the list, in which a tensor may stand several times.
bool is_target_shared(const Tensors& tensors, const TensorSet& targets) {
  struct Piece {
    const char *begin, *end;
    bool is_target;
  };
  std::vector<Piece> pieces;
  TensorSet seen;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || !seen.insert(tensor.impl().get()).second) continue;
    const detail::TensorImpl& t = impl_of(tensor);
    const int64_t bytes = t.shape.elements() * dtype_bytes(t.dtype);
    if (t.storage && bytes > 0) pieces.push_back({t.data, t.data + bytes, targets.contains(&t)});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return std::less<>()(a.begin, b.begin); });
  const char *end = nullptr, *end_of_targets = nullptr;  // of what began before
  for (const Piece& p : pieces) {
    if (std::less<>()(p.begin, p.is_target ? end : end_of_targets)) return true;
    end = std::max(end, p.end, std::less<>());
    if (p.is_target) end_of_targets = std::max(end_of_targets, p.end, std::less<>());
  }
  return false;
}

// An estimate is enough: it decides how many plans are kept.
int64_t bytes_of_plan(const CompiledGraph& g, bool static_alloc) {
  constexpr int64_t kPerNode = 700, kPerStep = 900;
  const auto nodes = static_cast<int64_t>(g.before.nodes.size() + g.after.nodes.size());
  return nodes * kPerNode + static_cast<int64_t>(g.plan.steps.size()) * kPerStep + (static_alloc ? g.plan.arena_bytes : 0);
}

Graph without_input_info(const Graph& graph) {
  Graph g = graph;
  for (auto& node : g.nodes)
    if (node.is_variable()) node.outputs[0] = {};
  return g;
}

// By node of the traced graph: what variables and captured tensors are now.
std::vector<Tensor> leaf_values(const TracedProgram& p, const Tensors& inputs) {
  std::vector<Tensor> values(p.traced.graph.nodes.size());
  const Tensors variables = variables_of(p, inputs);
  for (size_t n = 0, next = 0; next < variables.size(); ++n)
    if (p.traced.graph.nodes[n].is_variable()) values[n] = variables[next++];
  for (size_t k = 0; k < p.trace.captured.size(); ++k)
    if (const int n = p.traced.captured_nodes[k]; n >= 0 && !values[n].defined()) values[n] = p.trace.captured[k]->live();
  return values;
}

}  // namespace

bool draws_random(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Graph::Node& n) { return n.op && n.op->draws_random(n.attrs); });
}

bool updates_layers(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Graph::Node& n) { return n.may_update_states(); });
}

bool have_overlaps(const Tensors& inputs) {
  if (inputs.size() < 2) return false;
  TensorSet all;
  for (const Tensor& t : inputs) all.insert(t.impl().get());
  return is_target_shared(inputs, all);
}

CompileRequest TracedProgram::request_for(const Tensors& inputs) const {
  CompileRequest r;
  const std::vector<std::string> names = input_names(inputs);
  const auto add = [&](const std::string& name, const Tensor& t) {
    r.shapes[name] = impl_of(t).shape;
    r.types[name] = impl_of(t).dtype;
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) add(names[i], inputs[i]);
  for (int k : traced.updated) add(trace.captured_names[k], trace.captured[k]->live());
  r.training = signature.training;
  return r;
}

// Forwards alone, call by call, as the trace did: this is asked for every new set of shapes, and all inputs are known. Most calls read
// what they read the first time, when another extent is that of a cache that grows, and then give what they gave.
bool TracedProgram::guards_hold(const Tensors& inputs) const {
  const Graph& g = traced.graph;
  const bool is_first = first_shapes.empty();
  std::vector<std::vector<Shape>> first(is_first ? g.nodes.size() : 0), other(g.nodes.size());
  const std::vector<std::vector<Shape>>& known = is_first ? first : first_shapes;
  const auto shape_of = [&](ValueId v) -> const Shape& { return (other[v.node].empty() ? known : other)[v.node][v.index]; };
  const Tensors variables = variables_of(*this, inputs);
  std::vector<Shape> in;
  size_t next = 0;
  try {
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      const Graph::Node& n = g.nodes[i];
      if (!n.op) {
        const Shape& shape = impl_of(n.is_variable() ? variables[next++] : n.constant).shape;
        if (is_first)
          first[i] = {shape};
        else if (!(shape == known[i][0]))
          other[i] = {shape};
        continue;
      }
      if (n.op->is_dynamic_shape) return false;
      if (!is_first && std::ranges::all_of(n.inputs, [&](ValueId v) { return other[v.node].empty(); })) continue;
      in.clear();
      for (ValueId v : n.inputs) in.push_back(shape_of(v));
      infer_shapes(*n.op, n.attrs, in, is_first ? first[i] : other[i]);
      if (!is_first && other[i] == known[i]) other[i].clear();
    }
  } catch (const UserError&) {
    return false;  // another trace may do something else with these shapes, or explain what is wrong
  }
  for (size_t i = 0; i < trace.guards.size(); ++i) {
    const Trace::Guard& guard = trace.guards[i];
    const Shape &shape = shape_of(traced.guarded[i]), &needed = guard.like ? shape_of(traced.likes[i]) : guard.shape;
    if (guard.axis < 0 ? !(shape == needed) : shape[guard.axis] != needed[guard.axis]) return false;
  }
  if (is_first) first_shapes = std::move(first);
  return true;
}

bool TracedProgram::has_refused_updates(const Tensors& inputs) const {
  if (trace.updates.empty() && trace.ending.write_backs.empty()) return false;
  if (updates_leaf(trace.updates, trace.captured, inputs)) return true;
  TensorSet targets, given;
  for (const Ending::WriteBack& w : trace.ending.write_backs)
    targets.insert(
        (w.target.kind == TracedValue::Kind::input ? inputs[w.target.index] : trace.captured[w.target.index]->live()).impl().get());
  for (const Tensor& t : inputs) given.insert(t.impl().get());
  Tensors all = inputs;
  for (const auto& c : trace.captured) {
    // The same tensor as an input, and not known as one when it was traced.
    const detail::TensorImpl* live = c->live().impl().get();
    if (targets.contains(live) && given.contains(live)) return true;
    all.push_back(c->live());
  }
  return is_target_shared(all, targets);
}

std::vector<bool> wanted_gradients(const TracedProgram& p, const Tensors& inputs) {
  std::vector<bool> wanted;
  if (!p.trace.records) return wanted;
  for (const Tensor& t : inputs) wanted.push_back(on_tape(t));
  for (size_t k = 0; k < p.trace.captured.size(); ++k)
    wanted.push_back(p.traced.captured_nodes[k] >= 0 && on_tape(p.trace.captured[k]->live()));
  if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) wanted.clear();
  return wanted;
}

std::shared_ptr<Compiled> Compiled::make(const std::shared_ptr<TracedProgram>& program, const Tensors& inputs, bool static_alloc) {
  auto c = std::make_shared<Compiled>();
  c->program = program;
  c->shapes = Signature::shapes_of(inputs);
  c->wanted = wanted_gradients(*program, inputs);
  CompileRequest request = program->request_for(inputs);
  const std::vector<std::string> names = input_names(inputs);
  for (size_t i = 0; i < c->wanted.size(); ++i)
    if (c->wanted[i]) {
      const bool is_input = i < inputs.size();
      request.wanted_gradients.push_back(is_input ? names[i] : program->trace.captured_names[i - inputs.size()]);
      const Tensor& source = is_input ? inputs[i] : program->trace.captured[i - inputs.size()]->live();
      request.as_rows.push_back(autograd::keeps_rows(source));
      c->input_metas.push_back(autograd::meta_of(source));
    }
  Graph graph = without_input_info(program->traced.graph);
  if (!c->wanted.empty()) c->loops = find_loops(graph);
  for (int n : c->loops) graph.outputs.push_back({n, static_cast<int>(graph.nodes[n].outputs.size()) - 1});
  c->graph = compile(std::move(graph), request);
  c->is_on_tape = outputs_on_tape(*c);
  const std::vector<bool> is_state = find_states(c->graph.before);
  std::vector<bool> is_source(is_state.size(), false);  // which is kept for each call
  for (size_t i = inputs.size(); i < c->wanted.size(); ++i)
    if (c->wanted[i]) is_source[program->traced.captured_nodes[i - inputs.size()]] = true;
  for (size_t n = 0; n < is_state.size(); ++n)
    if (const Graph::Node& node = c->graph.before.nodes[n]; node.is_constant() && !is_state[n] && !is_source[n])
      c->constants.push_back(node.constant);
  c->bytes = bytes_of_plan(c->graph, static_alloc);
  c->runner = std::make_unique<PlanRunner>(std::move(c->graph.plan), static_alloc);
  c->draws_random = gluino::draws_random(c->graph.before);
  c->updates_layers = gluino::updates_layers(c->graph.before);
  return c;
}

std::vector<bool> outputs_on_tape(const Compiled& c, std::span<const Tensor> hidden) {
  const Graph& g = c.graph.before;
  const ValueFlow flow(g, c.loops, hidden);
  ValueFlow::Set on_tape = flow.none();
  for (int n : source_nodes_of(c)) on_tape.add_all(n);
  for (size_t n = 0; n < g.nodes.size(); ++n)
    if (g.nodes[n].op && !g.nodes[n].mode.is_paused) flow.follow(on_tape, static_cast<int>(n), g.nodes[n].inputs.size());
  std::vector<bool> outputs;
  for (ValueId v : g.outputs) outputs.push_back(on_tape.has(v));
  return outputs;
}

bool Compiled::serves(const Tensors& inputs, const std::string& structure) const {
  if (!program->signature.fits(inputs, shapes, structure)) return false;
  if (program->trace.records) {
    const CapturedTensors& captured = program->trace.captured;
    const auto is_wanted = [&](size_t i) { return !wanted.empty() && wanted[i]; };
    for (size_t i = 0; i < inputs.size(); ++i)
      if (is_wanted(i) != on_tape(inputs[i])) return false;
    for (size_t k = 0; k < captured.size(); ++k)
      if (is_wanted(inputs.size() + k) != (program->traced.captured_nodes[k] >= 0 && on_tape(captured[k]->live()))) return false;
  }
  return program->holds(inputs);
}

Tensors variables_of(const TracedProgram& p, const Tensors& inputs) {
  Tensors out;
  for (const Tensor& t : inputs)
    if (t.defined()) out.push_back(t);
  for (int k : p.traced.updated) {
    // A handle of its own: the tensor itself takes another value when the run is over.
    const Tensor& live = p.trace.captured[k]->live();
    out.push_back(make_view(live, impl_of(live).shape, 0));
    if (on_tape(live)) impl_of(out.back()).autograd = impl_of(live).autograd;
  }
  return out;
}

// Results that the program computes come first among its values; the others are copies or aliases and need no memory.
static Tensors value_destinations(const Ending& e, std::span<const Tensor> destinations) {
  Tensors out;
  for (size_t i = 0; i < std::min(e.results.size(), destinations.size()); ++i)
    if (const auto& v = e.results[i].value) out.push_back(v->kind == TracedValue::Kind::call ? destinations[i] : Tensor());
  return out;
}

HybridCache::Result run_compiled(Compiled& c, const Tensors& inputs, std::span<const Tensor> destinations) {
  const TracedProgram& p = *c.program;
  Tensors values;
  if (c.wanted.empty()) {
    const autograd::Scope scope(false, std::nullopt);
    PlanRunner::Run run(*c.runner);
    values = run.forward(variables_of(p, inputs), c.graph.num_outputs, value_destinations(p.trace.ending, destinations));
  } else {
    values = run_recorded(c, inputs);
  }
  return finish_run(p.trace.ending, std::move(values), inputs, p.trace.captured);
}

// As run_call() does: what a recorded loop was given may change before it is read again.
static void copy_inputs_of_loops(const Graph& g, std::vector<Tensor>& leaves) {
  std::vector<bool> is_read(leaves.size(), false);
  const std::vector<bool> is_state = find_states(g);
  for (const Graph::Node& n : g.nodes)
    if (n.op && n.op->has_subgraphs())
      for (ValueId v : n.inputs) is_read[v.node] = !is_state[v.node];
  for (size_t n = 0; n < leaves.size(); ++n)
    if (is_read[n] && leaves[n].defined()) leaves[n] = call("_copy", {leaves[n]});
}

HybridCache::Result run_interpreted(const TracedProgram& p, const Tensors& inputs) {
  std::vector<Tensor> leaves = leaf_values(p, inputs);
  if (mode().recording) copy_inputs_of_loops(p.traced.graph, leaves);
  return finish_run(p.trace.ending, interpret(p.traced.graph, std::move(leaves)), inputs, p.trace.captured);
}

static void put_value(const Tensor& symbolic, const Tensor& value) {
  detail::TensorImpl& to = impl_of(symbolic);
  const detail::TensorImpl& from = impl_of(value);
  to.symbolic = nullptr;
  to.view = nullptr;
  to.storage = from.storage;
  to.data = from.data;
  to.autograd = from.autograd;
  to.trace_it_was_made_in = 0;  // it has an owner
  to.next_version();
}

// As the update in forward did: a recorded one puts the target where the value is on the tape, or takes it off; one under pause()
// writes memory. No node comes between target and value, because it would outlive what backward releases.
static void write_back(Tensor target, const Tensor& value, const Ending::WriteBack& w) {
  const Ref<AutogradEntry> place = impl_of(target).autograd;
  const bool is_leaf = place && place->has_own_gradient();
  if (w.is_overwrite && (is_leaf || (!place && !on_tape(value)))) {
    const autograd::Scope paused(false, std::nullopt);
    return overwrite(target, value.detach());
  }
  const autograd::Scope scope(w.is_recorded && !is_leaf && mode().recording, std::nullopt);
  Tensor own = value.detach();
  if (mode().recording) {
    own = own.copy();
    if (on_tape(value)) impl_of(own).autograd = impl_of(value).autograd;
  }
  replace_value(target, own);
}

// steps: that loops and branches have made, for what they may have passed on.
static void make_aliases(const Ending& e, std::span<const Tensor> steps, const Tensors& inputs, const CapturedTensors& captured,
                         Tensors& results) {
  std::vector<const Ending::Alias*> aliases;
  size_t next = 0;
  for (const Ending::Result& r : e.results) {
    aliases.push_back(r.alias ? &*r.alias : nullptr);
    for (const Ending::PassedOn& p : r.passed_on)
      if (p.when.holds(steps_made(steps[next++]))) aliases.back() = &p.alias;
  }
  // What one result is another may tell.
  const auto make = [&](auto&& self, size_t i) -> const Tensor& {
    const Ending::Alias* const a = std::exchange(aliases[i], nullptr);
    if (!a) return results[i];
    const Tensor own = std::exchange(results[i], a->of == Ending::Alias::Of::input      ? inputs[a->index]
                                                 : a->of == Ending::Alias::Of::captured ? captured[a->index]->live()
                                                                                        : self(self, static_cast<size_t>(a->index)));
    for (const auto& view : a->views) results[i] = view(results[i]);
    if (e.results[i].alias && own.defined() && on_tape(own)) impl_of(results[i]).autograd = impl_of(own).autograd;
    return results[i];
  };
  for (size_t i = 0; i < results.size(); ++i) make(make, i);
}

HybridCache::Result finish_run(const Ending& e, Tensors values, const Tensors& inputs, const CapturedTensors& captured) {
  const auto outside = [&](const TracedValue& v) -> const Tensor& {
    return v.kind == TracedValue::Kind::input ? inputs[v.index] : captured[v.index]->live();
  };
  size_t next = 0;
  Tensors results(e.results.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (const auto& v = e.results[i].value) {
      results[i] = values[next++];
      if (v->kind == TracedValue::Kind::call) continue;
      const autograd::Scope scope(false, std::nullopt);
      results[i] = results[i].detach().copy();  // a constant stays what it is, whatever the caller does with the result
    }
  for (const Ending::WriteBack& w : e.write_backs) {
    write_back(outside(w.target), values[next], w);
    ++next;
  }
  for (const Ending::Escaped& s : e.escaped) {
    const Tensor& value = s.value.kind == TracedValue::Kind::call ? values[next] : outside(s.value);
    put_value(s.view ? s.view->live() : s.made, value);
    ++next;
  }
  if (std::ranges::any_of(e.results, [](const Ending::Result& r) { return r.alias || !r.passed_on.empty(); }))
    make_aliases(e, std::span(values).subspan(next), inputs, captured, results);
  for (const auto& action : e.actions) action();
  results.resize(e.visible);
  return {std::move(results), e.rest};
}

}  // namespace gluino
