#include "onnx/description.h"

#include <algorithm>

#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {

ValueDescription describe(const ValueData& v) {
  ValueDescription value{v.name, std::nullopt, std::nullopt};
  try {
    value.dtype = carrier(v.type, v.name);
  } catch (const DTypeError&) {
    // Then it is not known before the call.
  }
  if (!v.has_shape || v.extents.size() > Shape::kMaxAxes) return value;
  value.shape.emplace();
  for (const auto& extent : v.extents) value.shape->push_back(extent.value_or(Shape::kUnknown));
  return value;
}

ModelDescription describe(const Program& program) {
  ModelDescription description;
  for (const ValueData& v : program.inputs()) description.inputs.push_back(describe(v));
  for (const ValueData& v : program.outputs()) description.outputs.push_back(describe(v));
  return description;
}

namespace {

bool is_function(const ModelData& model, const NodeData& node) {
  return std::any_of(model.functions.begin(), model.functions.end(),
                     [&](const FunctionData& f) { return f.name == node.type && f.domain == node.domain; });
}

void add_nodes(const ModelData& model, const std::vector<NodeData>& nodes, const std::map<std::string, int64_t>& sets,
               std::vector<NodeSummary>& all) {
  for (const NodeData& node : nodes) {
    const auto set = sets.find(node.domain);
    all.push_back({.type = node.domain.empty() ? node.type : node.domain + "." + node.type,
                   .text = fmt::format("{} of operator set {}{}", describe_node(node), node.domain.empty() ? "" : node.domain + " ",
                                       set == sets.end() ? 1 : set->second),
                   .has_rule = is_function(model, node) || Rules::all().find(node.domain, node.type)});
    for (const auto& [name, a] : node.attributes)
      if (a.graph) add_nodes(model, a.graph->nodes, sets, all);
  }
}

}  // namespace

std::vector<NodeSummary> summarize_nodes(const ModelData& model) {
  std::vector<NodeSummary> all;
  add_nodes(model, model.graph.nodes, model.operator_sets, all);
  for (const FunctionData& f : model.functions) add_nodes(model, f.nodes, f.operator_sets, all);
  return all;
}

}  // namespace gluino::onnx
