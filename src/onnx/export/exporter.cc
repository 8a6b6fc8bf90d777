#include "onnx/export/exporter.h"

#include <algorithm>

#include "base/format.h"
#include "onnx/export/expand_composed.h"

namespace gluino::onnx {

Attribute attribute_of(int64_t value) { return {.kind = Attribute::Kind::integer, .integer = value}; }
Attribute attribute_of(double value) { return {.kind = Attribute::Kind::number, .number = value}; }
Attribute attribute_of(const std::string& value) { return {.kind = Attribute::Kind::text, .text = value}; }
Attribute attribute_of(const std::vector<int64_t>& values) { return {.kind = Attribute::Kind::integers, .integers = values}; }
Attribute attribute_of(const Shape& values) { return attribute_of(std::vector<int64_t>(values.begin(), values.end())); }
Attribute attribute_of(const std::vector<std::string>& values) { return {.kind = Attribute::Kind::texts, .texts = values}; }

// `hint`, with a number behind it where it is taken.
static std::string fresh_name(std::set<std::string>& used, const std::string& hint) {
  std::string name = hint;
  for (int i = 1; !used.insert(name).second; ++i) name = fmt::format("{}_{}", hint, i);
  return name;
}

// ---- ExportCall

std::string ExportCall::in(int i) const { return exporter_.name_of(node_.inputs.at(static_cast<size_t>(i))); }
const Shape& ExportCall::shape(int i) const { return graph_.shape(node_.inputs.at(static_cast<size_t>(i))); }
const Shape& ExportCall::out_shape(int i) const { return graph_.shape({number_, i}); }
DType ExportCall::dtype(int i) const { return graph_.info(node_.inputs.at(static_cast<size_t>(i))).dtype.value_or(DType::float32); }
DType ExportCall::out_dtype(int i) const { return graph_.info({number_, i}).dtype.value_or(DType::float32); }
int ExportCall::version() const { return exporter_.version_; }

bool ExportCall::is_free(int i, int axis) const { return exporter_.is_free(node_.inputs.at(static_cast<size_t>(i)), axis); }
Tensor ExportCall::computed(const Tensors& inputs) const { return apply(*node_.op, inputs, node_.attrs).at(0); }

std::string ExportCall::text(const std::string& name) const {
  const auto found = attrs_.find(name);
  if (found == attrs_.end()) throw InternalError(fmt::format("{} has no attribute '{}'", node_.op->name, name));
  return found->second;
}
bool ExportCall::flag(const std::string& name) const { return AttrType<bool>::parse(name, text(name)); }
double ExportCall::number(const std::string& name) const { return AttrType<double>::parse(name, text(name)); }
int64_t ExportCall::integer(const std::string& name) const { return AttrType<int64_t>::parse(name, text(name)); }
std::optional<int64_t> ExportCall::optional_integer(const std::string& name) const {
  return is_none(name) ? std::nullopt : std::optional<int64_t>(integer(name));
}
Shape ExportCall::ints(const std::string& name) const { return is_none(name) ? Shape{} : AttrType<Shape>::parse(name, text(name)); }
std::vector<std::optional<int64_t>> ExportCall::optional_ints(const std::string& name) const {
  return AttrType<OptionalInts>::parse(name, text(name));
}
Floats ExportCall::numbers(const std::string& name) const { return AttrType<Floats>::parse(name, text(name)); }

std::vector<std::string> ExportCall::add_node(const std::string& type, const std::string& name, const std::vector<std::string>& inputs,
                                              const Attributes& attributes, std::vector<std::string> outputs) const {
  exporter_.model_.graph.nodes.push_back({type, "", fresh_name(exporter_.node_names_, name), inputs, outputs, attributes});
  return outputs;
}

std::vector<std::string> ExportCall::add_all(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes,
                                             int outputs) const {
  std::vector<std::string> names;
  const std::string name = exporter_.fresh(node_.name + "_" + type);
  for (int i = 0; i < outputs; ++i) names.push_back(i == 0 ? name : exporter_.fresh(name + "_" + std::to_string(i)));
  return add_node(type, name, inputs, attributes, names);
}
std::string ExportCall::add(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes) const {
  return add_all(type, inputs, attributes, 1).at(0);
}
void ExportCall::put_all(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes, int outputs) const {
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) names.push_back(exporter_.name_of({number_, i}));
  add_node(type, node_.name, inputs, attributes, names);
}
void ExportCall::put(const std::string& type, const std::vector<std::string>& inputs, const Attributes& attributes) const {
  put_all(type, inputs, attributes, 1);
}
void ExportCall::put_as(const std::string& value, int output) const {
  add_node("Identity", node_.name + "_Identity", {value}, {}, {exporter_.name_of({number_, output})});
}

std::string ExportCall::constant(const Tensor& value) const {
  const std::string name = exporter_.fresh(node_.name + "_constant");
  exporter_.model_.graph.initializers.emplace_back(name, value);
  return name;
}
std::string ExportCall::whole_numbers(const std::vector<int64_t>& values) const { return constant(from_vector(values)); }
std::string ExportCall::number_of(double value, DType dtype) const { return constant(full({}, value, {.dtype = dtype})); }

std::string ExportCall::levels_behind(int i) const {
  const auto& node = graph_.node(node_.inputs.at(static_cast<size_t>(i)));
  if (!node.op || node.op->name != "Cast") return "";
  const DType from = graph_.info(node.inputs.at(0)).dtype.value_or(DType::float32);
  return from == DType::int8 || from == DType::uint8 ? exporter_.name_of(node.inputs[0]) : "";
}

std::optional<Tensor> ExportCall::parameter(int i) const { return exporter_.value_of(node_.inputs.at(static_cast<size_t>(i))); }

void ExportCall::refuse(const std::string& why) const {
  raise<UserError>("{} (in node '{}', a {}) cannot be written as ONNX", why, node_.name, node_.op->name);
}

// ---- Exporter

const ExportRules& export_rules() {
  static const ExportRules rules = [] {
    ExportRules all;
    add_control_flow_exports(all);
    add_detection_exports(all);
    add_elementwise_exports(all);
    add_layer_exports(all);
    add_layout_exports(all);
    add_reduce_exports(all);
    return all;
  }();
  return rules;
}

Exporter::Exporter(Graph graph, std::map<std::string, Tensor> parameters, std::vector<ExportInput> inputs, int version)
    : graph_(std::move(graph)), parameters_(std::move(parameters)), inputs_(std::move(inputs)), version_(version) {
  infer();
}

void Exporter::infer() {
  ShapeMap shapes;
  DTypeMap types;
  for (const ExportInput& i : inputs_) shapes[i.name] = i.shape, types[i.name] = i.dtype;
  for (const auto& [name, t] : parameters_) shapes[name] = t.shape(), types[name] = t.dtype();
  infer_graph(graph_, shapes, types);
  graph_ = other_ = expand_composed(graph_, [](const OpDef& op) { return export_rules().contains(op.name); });
  infer_graph(graph_, shapes, types);
  for (const ExportInput& i : inputs_) shapes[i.name] = i.other_shape;
  infer_graph(other_, shapes, types);
  find_written();
  for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
    for (const OutputInfo& info : graph_.node(n).outputs)
      if (is_written_[static_cast<size_t>(n)] && (!info.shape || !info.shape->is_known()))
        raise<UserError>(
            "export_model: the shape of {} does not follow from those of the inputs; give the shapes of all inputs, or the value of '{}'",
            graph_.node(n).str(), graph_.node(n).name);
}

// What the outputs need, and not what only makes labels: losses are written as what they predict.
void Exporter::find_written() {
  is_written_.assign(graph_.nodes.size(), false);
  for (const ValueId v : graph_.outputs) is_written_[static_cast<size_t>(v.node)] = true;
  for (int n = static_cast<int>(graph_.nodes.size()) - 1; n >= 0; --n) {
    const auto& node = graph_.node(n);
    if (!is_written_[static_cast<size_t>(n)] || !node.op) continue;
    const size_t read = loss_operators().contains(node.op->name) ? 1 : node.inputs.size();
    for (size_t i = 0; i < read; ++i) is_written_[static_cast<size_t>(node.inputs[i].node)] = true;
  }
}

void Exporter::check_all_known() const {
  std::vector<std::string> unknown;
  for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n)
    if (const auto& node = graph_.node(n);
        is_written_[static_cast<size_t>(n)] && node.op && !export_rules().contains(node.op->name) && !value_of({n, 0}))
      unknown.push_back(fmt::format("node '{}', a {}", node.name, node.op->name));
  if (!unknown.empty())
    raise<UserError>("{} nodes have no counterpart in ONNX:\n  {}\nTake them out of what is exported, or write them with other operators",
                     unknown.size(), fmt::join(unknown, "\n  "));
}

// What follows from parameters alone; nothing where an input takes part.
std::optional<Tensor> Exporter::value_of(ValueId v) const {
  const auto& node = graph_.node(v);
  if (node.is_constant()) return node.constant;
  if (!node.op) {
    const auto found = parameters_.find(node.name);
    return found == parameters_.end() ? std::nullopt : std::optional<Tensor>(found->second);
  }
  if (node.inputs.empty()) return std::nullopt;
  Tensors inputs;
  for (const ValueId i : node.inputs) {
    const std::optional<Tensor> value = value_of(i);
    if (!value) return std::nullopt;
    inputs.push_back(*value);
  }
  return apply(*node.op, inputs, node.attrs).at(static_cast<size_t>(v.index));
}

// All names that a node reads, those that its bodies take from around it too.
static void add_names_read(const NodeData& node, std::set<std::string>& names) {
  names.insert(node.inputs.begin(), node.inputs.end());
  for (const auto& [name, attribute] : node.attributes) {
    if (!attribute.graph) continue;
    for (const NodeData& n : attribute.graph->nodes) add_names_read(n, names);
    for (const ValueData& v : attribute.graph->outputs) names.insert(v.name);
  }
}

// Rules that take parameters apart leave those behind that put them together.
void Exporter::drop_unread_nodes() {
  std::set<std::string> read;
  for (const ValueId v : graph_.outputs) read.insert(name_of(v));
  std::vector<NodeData> kept;
  for (auto node = model_.graph.nodes.rbegin(); node != model_.graph.nodes.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(), [&](const std::string& name) { return read.contains(name); })) continue;
    add_names_read(*node, read);
    kept.push_back(std::move(*node));
  }
  model_.graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(model_.graph.initializers, [&](const auto& i) { return !read.contains(i.first); });
}

std::string Exporter::fresh(const std::string& hint) { return fresh_name(used_, hint); }

std::string Exporter::name_of(ValueId v) const { return names_.at(v); }

void Exporter::name_values() {
  if (!is_body_)
    for (const auto& node : graph_.nodes)
      if (!node.op) used_.insert(node.name);
  for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
    const auto& node = graph_.node(n);
    const auto around = outside_.find(node.name);
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      names_[{n, i}] = node.op                                          ? fresh(output_name(node.op, node.attrs, node.name, i))
                       : node.is_variable() && around != outside_.end() ? around->second
                       : !is_body_                                      ? node.name
                                                                        : fresh(node.name);
  }
}

void Exporter::write_nodes() {
  check_all_known();
  name_values();
  for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
    const auto& node = graph_.node(n);
    if (!is_written_[static_cast<size_t>(n)]) continue;
    if (node.is_constant()) model_.graph.initializers.emplace_back(name_of({n, 0}), node.constant);
    if (!node.op) continue;
    if (!export_rules().contains(node.op->name)) {
      model_.graph.initializers.emplace_back(name_of({n, 0}), *value_of({n, 0}));
      continue;
    }
    try {
      export_rules().at(node.op->name)(ExportCall(*this, node, graph_, n));
    } catch (const AttrError& e) {
      raise<UserError>("{} (in {})", e.what(), node.str());
    }
  }
  drop_unread_nodes();
}

ValueData Exporter::value_data(const std::string& name, const Shape& shape, const Shape& other, DType dtype) const {
  ValueData value{.name = name, .type = element_type(dtype), .has_shape = true};
  for (int axis = 0; axis < shape.ndim(); ++axis) {
    const bool is_open = shape[axis] != other[axis];
    value.extents.push_back(is_open ? std::nullopt : std::optional<int64_t>(shape[axis]));
    value.extent_names.push_back(is_open ? fmt::format("{}_{}", name, axis) : "");
  }
  return value;
}

ModelData Exporter::run() {
  model_.producer = "gluino";
  model_.operator_sets[""] = version_;
  // IR versions go with operator sets; readers refuse one that is newer than they are.
  model_.ir_version = version_ >= 15 ? 8 : 7;
  model_.graph.name = "gluino";
  write_nodes();
  std::set<std::string> needed;
  for (const NodeData& n : model_.graph.nodes) add_names_read(n, needed);
  for (const ValueId v : graph_.outputs) needed.insert(name_of(v));
  for (const ExportInput& i : inputs_) {
    if (!needed.contains(i.name)) continue;
    ValueData value = value_data(i.name, i.shape, i.other_shape, i.dtype);
    value.extent_names = i.free_extents;
    model_.graph.inputs.push_back(std::move(value));
  }
  for (const auto& node : graph_.nodes)
    if (const auto p = parameters_.find(node.name); node.is_variable() && p != parameters_.end() && needed.contains(node.name))
      model_.graph.initializers.emplace_back(p->first, p->second);
  for (const ValueId v : graph_.outputs)
    model_.graph.outputs.push_back(value_data(name_of(v), graph_.shape(v), other_.shape(v), graph_.info(v).dtype.value_or(DType::float32)));
  return std::move(model_);
}

// ---- bodies

Exporter::Exporter(Graph body, const std::vector<ExportInput>& inputs, const std::vector<std::string>& names, const Exporter& outer)
    : graph_(std::move(body)), inputs_(inputs), version_(outer.version_), is_body_(true) {
  for (size_t i = 0; i < inputs.size(); ++i) outside_[inputs[i].name] = names[i];
  infer();
}

GraphData Exporter::write_body(Exporter& outer) {
  used_ = std::move(outer.used_);
  node_names_ = std::move(outer.node_names_);
  model_.graph.name = fresh("body");
  write_nodes();
  // An output may be an input or a value from around, but must be one of this graph's own.
  for (const ValueId v : graph_.outputs) {
    const std::string name = fresh(name_of(v) + "_out");
    model_.graph.nodes.push_back({"Identity", "", fresh_name(node_names_, name), {name_of(v)}, {name}, {}});
    model_.graph.outputs.push_back(value_data(name, graph_.shape(v), other_.shape(v), graph_.info(v).dtype.value_or(DType::float32)));
  }
  outer.used_ = std::move(used_);
  outer.node_names_ = std::move(node_names_);
  return std::move(model_.graph);
}

ExportCall::Outside ExportCall::input(int i) const {
  const ValueId v = node_.inputs.at(static_cast<size_t>(i));
  return {in(i), graph_.shape(v), exporter_.other_.shape(v), dtype(i)};
}
std::string ExportCall::fresh(const std::string& hint) const { return exporter_.fresh(hint); }
ValueData ExportCall::value_data(const Outside& v) const { return exporter_.value_data(v.name, v.shape, v.other_shape, v.dtype); }

GraphData ExportCall::part(const Symbol& body, const std::vector<Outside>& inputs) const {
  std::vector<int> variables;
  Graph graph = graph_in_call_order(body, variables);
  std::vector<ExportInput> given;
  std::vector<std::string> names;
  for (size_t i = 0; i < variables.size(); ++i) {
    // Bodies may have several variables of a name.
    std::string& own = graph.nodes[static_cast<size_t>(variables[i])].name = fmt::format("{}:{}", node_.name, i);
    given.push_back({.name = own, .shape = inputs.at(i).shape, .other_shape = inputs[i].other_shape, .dtype = inputs[i].dtype});
    names.push_back(inputs[i].name);
  }
  return Exporter(std::move(graph), given, names, exporter_).write_body(exporter_);
}

std::vector<std::string> ExportCall::inlined(const Symbol& body, const std::vector<Outside>& inputs) const {
  GraphData graph = part(body, inputs);
  GraphData& mine = exporter_.model_.graph;
  std::move(graph.nodes.begin(), graph.nodes.end(), std::back_inserter(mine.nodes));
  std::move(graph.initializers.begin(), graph.initializers.end(), std::back_inserter(mine.initializers));
  std::vector<std::string> names;
  for (const ValueData& v : graph.outputs) names.push_back(v.name);
  return names;
}

std::string ExportCall::inside(GraphData& graph, const std::function<std::string()>& f) const {
  std::swap(exporter_.model_.graph, graph);
  std::string result = f();
  std::swap(exporter_.model_.graph, graph);
  return result;
}

}  // namespace gluino::onnx
