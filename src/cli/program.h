// The program that a model's graph is when it runs: its parameters are constants, its shapes known.
#pragma once
#include "cli/model.h"
#include "exec/pipeline.h"

namespace gluino::cli {

struct ModelProgram {
  Graph graph;  // with inferred shapes; the inputs are its variables
  ShapeMap shapes;
  DTypeMap types;
  bool is_complete = false;  // every shape is known
  CompiledGraph compile() const { return gluino::compile(graph, {.shapes = shapes, .types = types}); }
};

// Without running anything. Parameters that no file gives get memory without values where their shapes are known.
ModelProgram make_program(const Symbol& symbol, const NamedTensors& parameters, const std::vector<std::string>& inputs,
                          const ShapeMap& shapes, const DTypeMap& types);
// For these inputs, with the values that the network has; it is called once where weights are still to be drawn.
ModelProgram make_program(const LoadedModel& model, const Tensors& inputs);

// What the variables of a graph are given, for interpret().
Tensors plan_variables(const CompiledGraph& compiled, const std::vector<std::string>& names, const Tensors& inputs);  // for PlanRunner
std::vector<Tensor> bind_inputs(const Graph& graph, const std::vector<std::string>& names, const Tensors& inputs);

}  // namespace gluino::cli
