#include "exec/trace_program.h"

#include <unordered_map>

#include "base/format.h"
#include "dispatch/mode.h"
#include "gluino/autograd.h"

namespace gluino {
namespace {

// A copy that later in-place updates do not reach.
Tensor snapshot(const Tensor& t) {
  const PauseTracing pause;
  const autograd::Scope scope(false, std::nullopt);
  return t.copy();
}

class ProgramTracer final : public Tracer {
 public:
  ProgramTracer(const Tensors& inputs, const HybridCache::NameOf& name_of, bool strict, std::vector<Tensors> memo, Mode outside)
      : inputs_(inputs), name_of_(name_of), strict_(strict), memo_(std::move(memo)), outside_(outside) {
    const std::vector<std::string> names = input_names(inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) {
        symbolic_.emplace_back();
        continue;
      }
      const detail::TensorImpl& t = impl_of(inputs[i]);
      symbolic_.push_back(add_input(names[i], t.shape, t.dtype, t.device));
      places_[value_of(symbolic_.back()).node.get()] = {TracedValue::Kind::input, static_cast<int>(i)};
    }
  }
  const Tensors& symbolic() const { return symbolic_; }

  std::string name_for(const Tensor& concrete) override {
    std::string name = name_of_ ? name_of_(concrete) : "";
    if (name.empty()) name = fmt::format("captured{}", captured().size());
    return name;
  }
  std::string name_for_call(const OpDef& op) override {
    std::string hint;
    for (char c : op.name) hint += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    while (hint.starts_with('_')) hint.erase(0, 1);
    return fmt::format("{}{}", hint, counters_[hint]++);
  }

  Tensor read_value(const Tensor& symbolic) override {
    const Value v = value_of(symbolic);
    if (strict_)
      raise<UserError>(
          "the value of '{}' is read while the function is being traced, and strict was asked for; keep the decision in the graph "
          "with where, cond, foreach or while_loop, or hybridize without strict",
          output_name(v.node->op, v.node->attrs, v.node->name, v.index));
    run_pending();
    const TracedValue place = locate(v);
    const Tensor value = concrete(place);
    reads_.push_back({static_cast<int>(calls().size()), place, snapshot(value), false});
    return value;
  }
  Tensors run_dynamic(const Value& call) override {
    if (strict_)
      raise<UserError>("{}: the shape of its result depends on values, which a strict trace cannot express", call.node->op->name);
    run_pending();
    const TracedValue place = locate(call);
    const Tensors results = memo_[place.index];
    reads_.push_back({static_cast<int>(calls().size()), place, snapshot(results[0]), true});
    return results;
  }

  Trace finish(const Tensors& outputs) {
    Trace t;
    t.reads = reads_;
    std::vector<Value> ends;
    for (const Tensor& o : outputs) ends.push_back(o.is_symbolic() ? value_of(o) : capture(o));
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].defined() && !(locate(value_of(symbolic_[i])) == TracedValue{TracedValue::Kind::input, static_cast<int>(i)}))
        t.write_backs.emplace_back(TracedValue{TracedValue::Kind::input, static_cast<int>(i)}, locate(value_of(symbolic_[i])));
    for (auto& [tensor, value] : end_rebinding()) t.write_backs.emplace_back(locate(capture(tensor)), locate(value));
    for (const Value& v : ends) t.outputs.push_back(locate(v));
    for (const Value& c : calls()) {
      TracedCall call{c.node->op, c.node->attrs, c.node->name, {}};
      for (const Value& v : c.node->inputs) call.inputs.push_back(locate(v));
      t.calls.push_back(std::move(call));
    }
    for (const ShapeRead& r : shape_reads()) t.guards.push_back({locate(r.value), r.axis, r.shape});
    if (!reads_.empty()) {
      run_pending();
      for (const TracedValue& v : t.outputs) t.results.push_back(concrete(v));
      t.memo = memo_;
    }
    for (const auto& [tensor, value] : captured()) {
      t.captured.push_back(tensor);
      t.captured_names.push_back(value.node->name);
    }
    return t;
  }

 private:
  TracedValue locate(const Value& v) {
    index_new_calls();
    TracedValue place;
    if (v.node->constant.defined() && !v.node->op) {
      for (size_t k = 0; k < captured().size(); ++k)
        if (captured()[k].second.node == v.node) place = {TracedValue::Kind::captured, static_cast<int>(k)};
    } else {
      const auto it = places_.find(v.node.get());
      if (it == places_.end())
        raise<UserError>(
            "'{}' was computed in an earlier trace, or inside the body of foreach, while_loop or cond, and is used outside; let the body "
            "return it",
            v.node->name);
      place = it->second;
    }
    place.output = v.index;
    return place;
  }
  void index_new_calls() {
    for (; indexed_ < calls().size(); ++indexed_)
      places_[calls()[indexed_].node.get()] = {TracedValue::Kind::call, static_cast<int>(indexed_)};
  }
  Tensor concrete(const TracedValue& v) const {
    switch (v.kind) {
      case TracedValue::Kind::input: return inputs_[v.index];
      case TracedValue::Kind::captured: return captured()[v.index].first;
      case TracedValue::Kind::call: break;
    }
    return memo_[v.index][v.output];
  }
  // Runs, exactly once each and in order, the calls recorded so far.
  void run_pending() {
    const PauseTracing pause;
    const autograd::Scope scope(outside_.recording, outside_.training);
    while (memo_.size() < calls().size()) {
      const GraphNode& node = *calls()[memo_.size()].node;
      Tensors in;
      for (const Value& v : node.inputs) in.push_back(concrete(locate(v)));
      memo_.push_back(apply(*node.op, in, node.attrs));
    }
  }

  const Tensors& inputs_;
  const HybridCache::NameOf& name_of_;
  bool strict_;
  std::vector<Tensors> memo_;
  Mode outside_;
  Tensors symbolic_;
  std::unordered_map<const GraphNode*, TracedValue> places_;
  size_t indexed_ = 0;
  std::vector<TracedRead> reads_;
  std::map<std::string, int> counters_;
};

}  // namespace

std::vector<std::string> input_names(const Tensors& inputs) {
  const auto present = std::count_if(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined(); });
  std::vector<std::string> names;
  int number = 0;
  for (const Tensor& t : inputs) names.push_back(!t.defined() ? "" : present == 1 ? "data" : fmt::format("data{}", number++));
  return names;
}

Trace trace(const HybridCache::Function& function, const Tensors& inputs, const HybridCache::NameOf& name_of, bool strict,
            std::vector<Tensors> memo) {
  const Mode outside = mode();
  ProgramTracer tracer(inputs, name_of, strict, std::move(memo), outside);
  return tracer.finish(function(tracer.symbolic()));
}

TraceGraph to_graph(const Trace& t, const Tensors& inputs) {
  TraceGraph out;
  Graph& g = out.graph;
  std::vector<int> input_nodes, captured_nodes(t.captured.size(), -1), call_nodes;
  const std::vector<std::string> names = input_names(inputs);
  auto leaf = [&](const std::string& name, const Tensor& t, const Tensor& constant) {
    Graph::Node node;
    node.name = name;
    node.constant = constant;
    node.outputs = {{impl_of(t).shape, impl_of(t).dtype}};
    return g.add(std::move(node));
  };
  for (size_t i = 0; i < inputs.size(); ++i) input_nodes.push_back(inputs[i].defined() ? leaf(names[i], inputs[i], {}) : -1);
  auto id = [&](const TracedValue& v) -> ValueId {
    switch (v.kind) {
      case TracedValue::Kind::input: return {input_nodes[v.index], 0};
      case TracedValue::Kind::captured: {
        int& node = captured_nodes[v.index];
        if (node < 0) node = leaf(t.captured_names[v.index], t.captured[v.index], t.captured[v.index]);
        return {node, 0};
      }
      case TracedValue::Kind::call: break;
    }
    return {call_nodes[v.index], v.output};
  };
  for (const TracedCall& c : t.calls) {
    Graph::Node node{c.op, c.name, c.attrs, {}, {}, {}, {}};
    for (const TracedValue& v : c.inputs) node.inputs.push_back(id(v));
    node.outputs.resize(c.op->num_outputs(c.attrs));
    call_nodes.push_back(g.add(std::move(node)));
  }
  for (const TracedValue& v : t.outputs) g.outputs.push_back(id(v));
  for (const auto& [target, value] : t.write_backs) g.outputs.push_back(id(value));
  for (const Trace::Guard& guard : t.guards) out.guarded.push_back(id(guard.value));
  return out;
}

}  // namespace gluino
