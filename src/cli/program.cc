#include "cli/program.h"

#include "graph/interpret.h"

namespace gluino::cli {

ModelProgram make_program(const Symbol& symbol, const NamedTensors& parameters, const std::vector<std::string>& inputs,
                          const ShapeMap& shapes, const DTypeMap& types) {
  ModelProgram program{.graph = symbol.graph(), .shapes = shapes, .types = types};
  for (const auto& [name, t] : parameters) {
    if (std::find(inputs.begin(), inputs.end(), bare_name(name)) != inputs.end()) continue;
    program.shapes.try_emplace(bare_name(name), t.shape());
    program.types.try_emplace(bare_name(name), t.dtype());
  }
  infer_graph(program.graph, program.shapes, program.types);
  program.is_complete = is_complete(program.graph);
  for (auto& node : program.graph.nodes) {
    if (!node.is_variable() || std::find(inputs.begin(), inputs.end(), node.name) != inputs.end()) continue;
    for (const std::string& spelling : {node.name, "arg:" + node.name, "aux:" + node.name})
      if (const Tensor* t = find_tensor(parameters, spelling)) node.constant = *t;
    if (!node.constant.defined() && program.is_complete) node.constant = empty(*node.outputs[0].shape, {.dtype = *node.outputs[0].dtype});
  }
  return program;
}

ModelProgram make_program(const LoadedModel& model, const Tensors& inputs) {
  ShapeMap shapes;
  DTypeMap types;
  for (size_t i = 0; i < model.inputs.size(); ++i) shapes[model.inputs[i]] = inputs[i].shape(), types[model.inputs[i]] = inputs[i].dtype();
  if (!model.symbol) {
    const ModelGraph graph = read_graph(model.files, shapes);
    return make_program(graph.symbol, graph.parameters, graph.inputs, shapes, types);
  }
  bool needs_call = false;
  for (const auto& [name, p] : model.net->own_parameters()) needs_call = needs_call || !p->is_initialized();
  if (needs_call) (*model.net)(inputs);
  NamedTensors parameters;
  for (const auto& [name, p] : model.net->own_parameters())
    if (p->is_initialized()) parameters.emplace_back(name, p->data().detach());
  return make_program(*model.symbol, parameters, model.inputs, shapes, types);
}

Tensors plan_variables(const CompiledGraph& compiled, const std::vector<std::string>& names, const Tensors& inputs) {
  Tensors variables;
  for (int slot : compiled.plan.variables) {
    const std::string& name = compiled.after.node(compiled.plan.slots[slot].node).name;
    variables.push_back(inputs.at(static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin())));
  }
  return variables;
}

std::vector<Tensor> bind_inputs(const Graph& graph, const std::vector<std::string>& names, const Tensors& inputs) {
  TensorMap given;
  for (size_t i = 0; i < names.size(); ++i) given[names[i]] = inputs[i];
  return bind_variables(graph, given, "the model");
}

}  // namespace gluino::cli
