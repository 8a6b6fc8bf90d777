#include "control_flow/body.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "dispatch/mode.h"
#include "graph/interpret.h"
#include "graph/observe.h"

namespace gluino {

// ---- running

Body::Body(Symbol symbol) : symbol_(std::move(symbol)) {
  auto graph = std::make_shared<Graph>(graph_in_call_order(symbol_, variables_));
  const std::vector<bool> states = find_states(*graph);
  for (int v : variables_) is_state_.push_back(states[v]);
  for (size_t n = 0; n < graph->nodes.size(); ++n)
    if (const OpDef* op = graph->nodes[n].op; op && dependence_rule_of(*op)) loops_.push_back(static_cast<int>(n));
  graph_ = std::move(graph);
  if (loops_.empty()) dependence_ = dependence();
}

bool Body::draws_random() const {
  return std::any_of(graph_->nodes.begin(), graph_->nodes.end(), [](const Graph::Node& n) { return n.op && n.op->draws_random(n.attrs); });
}

Dependence Body::dependence(std::span<const Tensor> inner) const {
  if (dependence_) return *dependence_;
  std::vector<Dependence> of_nodes;  // one output, or those of a loop
  for (const Graph::Node& node : graph_->nodes)
    of_nodes.emplace_back(node.op && dependence_rule_of(*node.op) ? node.outputs.size() : 1, variables_.size());
  for (size_t i = 0; i < variables_.size(); ++i) of_nodes[variables_[i]].add(0, i);
  const auto add_value = [&](Dependence& to, size_t output, ValueId v) {
    const Dependence& from = of_nodes[v.node];
    to.add(output, from, from.num_outputs() == 1 ? 0 : static_cast<size_t>(v.index));
  };
  size_t next = 0;
  for (size_t n = 0; n < graph_->nodes.size(); ++n) {
    const Graph::Node& node = graph_->nodes[n];
    const DependenceRule* rule = node.op ? dependence_rule_of(*node.op) : nullptr;
    const Tensor hidden = rule && next < inner.size() ? inner[next++] : Tensor();
    if (!node.op || node.mode.is_paused) continue;
    if (!rule) {
      for (ValueId v : node.inputs) add_value(of_nodes[n], 0, v);
      continue;
    }
    Dependence given(node.inputs.size(), variables_.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) add_value(given, i, node.inputs[i]);
    const Dependence visible = (*rule)(node.attrs.get(), std::vector<Shape>(node.inputs.size()), hidden).through(given);
    for (size_t o = 0; o < visible.num_outputs(); ++o) of_nodes[n].add(o, visible, o);
  }
  Dependence result(graph_->outputs.size(), variables_.size());
  for (size_t o = 0; o < graph_->outputs.size(); ++o) add_value(result, o, graph_->outputs[o]);
  return result;
}

void Body::infer_shapes(OptionalShapes& in, OptionalShapes& out) const {
  Graph g = *graph_;
  auto info = [&](size_t i) -> OutputInfo& { return g.nodes[variables_[i]].outputs[0]; };
  for (size_t i = 0; i < variables_.size(); ++i) info(i).shape = in[i];
  infer_graph_shapes(g, {});
  for (size_t i = 0; i < variables_.size(); ++i) in[i] = info(i).shape;
  out.clear();
  for (ValueId v : g.outputs) out.push_back(g.info(v).shape);
}

std::vector<Shape> Body::infer_shapes(std::span<const Shape> in) const {
  OptionalShapes known(in.begin(), in.end()), out;
  infer_shapes(known, out);
  std::vector<Shape> shapes;
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i] || !out[i]->is_known()) raise<ShapeError>("the shape of output {} of the body does not follow from its inputs", i);
    shapes.push_back(*out[i]);
  }
  return shapes;
}

std::vector<DType> Body::infer_types(std::span<const DType> in) const {
  Graph g = *graph_;
  for (size_t i = 0; i < variables_.size(); ++i) g.nodes[variables_[i]].outputs[0].dtype = in[i];
  infer_graph_types(g, {});
  std::vector<DType> out;
  for (ValueId v : g.outputs) out.push_back(*g.info(v).dtype);
  return out;
}

// Only operators without inputs may need an inferred shape.
Body::Runner::Runner(const Body& body, const Tensors& like) : body_(body), graph_(body.graph_) {
  if (std::none_of(graph_->nodes.begin(), graph_->nodes.end(), [](const Graph::Node& n) { return n.op && n.inputs.empty(); })) return;
  auto inferred = std::make_shared<Graph>(*graph_);
  for (size_t i = 0; i < like.size(); ++i) inferred->nodes[body.variables_[i]].outputs[0].shape = impl_of(like[i]).shape;
  infer_graph_shapes(*inferred, {});
  graph_ = std::move(inferred);
}

Tensors Body::Runner::operator()(const Tensors& inputs) const {
  std::vector<Tensor> values(graph_->nodes.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[body_.variables_[i]] = inputs[i];
  return interpret(*graph_, values);
}
Tensors Body::Runner::operator()(const Tensors& inputs, Tensors& inner) const {
  inner.clear();
  if (!body_.has_loops()) return (*this)(inputs);
  std::vector<Tensor> values(graph_->nodes.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[body_.variables_[i]] = inputs[i];
  return interpret_observed(*graph_, values, [&](size_t node, const Tensors& results, double) {
    if (std::ranges::binary_search(body_.loops_, static_cast<int>(node))) inner.push_back(results.back());
  });
}

Bodies::Bodies(const std::vector<Symbol>& symbols) {
  auto list = std::make_shared<std::vector<Body>>();
  for (const Symbol& s : symbols) list->emplace_back(s);
  bodies_ = std::move(list);
}
Bodies::operator std::vector<Symbol>() const {
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < size(); ++i) symbols.push_back((*this)[i].symbol());
  return symbols;
}

// ---- recording

namespace {

bool has_shape(const Tensor& t) { return !impl_of(t).symbolic || impl_of(t).symbolic->has_shape; }

class BodyTracer final : public Tracer {
 public:
  BodyTracer(std::string what, const std::vector<BodyInput>& inputs) : what_(std::move(what)), given_(inputs) {
    // Bodies inside each other see each other's inputs, so names say how deep they are.
    int depth = 0;
    for (const auto* t = dynamic_cast<BodyTracer*>(previous()); t; t = dynamic_cast<BodyTracer*>(t->previous())) ++depth;
    for (const BodyInput& input : inputs) {
      const std::string name = fmt::format("{}{}_{}", what_, depth, input.name);
      const detail::TensorImpl& t = impl_of(input.like);
      if (has_shape(input.like)) {
        if (input.is_slice && t.shape.empty()) raise<ShapeError>("{}: the data is a scalar, but an axis to iterate over is needed", what_);
        Shape shape = t.shape;
        if (input.is_slice) shape.erase(0);
        symbolic_.push_back(add_input(name, shape, t.dtype, t.device));
      } else {
        symbolic_.push_back(sym::var(name).tensor());
      }
      variables_.push_back(value_of(symbolic_.back()));
    }
  }
  const Tensors& symbolic() const { return symbolic_; }

  Tensor read_value(const Tensor&) override {
    throw BodyReadsValue(fmt::format("{}: the body reads the value of a tensor, which a graph cannot; use where or cond instead of if, and "
                                     "while_loop instead of while",
                                     what_),
                         Located::in_operator);
  }
  void refuse(const std::string& why) override {
    if (previous()) previous()->refuse(why);
  }
  Tensors run_dynamic(const Value& call) override {
    throw BodyReadsValue(
        fmt::format("{}: the shape of the result of {} depends on values, which a body cannot express", what_, call.node->op->name),
        Located::in_operator);
  }
  std::string name_for(const Tensor& concrete) override {
    return previous() ? previous()->capture(concrete).node->name : unique_name("constant");
  }
  void on_use(const Tensor& t) override {
    const Value v = value_of(t);
    const detail::TensorImpl& i = impl_of(t);  // a handle of our own: the caller's may get another value in place
    used_.try_emplace({v.node.get(), v.index}, has_shape(t) ? tensor_of(v, i.shape, i.dtype, i.device) : tensor_of(v));
  }
  // What a body was given is a tensor of its caller's.
  void before_update(const Tensor& target) override {
    updates_outside_ |= !is_own(target);
    check_updates();
  }
  std::string name_for_call(const OpDef& op) override { return previous() ? previous()->name_for_call(op) : unique_name(op.name); }

  RecordedBody finish(const Tensors& outputs) {
    check_updates();  // user code may have caught that
    RecordedBody r;
    for (const Tensor& t : outputs) {
      note_passed_on(t, r.passed_on.emplace_back());
      const auto given = std::ranges::find_if(symbolic_, [&](const Tensor& s) { return s.is_same(t); });
      r.given_outputs.push_back(given == symbolic_.end() ? std::nullopt : std::optional<int64_t>(given - symbolic_.begin()));
    }
    // It is there already, so the function is to run from its start. A graph of symbols has no other way to run.
    if (outermost().is_program() && keeps_values(outputs))
      refuse(fmt::format("{}: a value of the body is kept outside of it; let the body return it", what_));
    std::vector<Value> ends;
    for (const Tensor& t : outputs) {
      if (!t.defined()) raise<UserError>("{}: the body returns a null tensor", what_);
      if (t.is_symbolic()) on_use(t);
      ends.push_back(t.is_symbolic() ? value_of(t) : capture(t));
    }
    for (const Value& call : calls()) copies_[call.node.get()] = nullptr;
    for (const Value& call : calls()) copy(call, r);
    std::vector<Value> results;
    for (const Value& v : ends) results.push_back(own_value(mapped(v, r), results));
    r.symbol = Symbol(results);
    r.outputs = outputs;
    find_places(r);
    report_shape_reads(r);
    return r;
  }

 private:
  bool is_own(const Tensor& t) const {
    if (!impl_of(t).symbolic) return false;
    const Value v = value_of(t);
    for (size_t i = 0; i < variables_.size(); ++i)
      if (variables_[i] == v) return given_[i].is_slice || given_[i].is_own;
    return std::ranges::any_of(calls(), [&](const Value& call) { return call.node == v.node; });
  }
  Tensor outside_of(const Tensor& t) const {
    for (size_t i = 0; i < symbolic_.size(); ++i)
      if (symbolic_[i].is_same(t)) return given_[i].like;
    return t;
  }
  void note_passed_on(const Tensor& t, std::vector<PossibleAlias>& found) const {
    if (!t.defined()) return;
    Tensor root = t;
    while (impl_of(root).view && impl_of(root).view->base().defined()) root = impl_of(root).view->base();
    if (!is_own(root)) return found.push_back({outside_of(root), is_own(t) ? Tensor() : outside_of(t)});
    for (const PossibleAlias& inner : possible_aliases(root)) {
      const size_t first = found.size();
      note_passed_on(inner.root, found);
      for (size_t i = first; i < found.size(); ++i) found[i].other = Tensor();
    }
  }
  void check_updates() const {
    if (updates_outside_)
      raise<UserError>("{}: the body updates a tensor from outside in place; make it a state that the body returns", what_);
  }
  // Whether somebody holds a value of the body beside what it returns, and what those are views of.
  bool keeps_values(const Tensors& outputs) {
    std::map<const detail::TensorImpl*, size_t> known;
    for (const auto& [value, tensor] : used_) ++known[tensor.impl().get()];
    for (const Tensor& t : symbolic_) ++known[t.impl().get()];
    for (const Tensor& t : outputs) ++known[t.impl().get()];
    const Tensors held = escaped();
    for (const Tensor& t : held)
      if (impl_of(t).view && impl_of(t).view->kept_base()) ++known[impl_of(t).view->kept_base()];
    return std::ranges::any_of(held, [&](const Tensor& t) { return t.impl()->use_count() > 1 + static_cast<int>(known[t.impl().get()]); });
  }

  void copy(const Value& call, RecordedBody& r) {
    copies_[call.node.get()] = make_ref<GraphNode>(renamed<Value>(*call.node, [&](const Value& v) { return mapped(v, r); }));
  }
  // A value of the body's own graph: calls are copied, what comes from outside becomes a variable.
  Value mapped(const Value& v, RecordedBody& r) {
    if (const auto it = copies_.find(v.node.get()); it != copies_.end()) return {it->second, v.index};
    if (std::find(variables_.begin(), variables_.end(), v) != variables_.end()) return v;
    for (const auto& [outside, variable] : free_)
      if (outside == v) return variable;
    const Tensor tensor = outer_tensor(v);
    const std::string name = output_name(v.node->op, v.node->attrs, v.node->name, v.index);
    free_.emplace_back(v, value_of(sym::var(name).tensor()));
    r.free.push_back(tensor);
    return free_.back().second;
  }
  Tensor outer_tensor(const Value& v) const {
    for (const auto& [tensor, value] : captured())
      if (value == v) return tensor;
    return used_.at({v.node.get(), v.index});
  }
  // Every output is a value that the body computes, and no two are the same one.
  Value own_value(const Value& v, const std::vector<Value>& others) const {
    if (v.node->op && std::find(others.begin(), others.end(), v) == others.end()) return v;
    static const OpDef& copy = OpRegistry::global().get("_copy");
    std::string name = previous() ? previous()->name_for_call(copy) : unique_name(copy.name);
    return {make_ref<GraphNode>(NodeOf<Value>{.op = &copy, .name = std::move(name), .attrs = copy.default_attrs, .inputs = {v}}), 0};
  }

  void find_places(RecordedBody& r) const {
    const std::vector<const GraphNode*> nodes = variable_nodes(r.symbol);
    auto place = [&](const Value& v) -> std::optional<int64_t> {
      const auto it = std::find(nodes.begin(), nodes.end(), v.node.get());
      return it == nodes.end() ? std::nullopt : std::optional<int64_t>(it - nodes.begin());
    };
    for (const Value& v : variables_) r.inputs.push_back(place(v));
    Tensors used;
    for (size_t i = 0; i < free_.size(); ++i)
      if (const auto p = place(free_[i].second)) {
        used.push_back(r.free[i]);
        r.free_places.push_back(*p);
      }
    r.free = std::move(used);
  }

  // Extents that the body looked at are extents of what it was given.
  void report_shape_reads(const RecordedBody& r) const {
    if (!previous()) return;
    auto read = [&](const Tensor& outside, int axis) {
      if (outside.is_symbolic() && has_shape(outside)) previous()->on_shape_read(value_of(outside), axis, impl_of(outside).shape);
    };
    auto read_input = [&](size_t i, int axis) {
      const int shift = given_[i].is_slice ? 1 : 0;
      if (axis >= 0) return read(given_[i].like, axis + shift);
      for (int a = shift; a < impl_of(given_[i].like).shape.ndim(); ++a) read(given_[i].like, a);
    };
    for (const ShapeRead& s : shape_reads()) {
      if (s.like) {  // both are the body's own: what is updated is
        for (size_t i = 0; i < given_.size(); ++i) read_input(i, -1);
        for (const Tensor& t : r.free) read(t, -1);
        continue;
      }
      const auto input = std::find(variables_.begin(), variables_.end(), s.value);
      if (input != variables_.end()) {
        read_input(static_cast<size_t>(input - variables_.begin()), s.axis);
      } else if (copies_.contains(s.value.node.get())) {
        for (size_t i = 0; i < given_.size(); ++i) read_input(i, -1);
        for (const Tensor& t : r.free) read(t, -1);
      } else {
        previous()->on_shape_read(s.value, s.axis, s.shape);
      }
    }
  }

  std::string what_;
  const std::vector<BodyInput>& given_;
  Tensors symbolic_;
  std::vector<Value> variables_;
  std::map<const GraphNode*, Ref<GraphNode>> copies_;        // of the recorded calls
  std::map<std::pair<const GraphNode*, int>, Tensor> used_;  // inputs of calls by the value they name
  std::vector<std::pair<Value, Value>> free_;                // a value from outside and its variable
  bool updates_outside_ = false;
};

}  // namespace

RecordedBody record_body(const std::string& what, const std::vector<BodyInput>& inputs,
                         const std::function<Tensors(const Tensors&)>& function) {
  BodyTracer tracer(what, inputs);
  return tracer.finish(function(tracer.symbolic()));
}

}  // namespace gluino
