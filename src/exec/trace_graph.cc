// A traced program as one graph.
#include <algorithm>

#include "autograd/tape.h"
#include "base/format.h"
#include "exec/trace_program.h"
#include "gluino/autograd.h"

namespace gluino {

std::vector<std::string> input_names(const Tensors& inputs) {
  const auto present = std::count_if(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined(); });
  std::vector<std::string> names;
  int number = 0;
  for (const Tensor& t : inputs) names.push_back(!t.defined() ? "" : present == 1 ? "data" : fmt::format("data{}", number++));
  return names;
}

TraceGraph to_graph(Trace& t, const Tensors& inputs) {
  TraceGraph out;
  Graph& g = out.graph;
  std::vector<int> input_nodes;
  std::vector<ValueId> call_values;  // the first of each call
  out.captured_nodes.assign(t.captured.size(), -1);
  const std::vector<std::string> names = input_names(inputs);
  auto leaf = [&](const std::string& name, const Tensor& like, const Tensor& constant) {
    return g.add({.name = name, .constant = constant, .outputs = {{impl_of(like).shape, impl_of(like).dtype}}});
  };
  for (size_t i = 0; i < inputs.size(); ++i) input_nodes.push_back(inputs[i].defined() ? leaf(names[i], inputs[i], {}) : -1);
  for (const Ending::WriteBack& w : t.ending.write_backs)
    if (w.target.kind == TracedValue::Kind::captured && out.captured_nodes[w.target.index] < 0) {
      out.captured_nodes[w.target.index] = leaf(t.captured_names[w.target.index], t.captured[w.target.index]->live(), {});
      out.updated.push_back(w.target.index);
    }
  auto id = [&](const TracedValue& v) -> ValueId {
    switch (v.kind) {
      case TracedValue::Kind::input: return {input_nodes[v.index], 0};
      case TracedValue::Kind::captured: {
        int& node = out.captured_nodes[v.index];
        if (node < 0) node = leaf(t.captured_names[v.index], t.captured[v.index]->live(), t.captured[v.index]->shadow());
        return {node, 0};
      }
      case TracedValue::Kind::call: break;
    }
    return {call_values[v.index].node, call_values[v.index].index + v.output};
  };
  g.nodes.reserve(inputs.size() + t.captured.size() + t.calls.size());
  for (int number = 0; TracedCall & c : t.calls) {
    const bool is_paused = t.records ? c.mode.is_paused : t.paused_inside.contains(number);
    ++number;
    // A write that is one under pause() only because nothing is recorded: whoever records the graph later writes the new value.
    if (!t.records && autograd::is_overwrite(c.op) && !c.mode.is_paused && !is_paused) {
      call_values.push_back(id(c.inputs[1]));
      continue;
    }
    Graph::Node node = renamed<ValueId>(std::move(c), id);
    node.mode.is_paused &= is_paused;  // where nothing is recorded, what would be paused if it were
    call_values.push_back({g.add(std::move(node)), 0});
  }
  t.calls = {};
  for (const TracedValue& v : t.ending.values()) g.outputs.push_back(id(v));
  for (size_t i = 0; i < t.ending.visible; ++i) {
    const Ending::Result& r = t.ending.results[i];
    out.results.push_back(r.value || r.alias ? id(r.in_graph) : ValueId{});
  }
  for (const Trace::Guard& guard : t.guards) {
    out.guarded.push_back(id(guard.value));
    out.likes.push_back(id(guard.like.value_or(guard.value)));
  }
  return out;
}

// Its result is as much of its input as was filled: how much, only a run tells.
static bool is_filled_part(const auto& call) {
  return call.op && call.op->is_dynamic_shape && call.op->is_identity && call.op->is_identity(call.attrs.get(), false);
}
std::optional<TraceGraph> to_graph_of_file(Trace t, const Tensors& inputs) {
  const auto is_of_filled_part = [&](const TracedRead& r) {
    return r.shape_only && r.value.kind == TracedValue::Kind::call && is_filled_part(t.calls[r.value.index]);
  };
  if (!std::ranges::all_of(t.reads, is_of_filled_part)) return {};
  TraceGraph out = to_graph(t, inputs);
  std::vector<Graph::Node> nodes;
  std::vector<ValueId> places;  // of the nodes' first outputs
  const auto move = [&](ValueId& v) {
    if (v.node >= 0) v = {places[v.node].node, places[v.node].index + v.index};
  };
  for (Graph::Node& node : out.graph.nodes) {
    std::ranges::for_each(node.inputs, move);
    places.push_back(is_filled_part(node) ? node.inputs[0] : ValueId{static_cast<int>(nodes.size()), 0});
    if (!is_filled_part(node)) nodes.push_back(std::move(node));
  }
  out.graph.nodes = std::move(nodes);
  for (auto* values : {&out.graph.outputs, &out.results, &out.guarded, &out.likes}) std::ranges::for_each(*values, move);
  for (int& node : out.captured_nodes)
    if (node >= 0) node = places[node].node;
  return out;
}

std::vector<TracedValue> Ending::values() const {
  std::vector<TracedValue> all;
  for (const Result& r : results)
    if (r.value) all.push_back(*r.value);
  for (const WriteBack& w : write_backs) all.push_back(w.value);
  for (const Escaped& e : escaped) all.push_back(e.value);
  for (const Result& r : results)
    for (const PassedOn& p : r.passed_on) all.push_back(p.steps);
  return all;
}

Ending Trace::ending_before(int call) const {
  const auto has_value = [call](const TracedValue& v) { return v.kind != TracedValue::Kind::call || v.index < call; };
  Ending half;
  for (const TracedUpdate& u : updates) {
    if (u.calls_before > call) break;
    std::erase_if(half.write_backs, [&](const Ending::WriteBack& w) { return w.target == u.write.target; });
    half.write_backs.push_back(u.write);
  }
  std::ranges::copy_if(ending.escaped, std::back_inserter(half.escaped), [&](const Ending::Escaped& e) { return has_value(e.value); });
  return half;
}

bool updates_leaf(std::span<const TracedUpdate> updates, const CapturedTensors& captured, const Tensors& inputs) {
  return std::ranges::any_of(updates, [&](const TracedUpdate& u) {
    if (!u.is_recorded) return false;
    const TracedValue& v = u.write.target;
    const AutogradEntry* place = impl_of(v.kind == TracedValue::Kind::input ? inputs[v.index] : captured[v.index]->live()).autograd.get();
    return place && place->has_own_gradient();
  });
}

static TapePlaces::Place place_of(const Tensor& t) {
  if (!t.defined() || !autograd::is_on_tape(t)) return TapePlaces::Place::off;
  return autograd::entry_of(t)->is_leaf() ? TapePlaces::Place::leaf : TapePlaces::Place::computed;
}
TapePlaces TapePlaces::of(const Tensors& inputs, const CapturedTensors& captured) {
  TapePlaces places;
  for (const Tensor& t : inputs) places.inputs.push_back(place_of(t));
  for (const auto& c : captured) places.captured.emplace_back(c, place_of(c->live()));
  return places;
}
bool TapePlaces::hold(const Tensors& now) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (place_of(now[i]) != inputs[i]) return false;
  return std::ranges::all_of(captured, [](const auto& c) { return place_of(c.first->live()) == c.second; });
}

Tensors run_call(const OpDef& op, const Attrs& attrs, std::span<const TracedValue> places, Tensors inputs) {
  if (op.has_subgraphs() && mode().recording)
    for (size_t i = 0; i < inputs.size(); ++i)
      if (places[i].kind != TracedValue::Kind::call && !op.is_state_input(attrs, i)) inputs[i] = call("_copy", {inputs[i]});
  return apply(op, inputs, attrs);
}
Tensors run_call(const TracedCall& call, Tensors inputs) {
  const bool is_recorded = !call.mode.is_paused;
  std::optional<autograd::Scope> scope;
  if (call.mode.training || is_recorded != mode().recording) scope.emplace(is_recorded, call.mode.training);
  return run_call(*call.op, call.attrs, call.inputs, std::move(inputs));
}

}  // namespace gluino
