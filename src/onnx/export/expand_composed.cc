#include "onnx/export/expand_composed.h"

#include "base/format.h"
#include "dispatch/composition.h"
#include "graph/trace.h"

namespace gluino::onnx {

// The calls that a node is, on variables in place of its inputs; results that no input takes part in are variables too, with their values.
static Graph parts_of(const Graph& graph, const Graph::Node& node, std::vector<std::string>& variables, TensorMap& fixed) {
  Tensors inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const OutputInfo& info = graph.info(node.inputs[i]);
    variables.push_back(fmt::format("input{}", i));
    const Symbol s = sym::var(variables.back(), {.shape = *info.shape, .dtype = *info.dtype});
    inputs.push_back(gluino::tensor_of(s.outputs().at(0), *info.shape, *info.dtype, current_device()));
  }
  std::vector<Symbol> heads;
  for (const Tensor& t : apply(*node.op, inputs, node.attrs)) {
    if (t.is_symbolic()) {
      heads.push_back(Symbol(t));
      continue;
    }
    const std::string name = fmt::format("fixed{}", fixed.size());
    fixed[name] = t;
    heads.push_back(sym::var(name, {.shape = t.shape(), .dtype = t.dtype()}));
  }
  return sym::group(heads).graph();
}

static bool is_known(const Graph& graph, const Graph::Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return graph.info(v).shape && graph.info(v).shape->is_known() && graph.info(v).dtype; });
}

Graph expand_composed(const Graph& graph, const std::function<bool(const OpDef&)>& stays) {
  Graph out;
  std::map<ValueId, ValueId> now;  // where the values of `graph` are in `out`
  const auto add = [&](Graph::Node node, const std::map<ValueId, ValueId>& places) {
    for (ValueId& v : node.inputs) v = places.at(v);
    for (OutputInfo& info : node.outputs) info = {};
    return out.add(std::move(node));
  };
  for (int n = 0; n < static_cast<int>(graph.nodes.size()); ++n) {
    const Graph::Node& node = graph.node(n);
    if (!node.op || !is_composed(*node.op) || stays(*node.op) || !is_known(graph, node)) {
      const int number = add(node, now);
      for (int i = 0; i < static_cast<int>(node.outputs.size()); ++i) now[{n, i}] = {number, i};
      continue;
    }
    std::vector<std::string> variables;
    TensorMap fixed;
    const Graph parts = expand_composed(parts_of(graph, node, variables, fixed), stays);
    std::map<ValueId, ValueId> inside;
    for (int k = 0; k < static_cast<int>(parts.nodes.size()); ++k) {
      Graph::Node part = parts.node(k);
      if (const auto value = fixed.find(part.name); part.is_variable() && value != fixed.end()) part.constant = value->second;
      if (part.is_variable()) {
        const auto at = std::find(variables.begin(), variables.end(), part.name) - variables.begin();
        inside[{k, 0}] = now.at(node.inputs.at(static_cast<size_t>(at)));
        continue;
      }
      part.name = fmt::format("{}_{}", node.name, part.name);
      part.origin = node.origin;
      const int number = add(std::move(part), inside);
      for (int i = 0; i < static_cast<int>(parts.node(k).outputs.size()); ++i) inside[{k, i}] = {number, i};
    }
    for (int i = 0; i < static_cast<int>(parts.outputs.size()); ++i) now[{n, i}] = inside.at(parts.outputs[static_cast<size_t>(i)]);
  }
  for (const ValueId v : graph.outputs) out.outputs.push_back(now.at(v));
  return out;
}

}  // namespace gluino::onnx
