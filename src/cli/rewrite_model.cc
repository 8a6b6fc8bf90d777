#include "cli/rewrite_model.h"

#include <set>

#include "base/format.h"
#include "cli/program.h"
#include "dispatch/compiler_rules.h"
#include "graph/interpret.h"
#include "passes/fold_batch_norm.h"

namespace gluino::cli {
namespace {

// Which nodes compute something from constants alone.
std::vector<bool> find_computed_constants(const Graph& graph) {
  std::vector<bool> computed(graph.nodes.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& node = graph.nodes[n];
    if (!node.op || node.inputs.empty() || has_effect(node)) continue;
    computed[n] =
        std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return graph.node(v).is_constant() || computed[v.node]; });
  }
  return computed;
}

// The graph in which values that follow from constants alone, and the constants themselves, are variables again, with their values.
RewrittenModel with_parameters(Graph graph, const std::vector<std::string>& inputs) {
  const std::vector<bool> computed = find_computed_constants(graph);
  Rewriter rewriter(graph);
  RewrittenModel model{.inputs = inputs};
  std::set<std::string> names;
  std::map<ValueId, ValueId> parameters;  // what became a variable
  Graph wanted{.nodes = graph.nodes, .outputs = {}};
  std::vector<std::string> wanted_names;
  const auto parameter_for = [&](ValueId v, const std::string& name) {
    if (const auto it = parameters.find(v); it != parameters.end()) return it->second;
    std::string unique = name;
    for (int k = 1; !names.insert(unique).second; ++k) unique = fmt::format("{}{}", name, k);
    const int number = rewriter.add({.name = unique, .outputs = {graph.info(v)}});
    wanted.outputs.push_back(v);
    wanted_names.push_back(unique);
    return parameters[v] = ValueId{number, 0};
  };
  for (const auto& node : graph.nodes)
    if (node.is_variable()) names.insert(node.name);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& node = graph.nodes[n];
    if (node.is_constant() || computed[n]) continue;
    Graph::Node copy = node;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      const auto& source = graph.node(v);
      if (source.is_constant())
        copy.inputs[i] = parameter_for(v, source.name);
      else if (computed[v.node])
        copy.inputs[i] = parameter_for(v, node.name + "_" + node.op->input_spec(node.attrs, i).name);
      else
        copy.inputs[i] = rewriter.mapped(v);
    }
    rewriter.put(static_cast<int>(n), std::move(copy));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (computed[n] || graph.nodes[n].is_constant()) {
      std::vector<ValueId> values;
      for (size_t i = 0; i < graph.nodes[n].outputs.size(); ++i) {
        const ValueId v{static_cast<int>(n), static_cast<int>(i)};
        const bool is_output = std::find(graph.outputs.begin(), graph.outputs.end(), v) != graph.outputs.end();
        values.push_back(is_output ? parameter_for(v, graph.nodes[n].name) : ValueId{});
      }
      rewriter.replace(static_cast<int>(n), values);
    }
  Graph rewritten = rewriter.finish();
  for (auto& node : rewritten.nodes)
    for (OutputInfo& o : node.outputs) o = {};  // the new model takes other shapes too
  model.symbol = Symbol::from_graph(std::move(rewritten));
  // What the constants give is computed without the inputs, which nothing wanted reads.
  std::vector<Tensor> values(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (!graph.nodes[n].is_constant() && !computed[n]) wanted.nodes[n] = {.name = graph.nodes[n].name, .outputs = graph.nodes[n].outputs};
  const Tensors results = interpret(wanted, values);
  for (size_t i = 0; i < results.size(); ++i) model.parameters.emplace_back(wanted_names[i], results[i]);
  return model;
}

int count_norms(const Graph& graph) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Graph::Node& n) { return static_cast<bool>(rules_of(n.op).channel_affine); }));
}

}  // namespace

int fold_batch_norms(RewrittenModel& model, const ShapeMap& shapes, const DTypeMap& types) {
  const ModelProgram program = make_program(model.symbol, model.parameters, model.inputs, shapes, types);
  if (!program.is_complete)
    raise<UsageError>(
        "--fold-batch-norm: the shapes of the inputs are not known; give them with --shape, for instance --shape {}=1,3,224,224",
        model.inputs.empty() ? "data" : model.inputs[0]);
  // Labels have no value in files; they stay variables.
  Graph graph = program.graph;
  for (auto& node : graph.nodes) {
    const bool given =
        std::any_of(model.parameters.begin(), model.parameters.end(), [&](const auto& p) { return bare_name(p.first) == node.name; });
    if (node.is_constant() && !given) node.constant = Tensor();
  }
  const int norms = count_norms(graph);
  Graph folded = fold_batch_norm(std::move(graph), {});
  const int count = norms - count_norms(folded);
  model = with_parameters(std::move(folded), model.inputs);
  return count;
}

void cast_model(RewrittenModel& model, DType dtype) {
  Graph graph = model.symbol.graph();
  std::vector<bool> stays(graph.nodes.size(), false);
  for (const auto& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (graph.node(node.inputs[i]).op) continue;
      const InputSpec& spec = node.op->input_spec(node.attrs, i);
      if (spec.own_dtype || spec.wide_dtype || node.op->is_state_input(node.attrs, i)) stays[node.inputs[i].node] = true;
    }
  std::set<std::string> kept;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (stays[n]) kept.insert(graph.nodes[n].name);
  Rewriter rewriter(graph);
  const OpDef& cast = OpRegistry::global().get("Cast");
  const auto casted = [&](ValueId v, DType to, const std::string& name) {
    return ValueId{rewriter.add({.op = &cast,
                                 .name = name,
                                 .attrs = cast.parse_attrs({{"dtype", std::string(dtype_name(to))}}),
                                 .inputs = {v},
                                 .outputs = std::vector<OutputInfo>(1)}),
                   0};
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto& node = graph.nodes[n];
    const int number = rewriter.keep(static_cast<int>(n));
    const bool is_input = std::find(model.inputs.begin(), model.inputs.end(), node.name) != model.inputs.end();
    if (node.is_variable() && is_input && !stays[n])
      rewriter.replace({static_cast<int>(n), 0}, casted({number, 0}, dtype, node.name + "_cast"));
  }
  const std::vector<std::string> names = model.symbol.list_outputs();
  Graph result = rewriter.finish();
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    result.outputs[i] =
        ValueId{result.add({.op = &cast,
                            .name = names[i].ends_with("_output") ? names[i].substr(0, names[i].size() - 7) + "_cast" : names[i] + "_cast",
                            .attrs = cast.parse_attrs({{"dtype", "float32"}}),
                            .inputs = {result.outputs[i]},
                            .outputs = std::vector<OutputInfo>(1)}),
                0};
  }
  for (auto& [name, t] : model.parameters)
    if (is_floating(t.dtype()) && !kept.contains(bare_name(name))) t = t.astype(dtype);
  model.symbol = Symbol::from_graph(std::move(result));
}

}  // namespace gluino::cli
