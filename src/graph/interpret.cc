#include "graph/observe.h"

#include <chrono>

#include "base/format.h"
#include "dispatch/infer.h"
#include "gluino/autograd.h"

namespace gluino {
namespace {

// An operator without inputs whose shape the file left open (0 stands for "infer" there) gets the inferred one.
Attrs attrs_with_inferred_shape(const Graph::Node& node) {
  if (!node.inputs.empty() || !node.outputs[0].shape || !node.outputs[0].shape->is_known()) return node.attrs;
  for (const AttrField& f : node.op->fields)
    if (f.name == "shape" && f.type.find("Shape") != std::string::npos &&
        f.print(node.attrs.get()) != AttrType<Shape>::print(*node.outputs[0].shape)) {
      std::shared_ptr<void> copy = node.op->copy_attrs(node.attrs.get());
      f.set(copy.get(), node.name, *node.outputs[0].shape);
      return copy;
    }
  return node.attrs;
}

// How many later nodes and outputs read each node: a value is dropped after its last reader.
std::vector<int> count_readers(const Graph& graph) {
  std::vector<int> readers(graph.nodes.size(), 0);
  for (const auto& node : graph.nodes)
    for (ValueId v : node.inputs) ++readers[v.node];
  for (ValueId v : graph.outputs) ++readers[v.node];
  return readers;
}

}  // namespace

Tensors interpret(const Graph& graph, const std::vector<Tensor>& values) { return interpret_observed(graph, values, {}); }

Tensors interpret_observed(const Graph& graph, const std::vector<Tensor>& values, const NodeObserver& observer) {
  using Clock = std::chrono::steady_clock;
  std::vector<Tensors> results(graph.nodes.size());
  std::vector<int> readers = count_readers(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& node = graph.node(i);
    if (!node.op) {
      results[i] = {values[i].defined() ? values[i] : node.constant};
      continue;
    }
    Tensors inputs;
    for (ValueId v : node.inputs) inputs.push_back(results[v.node][v.index]);
    const Clock::time_point start = observer ? Clock::now() : Clock::time_point();
    try {
      std::optional<autograd::Scope> scope;
      if (node.mode != CallMode{}) scope.emplace(node.mode.is_paused ? std::optional(false) : std::nullopt, node.mode.training);
      results[i] = apply(*node.op, inputs, attrs_with_inferred_shape(node));
    } catch (const UserError& e) {
      rethrow_as(fmt::format("{} (in {})", e.what(), node.str()), Located::in_network);
    }
    if (observer) observer(i, results[i], std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    for (ValueId v : node.inputs)
      if (--readers[v.node] == 0) results[v.node].clear();
  }
  Tensors outputs;
  for (ValueId v : graph.outputs) outputs.push_back(results[v.node][v.index]);
  return outputs;
}

std::vector<Tensor> bind_variables(const Graph& graph, const TensorMap& tensors, std::string_view what) {
  std::vector<Tensor> values(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!graph.node(i).is_variable()) continue;
    const auto it = tensors.find(graph.node(i).name);
    if (it == tensors.end() || !it->second.defined()) raise<UserError>("{}: no tensor was given for '{}'", what, graph.node(i).name);
    values[i] = it->second;
  }
  return values;
}

}  // namespace gluino
