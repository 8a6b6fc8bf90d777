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

// Rules that take parameters apart leave those behind that put them together.
void Exporter::drop_unread_nodes() {
  std::set<std::string> read;
  for (const ValueId v : graph_.outputs) read.insert(name_of(v));
  std::vector<NodeData> kept;
  for (auto node = model_.graph.nodes.rbegin(); node != model_.graph.nodes.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(), [&](const std::string& name) { return read.contains(name); })) continue;
    read.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  model_.graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(model_.graph.initializers, [&](const auto& i) { return !read.contains(i.first); });
}

std::string Exporter::fresh(const std::string& hint) { return fresh_name(used_, hint); }

std::string Exporter::name_of(ValueId v) const { return names_.at(v); }

ModelData Exporter::run() {
  check_all_known();
  model_.producer = "gluino";
  model_.operator_sets[""] = version_;
  // IR versions go with operator sets; readers refuse one that is newer than they are.
  model_.ir_version = version_ >= 15 ? 8 : 7;
  model_.graph.name = "gluino";
  for (const auto& node : graph_.nodes)
    if (!node.op) used_.insert(node.name);
  for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
    const auto& node = graph_.node(n);
    for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i)
      names_[{n, i}] = node.op ? fresh(output_name(node.op, node.attrs, node.name, i)) : node.name;
  }
  for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) {
    const auto& node = graph_.node(n);
    if (!node.op || !is_written_[static_cast<size_t>(n)]) continue;
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
  std::set<std::string> needed;
  for (const NodeData& n : model_.graph.nodes) needed.insert(n.inputs.begin(), n.inputs.end());
  for (const ValueId v : graph_.outputs) needed.insert(name_of(v));
  for (const ExportInput& i : inputs_) {
    if (!needed.contains(i.name)) continue;
    ValueData value{.name = i.name, .type = element_type(i.dtype), .has_shape = true};
    for (int axis = 0; axis < i.shape.ndim(); ++axis) {
      const std::string free = axis < static_cast<int>(i.free_extents.size()) ? i.free_extents[static_cast<size_t>(axis)] : "";
      value.extents.push_back(free.empty() ? std::optional<int64_t>(i.shape[axis]) : std::nullopt);
      value.extent_names.push_back(free);
    }
    model_.graph.inputs.push_back(std::move(value));
  }
  for (const auto& node : graph_.nodes) {
    if (node.op || !needed.contains(node.name)) continue;
    if (node.is_constant()) model_.graph.initializers.emplace_back(node.name, node.constant);
    if (const auto p = parameters_.find(node.name); p != parameters_.end()) model_.graph.initializers.emplace_back(p->first, p->second);
  }
  for (const ValueId v : graph_.outputs) {
    ValueData value{.name = name_of(v), .type = element_type(graph_.info(v).dtype.value_or(DType::float32)), .has_shape = true};
    for (int axis = 0; axis < graph_.shape(v).ndim(); ++axis) {
      const bool is_open = is_free(v, axis);
      value.extents.push_back(is_open ? std::nullopt : std::optional<int64_t>(graph_.shape(v)[axis]));
      value.extent_names.push_back(is_open ? fmt::format("{}_{}", value.name, axis) : "");
    }
    model_.graph.outputs.push_back(std::move(value));
  }
  return std::move(model_);
}

}  // namespace gluino::onnx
