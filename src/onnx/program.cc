#include "onnx/program.h"

#include <algorithm>

#include "base/format.h"
#include "dispatch/infer.h"
#include "graph/trace.h"
#include "onnx/description.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

bool is_learnt(const Tensor& t) { return is_floating(t.dtype()) && t.size() > 1; }

// All names that a node reads, those that its bodies take from outside too.
void add_names_read(const NodeData& node, std::vector<std::string>& names) {
  names.insert(names.end(), node.inputs.begin(), node.inputs.end());
  for (const auto& [name, a] : node.attributes)
    if (a.graph) {
      for (const NodeData& n : a.graph->nodes) add_names_read(n, names);
      for (const ValueData& v : a.graph->outputs) names.push_back(v.name);
    }
}

void add_output_names(const GraphData& graph, std::unordered_set<std::string>& names) {
  for (const ValueData& v : graph.outputs) names.insert(v.name);
  for (const NodeData& n : graph.nodes)
    for (const auto& [name, a] : n.attributes)
      if (a.graph) add_output_names(*a.graph, names);
}

bool has_body(const NodeData& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& a) { return a.second.graph != nullptr; });
}

bool is_random(const std::string& type) {
  return type.starts_with("Random") || type == "Bernoulli" || type == "Multinomial" || type == "Dropout";
}

// What can be much larger than its inputs: computed when the model runs, not while it is read.
bool can_grow(const std::string& type) {
  static const std::unordered_set<std::string> types{
      "ConstantOfShape", "Expand",     "Tile",          "Range",          "OneHot",          "Pad",      "Resize", "Upsample",
      "EyeLike",         "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "MaxUnpool"};
  return types.contains(type);
}

}  // namespace

std::string describe_node(const NodeData& node) {
  const std::string first = node.outputs.empty() ? "" : node.outputs[0];
  return node.name.empty() ? fmt::format("the {} that gives '{}'", node.type, first) : fmt::format("node '{}', {}", node.name, node.type);
}

// ---- Scope

Value Scope::get(const std::string& name) const {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  if (outer_) return outer_->get(name);
  raise<UserError>("no node before it gives '{}', and no input or initializer of the graph has this name", name);
}

Value* Scope::find(const std::string& name) {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

int64_t Scope::version(const std::string& domain) const {
  const auto found = operator_sets_.find(domain);
  return found == operator_sets_.end() ? 1 : found->second;
}

Tensors Scope::run_node(const NodeData& node, Values& inputs, Values& outputs) const {
  Call call(node, version(node.domain), inputs, *this);
  const bool has_extents = std::any_of(inputs.begin(), inputs.end(), [](const Value& v) { return v.extents != nullptr; });
  const bool shape_only = node.type == "Shape" || node.type == "Size";
  if (has_extents || shape_only)
    if (const auto* rule = node.domain.empty() ? Rules::all().find_extents(node.type) : nullptr)
      if (auto extents = (*rule)(call)) {
        outputs.push_back(Value::of_extents(std::move(*extents)));
        return {};
      }
  const Rule* rule = Rules::all().find(node.domain, node.type);
  if (!rule) raise<UserError>("there is no rule for it");
  const auto is_known = [](const Value& v) { return v.kind == Value::Kind::constant || v.kind == Value::Kind::absent || v.extents; };
  const bool is_constant = !is_random(node.type) && !has_body(node) && std::all_of(inputs.begin(), inputs.end(), is_known);
  if (!is_constant) return (*rule)(call);
  for (Value& v : inputs)
    if (v.extents) gluino::onnx::tensor_of(v);
  const PauseTracing pause;
  for (Tensor& t : (*rule)(call)) outputs.push_back(Value::constant(std::move(t)));
  return {};
}

void Scope::run_one(const NodeData& node) {
  Values inputs;
  for (const std::string& name : node.inputs) inputs.push_back(name.empty() ? Value{} : get(name));
  Values outputs;
  // The same value by another name, as exporters write for layers that share a weight; a result of the graph is memory of its own.
  if (node.type == "Identity" && node.domain.empty() && inputs.size() == 1 && node.outputs.size() == 1 &&
      inputs[0].kind != Value::Kind::absent && !program_.is_output(node.outputs[0]))
    return set(node.outputs[0], inputs[0]);
  if (const FunctionData* function = program_.find_function(node.domain, node.type)) {
    outputs = call_function(*function, node, std::move(inputs));
  } else {
    for (Tensor& t : run_node(node, inputs, outputs)) outputs.push_back(Value::computed(std::move(t)));
    // What a rule had to read is known from now on.
    for (size_t i = 0; i < inputs.size(); ++i)
      if (Value* mine = node.inputs[i].empty() ? nullptr : find(node.inputs[i]); mine && mine->extents && !inputs[i].extents)
        *mine = inputs[i];
  }
  for (size_t i = 0; i < node.outputs.size() && i < outputs.size(); ++i)
    if (!node.outputs[i].empty()) set(node.outputs[i], std::move(outputs[i]));
}

void Scope::run_nodes(const std::vector<NodeData>& nodes, const std::unordered_set<const NodeData*>& done) {
  for (const NodeData& node : nodes) {
    if (done.contains(&node)) continue;
    try {
      run_one(node);
    } catch (const UserError& e) {
      if (e.located() == Located::in_network) throw;
      rethrow_as(fmt::format("{} (in {}: {})", e.what(), program_.what(), describe_node(node)), Located::in_network);
    }
    if (const auto* names = program_.last_uses(node))
      for (const std::string& name : *names) drop(name);
  }
}

Values Scope::run(const GraphData& body, Values inputs) const {
  Scope inner(program_, this, operator_sets_);
  for (const auto& [name, t] : body.initializers) inner.set(name, Value::constant(t));
  if (inputs.size() > body.inputs.size()) raise<UserError>("its body takes {} inputs, but {} are given", body.inputs.size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) inner.set(body.inputs[i].name, std::move(inputs[i]));
  inner.run_nodes(body.nodes, {});
  Values outputs;
  for (const ValueData& v : body.outputs) outputs.push_back(inner.get(v.name));
  return outputs;
}

Values Scope::call_function(const FunctionData& function, const NodeData& node, Values inputs) const {
  Scope inner(program_, nullptr, function.operator_sets);
  for (size_t i = 0; i < function.inputs.size(); ++i) inner.set(function.inputs[i], i < inputs.size() ? std::move(inputs[i]) : Value{});
  std::vector<NodeData> nodes = function.nodes;
  for (NodeData& n : nodes)
    for (auto a = n.attributes.begin(); a != n.attributes.end();) {
      const std::string& reference = a->second.reference;
      const auto given = node.attributes.find(reference);
      if (reference.empty())
        ++a;
      else if (given == node.attributes.end())
        a = n.attributes.erase(a);
      else
        a++->second = given->second;
    }
  inner.run_nodes(nodes, {});
  Values outputs;
  for (const std::string& name : function.outputs) outputs.push_back(inner.get(name));
  return outputs;
}

// ---- Program

std::shared_ptr<const Program> Program::load(const std::string& path) { return std::make_shared<const Program>(read_model(path), path); }
std::shared_ptr<const Program> Program::read(std::string_view bytes, const std::string& what) {
  return std::make_shared<const Program>(read_model_bytes(bytes, what), what);
}

Program::Program(ModelData model, const std::string& what) : model_(std::move(model)), what_(what) {
  std::vector<std::string> unknown;
  for (const NodeSummary& node : summarize_nodes(model_))
    if (!node.has_rule) unknown.push_back(node.text);
  if (!unknown.empty())
    raise<UserError>(
        "{}: {} of its nodes cannot be imported:\n  {}\nExport the model with operators of ONNX's own set (7 to 17), or replace these "
        "nodes by such ones",
        what_, unknown.size(), fmt::join(unknown, "\n  "));
  for (const auto& [name, t] : model_.graph.initializers) {
    if (is_learnt(t))
      parameters_.emplace_back(name, t);
    else
      constants_[name] = Value::constant(t);
  }
  // Before IR version 4 initializers stand among the inputs too.
  for (const ValueData& v : model_.graph.inputs) {
    const bool is_initializer =
        std::any_of(model_.graph.initializers.begin(), model_.graph.initializers.end(), [&](const auto& i) { return i.first == v.name; });
    if (!is_initializer) inputs_.push_back(v);
  }
  for (const ValueData& v : inputs_)
    if (!v.is_tensor) raise<UserError>("{}: its input '{}' is not a tensor; only tensors can be given", what_, v.name);
  for (const NodeData& node : model_.graph.nodes)
    if (node.type == "BatchNormalization")
      for (size_t i = 3; i < std::min<size_t>(5, node.inputs.size()); ++i) states_.insert(node.inputs[i]);
  add_output_names(model_.graph, output_names_);
  for (const FunctionData& f : model_.functions) output_names_.insert(f.outputs.begin(), f.outputs.end());
  fold_constants();
  find_last_uses();
}

const FunctionData* Program::find_function(const std::string& domain, const std::string& name) const {
  for (const FunctionData& f : model_.functions)
    if (f.name == name && f.domain == domain) return &f;
  return nullptr;
}

void Program::fold_constants() {
  Scope scope(*this, nullptr, model_.operator_sets);
  for (const auto& [name, value] : constants_) scope.set(name, value);
  const PauseTracing pause;
  for (const NodeData& node : model_.graph.nodes) {
    if (is_random(node.type) || can_grow(node.type) || has_body(node) || find_function(node.domain, node.type)) continue;
    const auto is_known = [&](const std::string& name) { return name.empty() || constants_.contains(name); };
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), is_known)) continue;
    scope.run_nodes({node}, {});
    for (const std::string& name : node.outputs)
      if (Value* v = name.empty() ? nullptr : scope.find(name)) {
        gluino::onnx::tensor_of(*v);
        constants_[name] = *v;
      }
    folded_.insert(&node);
  }
}

void Program::find_last_uses() {
  std::unordered_set<std::string> kept;
  for (const ValueData& v : model_.graph.outputs) kept.insert(v.name);
  for (auto node = model_.graph.nodes.rbegin(); node != model_.graph.nodes.rend(); ++node) {
    if (folded_.contains(&*node)) continue;
    std::vector<std::string> names;
    add_names_read(*node, names);
    for (const std::string& name : names)
      if (kept.insert(name).second) last_uses_[&*node].push_back(name);
  }
}

const std::vector<std::string>* Program::last_uses(const NodeData& node) const {
  const auto found = last_uses_.find(&node);
  return found == last_uses_.end() ? nullptr : &found->second;
}

Tensors Program::run(const Tensors& inputs, const Tensors& parameters) const {
  if (inputs.size() != inputs_.size()) {
    std::vector<std::string> names;
    for (const ValueData& v : inputs_) names.push_back(v.name);
    raise<UserError>("{}: {} inputs were given, {} are needed: {}", what_, inputs.size(), inputs_.size(), fmt::join(names, ", "));
  }
  Scope scope(*this, nullptr, model_.operator_sets);
  for (const auto& [name, value] : constants_) scope.set(name, value);
  for (size_t i = 0; i < parameters.size(); ++i)
    scope.set(parameters_[i].first, {Value::Kind::parameter, parameters[i], nullptr, parameters_[i].second});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueData& declared = inputs_[i];
    // mx.nd has no arrays without axes: one element stands for a scalar.
    if (declared.has_shape && declared.extents.empty() && inputs[i].ndim() == 1 && inputs[i].extent(0) == 1) {
      scope.set(declared.name, Value::computed(inputs[i].reshape({})));
      continue;
    }
    if (declared.has_shape && inputs[i].ndim() != static_cast<int>(declared.extents.size()))
      raise<ShapeError>("{}: input '{}' has {} axes, but the model says {}", what_, declared.name, inputs[i].ndim(),
                        declared.extents.size());
    scope.set(declared.name, Value::computed(inputs[i]));
  }
  scope.run_nodes(model_.graph.nodes, folded_);
  Tensors outputs;
  for (const ValueData& v : model_.graph.outputs) {
    Value value = scope.get(v.name);
    outputs.push_back(gluino::onnx::tensor_of(value));
  }
  return outputs;
}

}  // namespace gluino::onnx
