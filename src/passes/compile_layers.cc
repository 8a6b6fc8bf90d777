#include "passes/compile_layers.h"

#include <algorithm>
#include <map>
#include <optional>

#include "dispatch/compiler_rules.h"
#include "passes/facts/readers.h"
#include "passes/facts/scalar_program.h"
#include "program/match.h"

namespace gluino {
namespace {

class LayerCompiler {
 public:
  explicit LayerCompiler(Graph& graph) : graph_(graph), rewriter_(graph), readers_(graph), done_(graph.nodes.size(), false) {}

  Graph run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (done_[i]) continue;
      const int n = static_cast<int>(i);
      if (!compile_layer(n) && !keep_blocked(n) && !run_on_blocks(n)) keep_plain(n);
    }
    for (ValueId v : graph_.outputs) plain(v);
    Graph result = rewriter_.finish();
    infer_new_nodes(result);
    return result;
  }

 private:
  // A value of the old graph is in the new one in either layout, or both.
  bool is_plain(ValueId v) const { return rewriter_.is_mapped(v); }
  bool is_blocked(ValueId v) const { return blocked_.contains(v); }

  int add(const OpDef& def, const std::string& name, Attrs attrs, std::vector<ValueId> inputs) {
    Graph::Node made{.op = &def, .name = name, .attrs = attrs ? attrs : def.default_attrs, .inputs = std::move(inputs)};
    made.outputs.resize(def.num_outputs(made.attrs));
    return rewriter_.add(std::move(made));
  }
  ValueId plain(ValueId v) {
    if (!is_plain(v)) {
      const std::pair<std::string_view, AttrValue> attrs[] = {{"channels", graph_.shape(v)[1]}, {"rows", graph_.shape(v).ndim() == 3}};
      rewriter_.replace(v, {add(from_blocked_, graph_.node(v).name + "_plain", from_blocked_.make_attrs(attrs), {blocked_.at(v)}), 0});
    }
    return rewriter_.mapped(v);
  }
  ValueId blocked(ValueId v) {
    const auto known = blocked_.find(v);
    if (known != blocked_.end()) return known->second;
    return blocked_[v] = {add(to_blocked_, graph_.node(v).name + "_blocked", nullptr, {rewriter_.mapped(v)}), 0};
  }

  void keep_plain(int n) {
    for (ValueId v : graph_.node(n).inputs) plain(v);
    rewriter_.keep(n);
  }

  // An elementwise node over blocked values stays among them, if the zeros in a padded block stay zeros. What is broadcast over them (a
  // slope or scale for each channel, a number) comes along.
  bool keep_blocked(int n) {
    const Graph::Node& old = graph_.node(n);
    if (!old.op || !old.op->is_elementwise() || old.outputs.size() != 1 || !is_float32(graph_, old)) return false;
    const Shape& out = *old.outputs[0].shape;
    if (out.ndim() != 3 && out.ndim() != 4) return false;
    bool any_blocked = false;
    for (ValueId v : old.inputs) {
      if (!can_be_blocked(v, out)) return false;
      any_blocked |= graph_.shape(v) == out && is_blocked(v) && !is_plain(v);
    }
    if (!any_blocked || (is_padded(out) && !keeps_zero(old))) return false;
    Graph::Node copy = old;
    for (ValueId& v : copy.inputs) v = blocked_beside(v, out);
    copy.outputs = {OutputInfo{}};
    blocked_[{n, 0}] = {rewriter_.add(std::move(copy)), 0};
    return true;
  }
  // A node that moves whole channels, or places of all channels, moves blocks as well.
  bool run_on_blocks(int n) {
    const Graph::Node& old = graph_.node(n);
    const auto& works_on_blocks = rules_of(old.op).works_on_blocks;
    if (!works_on_blocks || old.outputs.size() != 1 || old.outputs[0].dtype != DType::float32) return false;
    std::vector<Shape> shapes;
    bool any_blocked = false;
    for (ValueId v : old.inputs) {
      shapes.push_back(graph_.shape(v));
      if (shapes.back().ndim() == 4 && graph_.info(v).dtype != DType::float32) return false;
      any_blocked |= is_blocked(v) && !is_plain(v);
    }
    if (!any_blocked || !works_on_blocks(old.attrs.get(), shapes)) return false;
    Graph::Node copy = old;
    for (size_t i = 0; i < shapes.size(); ++i) copy.inputs[i] = shapes[i].ndim() == 4 ? blocked(old.inputs[i]) : plain(old.inputs[i]);
    copy.outputs = {OutputInfo{}};
    blocked_[{n, 0}] = {rewriter_.add(std::move(copy)), 0};
    return true;
  }
  // Whether a value that is broadcast over one of this shape has a form that is broadcast over its blocked form. One for all channels is
  // not zero where a block is padded.
  bool can_be_blocked(ValueId v, const Shape& out) const {
    const Shape& s = graph_.shape(v);
    if (s == out) return true;
    if (s.ndim() > out.ndim() || s.elements() == 0) return false;
    const bool for_each_channel = s.ndim() >= out.ndim() - 1 && s[s.ndim() - out.ndim() + 1] == out[1];
    return for_each_channel || !is_padded(out);
  }
  ValueId blocked_beside(ValueId v, const Shape& out) {
    const Shape& s = graph_.shape(v);
    if (s == out) return blocked(v);
    Shape aligned = Shape::filled(out.ndim(), 1);
    for (int i = 0; i < s.ndim(); ++i) aligned[out.ndim() - s.ndim() + i] = s[i];
    if (aligned[1] == out[1]) {
      if (s == aligned) return blocked(v);
      return {add(to_blocked_, graph_.node(v).name + "_blocked", nullptr, {reshaped(plain(v), aligned)}), 0};
    }
    return reshaped(plain(v), {aligned[0], 1, out.ndim() == 3 ? 1 : aligned[2], aligned[out.ndim() - 1], 1});
  }
  ValueId reshaped(ValueId made, const Shape& to) {
    const std::pair<std::string_view, AttrValue> attrs[] = {{"shape", to}};
    return {add(reshape_, rewriter_.node(made).name + "_aligned", reshape_.make_attrs(attrs), {made}), 0};
  }
  // Whether the last block of a blocked value of this plain shape is not full.
  bool is_padded(const Shape& shape) const {
    std::vector<Shape> blocked(1);
    to_blocked_.infer_shape(nullptr, {&shape, 1}, blocked);
    return blocked[0].elements() != shape.elements();
  }
  static bool keeps_zero(const Graph::Node& n) {
    Tensors zero(n.inputs.size(), zeros({1}));
    return apply_one(*n.op, zero, n.attrs).item<float>() == 0;
  }

  bool is_read(ValueId v) const {
    return readers_.any_of(v, [](int) { return true; });
  }
  // Whether node n is elementwise and computes this; gives the pattern's open numbers.
  std::optional<std::vector<double>> computes(int n, const Pattern& pattern) const {
    if (n < 0 || !graph_.node(n).op || !graph_.node(n).op->is_elementwise() || !is_float32(graph_, graph_.node(n))) return {};
    return match(program_of(graph_.node(n), ComputeType::f32), pattern);
  }
  // Node r adds another value of the same shape to the result of `last`; the other one must be there already.
  std::optional<ValueId> added_by(int r, int last) const {
    static const Pattern sum([](Pattern& p) { return p.input(0) + p.input(1); });
    if (!computes(r, sum)) return {};
    const auto& in = graph_.node(r).inputs;
    const ValueId other = in[0].node == last ? in[1] : in[0];
    if (in[0].node == in[1].node || !(graph_.shape(in[0]) == graph_.shape(in[1]))) return {};
    return is_plain(other) || is_blocked(other) ? std::optional(other) : std::nullopt;
  }
  // relu, with or without an upper limit.
  std::optional<LayerEpilogue> relu_of(int r) const {
    static const Pattern positive([](Pattern& p) { return maximum(p.input(0), 0.0); });
    static const Pattern if_positive([](Pattern& p) { return select(p.input(0) > 0.0, p.input(0), 0.0); });
    static const Pattern limited([](Pattern& p) { return minimum(maximum(p.input(0), 0.0), p.any_number()); });
    if (computes(r, positive) || computes(r, if_positive)) return LayerEpilogue{.relu = true};
    if (const auto limit = computes(r, limited); limit && limit->front() >= 0) return LayerEpilogue{.relu = true, .limit = limit->front()};
    return {};
  }

  bool compile_layer(int n) {
    const Graph::Node& layer = graph_.node(n);
    if (!rules_of(layer.op).compiled_layer || layer.mode.training == true || !is_float32(graph_, layer)) return false;
    std::vector<Shape> shapes;
    for (ValueId v : layer.inputs) shapes.push_back(graph_.shape(v));
    // The longest run of what follows that the layer can take over.
    const int first = readers_.only_node(n);
    const std::optional<ValueId> other = first >= 0 ? added_by(first, n) : std::nullopt;
    const int second = other ? readers_.only_node(first) : -1;
    if (auto both = relu_of(second); other && both) {
      both->add = true;
      if (emit(n, shapes, *both, other, {first, second})) return true;
    }
    if (other && emit(n, shapes, {.add = true}, other, {first})) return true;
    if (const auto relu = relu_of(first); relu && emit(n, shapes, *relu, {}, {first})) return true;
    return emit(n, shapes, {}, {}, {});
  }

  bool emit(int n, const std::vector<Shape>& shapes, LayerEpilogue epilogue, std::optional<ValueId> other, std::vector<int> followers) {
    const Graph::Node& layer = graph_.node(n);
    const auto compiled = rules_of(layer.op).compiled_layer(layer.attrs.get(), shapes, epilogue, true);
    if (!compiled) return false;
    // Results that only a backward pass would read have no compiled form.
    const OpDef& op = OpRegistry::global().get(compiled->op);
    const int results = op.num_outputs(compiled->attrs);
    for (int i = results; i < static_cast<int>(layer.outputs.size()); ++i)
      if (is_read({n, i})) return false;
    // A layer without weights gains nothing from a layout that its data is not in.
    if (layer.inputs.size() == 1 && compiled->takes_blocked && !is_blocked(layer.inputs[0])) return false;
    std::vector<ValueId> inputs{compiled->takes_blocked ? blocked(layer.inputs[0]) : plain(layer.inputs[0])};
    for (size_t i = 1; i < layer.inputs.size(); ++i) inputs.push_back(plain(layer.inputs[i]));
    if (!compiled->pack.empty()) inputs[1] = packed(*compiled, inputs[1], layer.name);
    if (other) inputs.push_back(compiled->gives_blocked ? blocked(*other) : plain(*other));
    const int last = followers.empty() ? n : followers.back();
    const int made = add(op, graph_.node(last).name, compiled->attrs, std::move(inputs));
    for (int i = 0; i < results; ++i)
      if (compiled->gives_blocked)
        blocked_[{last, i}] = {made, i};
      else
        rewriter_.replace({last, i}, {made, i});
    for (int f : followers) done_[f] = true;
    return true;
  }

  ValueId packed(const CompiledLayer& layer, ValueId weight, const std::string& name) {
    const OpDef& pack = OpRegistry::global().get(layer.pack);
    std::vector<Packed>& known = packed_[weight];
    for (const Packed& p : known)
      if (p.op == &pack && (p.attrs == layer.pack_attrs || pack.print_attrs(p.attrs) == pack.print_attrs(layer.pack_attrs))) return p.value;
    const ValueId made{add(pack, name + "_packed", layer.pack_attrs, {weight}), 0};
    known.push_back({&pack, layer.pack_attrs, made});
    return made;
  }

  const OpDef &to_blocked_ = OpRegistry::global().get("_to_blocked"), &from_blocked_ = OpRegistry::global().get("_from_blocked"),
              &reshape_ = OpRegistry::global().get("Reshape");
  const Graph& graph_;
  Rewriter rewriter_;  // to it plain values are known
  std::map<ValueId, ValueId> blocked_;
  const Readers readers_;
  std::vector<bool> done_;
  struct Packed {
    const OpDef* op;
    Attrs attrs;
    ValueId value;
  };
  std::map<ValueId, std::vector<Packed>> packed_;  // by weight
};

}  // namespace

Graph compile_layers(Graph graph, const PassContext& context) {
  if (context.training) return graph;
  return LayerCompiler(graph).run();
}

}  // namespace gluino
