#include "onnx/symbol.h"

#include <set>

#include "base/format.h"
#include "gluino/ops.h"
#include "graph/graph.h"
#include "graph/trace.h"

namespace gluino::onnx {

static Tensor variable(const std::string& name, const Shape& shape, DType dtype) {
  const Symbol s = sym::var(name, {.shape = shape, .dtype = dtype});
  return gluino::tensor_of(s.outputs().at(0), shape, dtype, current_device());
}

ModelSymbol to_symbol(const Program& program, const ShapeMap& shapes) {
  ModelSymbol out;
  Tensors inputs, parameters;
  for (const ValueData& v : program.inputs()) {
    Shape shape;
    if (const auto given = shapes.find(v.name); given != shapes.end())
      shape = given->second;
    else
      for (const auto& extent : v.extents) shape.push_back(extent.value_or(1));
    inputs.push_back(variable(v.name, shape, carrier(v.type, v.name)));
  }
  for (const auto& [name, value] : program.parameters()) {
    parameters.push_back(variable(name, value.shape(), value.dtype()));
    out.parameters.emplace_back(name, value);
  }
  std::vector<Symbol> heads;
  for (const Tensor& t : program.run(inputs, parameters)) {
    if (!t.is_symbolic()) out.parameters.emplace_back(fmt::format("constant_output{}", heads.size()), t);
    heads.push_back(t.is_symbolic() ? Symbol(t) : sym::var(out.parameters.back().first, {.shape = t.shape(), .dtype = t.dtype()}));
  }
  // Files hold variables, not constants.
  Graph graph = sym::group(heads).graph();
  std::set<std::string> names;
  for (const auto& node : graph.nodes) names.insert(node.name);
  for (auto& node : graph.nodes)
    if (node.is_constant()) {
      std::string name = "constant0";
      for (int i = 1; !names.insert(name).second; ++i) name = "constant" + std::to_string(i);
      node.name = name;
      out.parameters.emplace_back(name, node.constant);
      node.constant = Tensor();
    }
  out.symbol = Symbol::from_graph(std::move(graph));
  return out;
}

}  // namespace gluino::onnx
