#include "gluino/symbol.h"

#include <cstdlib>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "base/file.h"
#include "base/format.h"
#include "dispatch/infer.h"
#include "graph/graph.h"
#include "graph/named_attrs.h"
#include "graph/trace.h"

namespace gluino {
namespace {

const GraphNode& single_node(const Symbol& s, std::string_view what) {
  if (s.num_outputs() != 1) raise<UserError>("{}: the symbol has {} outputs; pick one with [] first", what, s.num_outputs());
  return *s.outputs()[0].node;
}

std::vector<std::string> list_leaves(const Symbol& s, std::optional<bool> states) {
  const std::vector<GraphNode*> nodes = topological_order(s.outputs());
  std::unordered_set<const GraphNode*> read_as_states;
  for (const GraphNode* n : nodes)
    for (size_t i = 0; states && n->op && n->op->has_states && i < n->inputs.size(); ++i)
      if (n->op->is_state_input(n->attrs, i)) read_as_states.insert(n->inputs[i].node.get());
  std::vector<std::string> names;
  for (const GraphNode* n : nodes)
    if (n->is_variable() && (!states || read_as_states.contains(n) == *states)) names.push_back(n->name);
  return names;
}

InferredShapes collect_shapes(const Graph& g) {
  InferredShapes r;
  const std::vector<bool> is_state = find_states(g);
  r.complete = true;
  auto add = [&](std::vector<std::optional<Shape>>& list, const OutputInfo& info) {
    r.complete &= info.shape && info.shape->is_known();
    list.push_back(info.shape);
  };
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (g.node(i).is_variable()) add(is_state[i] ? r.auxiliary_states : r.arguments, g.node(i).outputs[0]);
  for (ValueId v : g.outputs) add(r.outputs, g.info(v));
  return r;
}

void check_known_names(const Symbol& s, const auto& known, std::string_view what) {
  const std::vector<std::string> names = s.list_inputs();
  const std::unordered_set<std::string_view> has(names.begin(), names.end());
  for (const auto& [name, value] : known)
    if (!has.contains(name)) raise<UserError>("{}: no input is named '{}'{}", what, name, did_you_mean(name, names));
}

}  // namespace

Symbol::Symbol(const Tensor& symbolic) : outputs_{value_of(symbolic)} {}
Tensor Symbol::tensor(int output) const {
  if (output < 0 || output >= num_outputs()) raise<IndexError>("the symbol has {} outputs, there is no output {}", num_outputs(), output);
  return tensor_of(outputs_[output]);
}

Symbol Symbol::operator[](int output) const {
  if (output < 0) output += num_outputs();
  if (output < 0 || output >= num_outputs()) raise<IndexError>("the symbol has {} outputs, there is no output {}", num_outputs(), output);
  return Symbol({outputs_[output]});
}
Symbol Symbol::operator[](const std::string& output) const {
  const std::vector<std::string> names = list_outputs();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == output) return Symbol({outputs_[i]});
  raise<IndexError>("no output is named '{}'{}", output, did_you_mean(output, names));
}

std::string Symbol::name() const {
  if (outputs_.empty()) return "";
  for (const Value& v : outputs_)
    if (!(v.node == outputs_[0].node)) return "";
  return outputs_[0].node->name;
}
std::vector<std::string> Symbol::list_arguments() const { return list_leaves(*this, false); }
std::vector<std::string> Symbol::list_auxiliary_states() const { return list_leaves(*this, true); }
std::vector<std::string> Symbol::list_inputs() const { return list_leaves(*this, std::nullopt); }
std::vector<std::string> Symbol::list_outputs() const {
  std::vector<std::string> names;
  for (const Value& v : outputs_) names.push_back(output_name(v.node->op, v.node->attrs, v.node->name, v.index));
  return names;
}

Symbol Symbol::get_children() const {
  std::vector<Value> inputs;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const GraphNode& node = *outputs_[i].node;
    const bool seen =
        std::any_of(outputs_.begin(), outputs_.begin() + static_cast<long>(i), [&](const Value& v) { return v.node.get() == &node; });
    if (!seen) inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
  }
  return Symbol(std::move(inputs));
}

std::optional<std::string> Symbol::attr(const std::string& key) const {
  const StringMap all = list_attr();
  const auto it = all.find(key);
  return it == all.end() ? std::nullopt : std::optional(it->second);
}
static StringMap attrs_of(const GraphNode& n) {
  StringMap all = n.user_attrs;
  if (n.op) all.merge(n.op->print_attrs(n.attrs));
  return all;
}
StringMap Symbol::list_attr() const { return attrs_of(single_node(*this, "list_attr")); }
std::map<std::string, StringMap> Symbol::attr_dict() const {
  std::map<std::string, StringMap> all;
  for (const auto& n : graph().nodes) {
    StringMap attrs = n.user_attrs;
    if (n.op) attrs.merge(n.op->print_attrs(n.attrs));
    if (!attrs.empty()) all[n.name] = std::move(attrs);
  }
  return all;
}
void Symbol::set_attr(const std::string& key, const std::string& value) {
  single_node(*this, "set_attr");
  outputs_[0].node->user_attrs[key] = value;
}

Symbol Symbol::compose(const std::map<std::string, Symbol>& inputs) const {
  check_known_names(*this, inputs, "compose");
  Graph g = graph();
  // Rebuilt bottom-up, with the named variables replaced by the given values.
  std::vector<std::vector<Value>> values;
  for (const auto& n : g.nodes) {
    if (const auto it = inputs.find(n.name); n.is_variable() && it != inputs.end()) {
      if (it->second.num_outputs() != 1) raise<UserError>("compose: the symbol for '{}' has {} outputs", n.name, it->second.num_outputs());
      values.push_back({it->second.outputs()[0]});
      continue;
    }
    auto node = make_ref<GraphNode>(renamed<Value>(n, [&](ValueId v) { return values[v.node][v.index]; }));
    std::vector<Value> outs;
    for (int k = 0; k < static_cast<int>(n.outputs.size()); ++k) outs.push_back({node, k});
    values.push_back(std::move(outs));
  }
  std::vector<Value> outputs;
  for (ValueId v : g.outputs) outputs.push_back(values[v.node][v.index]);
  return Symbol(std::move(outputs));
}

InferredShapes Symbol::infer_shape_partial(const ShapeMap& known) const {
  check_known_names(*this, known, "infer_shape");
  Graph g = graph();
  infer_graph(g, known, {});
  return collect_shapes(g);
}
InferredShapes Symbol::infer_shape(const ShapeMap& known) const {
  InferredShapes r = infer_shape_partial(known);
  if (r.complete) return r;
  const std::vector<std::string> names = list_arguments();
  for (size_t i = 0; i < names.size(); ++i)
    if (!r.arguments[i] || !r.arguments[i]->is_known())
      raise<ShapeError>("infer_shape: the shape of '{}' does not follow from what is known ({}); give it too", names[i],
                        r.arguments[i] ? r.arguments[i]->str() : "nothing");
  throw ShapeError("infer_shape: the shape of an output does not follow from what is known");
}
InferredTypes Symbol::infer_type(const DTypeMap& known) const {
  check_known_names(*this, known, "infer_type");
  Graph g = graph();
  infer_graph(g, {}, known);
  InferredTypes r;
  const std::vector<bool> is_state = find_states(g);
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (g.node(i).is_variable()) (is_state[i] ? r.auxiliary_states : r.arguments).push_back(*g.node(i).outputs[0].dtype);
  for (ValueId v : g.outputs) r.outputs.push_back(*g.info(v).dtype);
  return r;
}

std::string Symbol::str() const { return graph().str(); }
Symbol Symbol::parse(const std::string& text) { return from_graph(Graph::parse(text)); }
std::string Symbol::to_dot() const { return gluino::to_dot(graph()); }
std::string Symbol::to_svg(const ShapeMap& shapes) const {
  Graph g = graph();
  infer_graph(g, shapes, {});
  return gluino::to_svg(g);
}
void Symbol::save(const std::string& path) const { write_file(path, to_json()); }
Symbol Symbol::load(const std::string& path) { return from_json(read_file(path), path); }
std::ostream& operator<<(std::ostream& os, const Symbol& symbol) { return os << symbol.str(); }

namespace sym {

Symbol var(const std::string& name, const VarOptions& options) {
  auto node = make_ref<GraphNode>(NodeOf<Value>{.name = name, .user_attrs = options.attrs});
  node->user_attrs.merge(current_attr_scope());
  if (options.shape) node->user_attrs["__shape__"] = AttrType<Shape>::print(*options.shape);
  if (options.dtype) node->user_attrs["__dtype__"] = std::to_string(static_cast<int>(*options.dtype));
  return Symbol({Value{node, 0}});
}

Symbol group(const std::vector<Symbol>& symbols) {
  std::vector<Value> all;
  for (const Symbol& s : symbols) all.insert(all.end(), s.outputs().begin(), s.outputs().end());
  return Symbol(std::move(all));
}

// Concat(num_args=2) without inputs is of variables concat0_arg0 and concat0_arg1.
static void add_counted_variables(GraphNode& node, const std::string& count) {
  constexpr size_t kMost = 4096;
  const size_t wanted = std::strtoul(count.c_str(), nullptr, 10);
  if (wanted > std::max(kMost, node.inputs.size())) raise<UserError>("{}: num_args is {}, but {} at most", node.op->name, count, kMost);
  while (node.inputs.size() < wanted) node.inputs.push_back(var(node.name + "_arg" + std::to_string(node.inputs.size())).outputs().at(0));
}

Symbol apply(const std::string& op_name, const std::vector<Symbol>& inputs, const StringMap& attrs, std::string name,
             const std::map<std::string, Symbol>& named_inputs) {
  const OpDef& op = OpRegistry::global().get(op_name);
  StringMap own = attrs;
  const bool counts =
      op.is_variadic && std::any_of(op.fields.begin(), op.fields.end(), [](const AttrField& f) { return f.name == "num_args"; });
  if (counts) own.try_emplace("num_args", std::to_string(inputs.size()));
  auto node = make_ref<GraphNode>(NodeOf<Value>{.op = &op,
                                                .name = name.empty() ? unique_name(op.name) : std::move(name),
                                                .attrs = op.parse_attrs(own),
                                                .user_attrs = current_attr_scope()});
  keep_named_defaults(*node, attrs);
  checked_output_count(op, node->attrs);
  for (const Symbol& s : inputs) node->inputs.insert(node->inputs.end(), s.outputs().begin(), s.outputs().end());
  if (counts) add_counted_variables(*node, own.at("num_args"));
  if (!op.is_variadic) {
    const auto specs = op.present_inputs(node->attrs);
    std::vector<std::string> names;
    for (const InputSpec* i : specs) names.push_back(i->name);
    for (const auto& [key, value] : named_inputs)
      if (std::find(names.begin(), names.end(), key) == names.end())
        raise<UserError>("{}: no input is named '{}'{}", op.name, key, did_you_mean(key, names));
    if (node->inputs.size() > specs.size())
      raise<UserError>("{}: {} inputs were given, but only {} are taken", op.name, node->inputs.size(), specs.size());
    for (size_t i = node->inputs.size(); i < specs.size(); ++i) {
      const auto it = named_inputs.find(specs[i]->name);
      const Symbol input = it != named_inputs.end() ? it->second : var(node->name + "_" + specs[i]->name);
      node->inputs.push_back(input.outputs().at(0));
    }
  }
  std::vector<Value> outputs;
  for (int i = 0; i < op.num_visible_outputs(node->attrs); ++i) outputs.push_back({node, i});
  return Symbol(std::move(outputs));
}

}  // namespace sym
}  // namespace gluino
