// gluino diff: two models, or one in two modes, layer by layer: where they part.
#include <set>

#include "base/format.h"
#include "cli/command.h"
#include "cli/compare.h"
#include "cli/inputs.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "graph/observe.h"

namespace gluino::cli {
namespace {

struct DiffOptions {
  ModelOptions first, second;  // the second has no path: the first, eager and compiled
  InputOptions inputs;
  Tolerance tolerance;
  bool all = false;
};

// The value of every operator of a graph, in order.
struct Layers {
  std::vector<std::string> names, operators;
  Tensors values;
};

Layers run_layers(const Graph& graph, const std::vector<std::string>& names, const Tensors& inputs) {
  Layers layers;
  Progress progress("running layers");
  interpret_observed(graph, bind_inputs(graph, names, inputs), [&](size_t n, const Tensors& results, double) {
    progress.show(static_cast<double>(n) / static_cast<double>(graph.nodes.size()));
    layers.names.push_back(graph.node(static_cast<int>(n)).name);
    layers.operators.push_back(graph.node(static_cast<int>(n)).op->name);
    layers.values.push_back(results[0]);
  });
  return layers;
}

// A compiled program keeps some values in a layout of its own: those of another shape are not the same value.
void unpair_other_layouts(const Layers& a, const Layers& b, std::vector<int>& pairs) {
  for (size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i] >= 0 && !(a.values[i].shape() == b.values[static_cast<size_t>(pairs[i])].shape())) pairs[i] = -1;
}

// For each layer of a, the layer of b that it is compared with, or -1: the one of the same name; where few names are shared but the
// operators are the same ones in the same order, the one at the same place.
std::vector<int> pair_layers(const Layers& a, const Layers& b) {
  std::map<std::string, int> by_name;
  for (size_t i = 0; i < b.names.size(); ++i) by_name[b.names[i]] = static_cast<int>(i);
  std::vector<int> pairs;
  size_t shared = 0;
  for (const std::string& name : a.names) {
    const auto it = by_name.find(name);
    pairs.push_back(it == by_name.end() ? -1 : it->second);
    shared += it != by_name.end();
  }
  if (2 * shared < a.names.size() && a.operators == b.operators)
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<int>(i);
  return pairs;
}

// Parameters that both have under one name with other values, and those that only one of them has.
Json compare_parameters(const NamedTensors& a, const NamedTensors& b, const Tolerance& tolerance) {
  std::map<std::string, Tensor> others;
  for (const auto& [name, t] : b) others[bare_name(name)] = t;
  Json differing = Json::array(), only_first = Json::array(), only_second = Json::array();
  for (const auto& [spelling, t] : a) {
    const std::string name = bare_name(spelling);
    const auto it = others.find(name);
    if (it == others.end()) {
      only_first.push_back(name);
      continue;
    }
    const Difference d = compare(t, it->second, tolerance);
    if (!d.same) {
      Json entry = difference_json(d);
      entry["name"] = name;
      differing.push_back(std::move(entry));
    }
    others.erase(it);
  }
  for (const auto& [name, t] : others) only_second.push_back(name);
  return {{"differing", differing}, {"only_in_first", only_first}, {"only_in_second", only_second}};
}

Json compare_layers(const Layers& a, const Layers& b, const std::vector<int>& pairs, const Tolerance& tolerance) {
  Json layers = Json::array();
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] < 0) continue;
    Json entry{{"layer", a.names[i]}, {"operator", a.operators[i]}};
    const auto j = static_cast<size_t>(pairs[i]);
    if (b.names[j] != a.names[i]) entry["in_second"] = b.names[j];
    entry.update(difference_json(compare(a.values[i], b.values[j], tolerance)));
    layers.push_back(std::move(entry));
  }
  return layers;
}

std::string layer_text(const Json& layer) {
  const Json& largest = layer["largest_difference"];
  return layer.contains("why") ? layer["why"].get<std::string>()
         : largest.is_null()   ? "one has values that are not numbers"
                               : fmt::format("{:.3g}", largest.get<double>());
}

void print_names(const char* what, const Json& names) {
  if (!names.empty()) fmt::print("{}: {}\n", what, fmt::join(names.get<std::vector<std::string>>(), ", "));
}

void print_report(const Json& report, bool all) {
  if (report.contains("parameters")) {
    const Json& p = report["parameters"];
    print_names("parameters of the first model alone", p["only_in_first"]);
    print_names("parameters of the second model alone", p["only_in_second"]);
    if (!p["differing"].empty())
      fmt::print("{} parameters have other values, first {}\n", p["differing"].size(), p["differing"][0]["name"].get<std::string>());
  }
  Rows rows;
  for (const Json& layer : report["layers"])
    if (all) rows.push_back({layer["layer"], layer["operator"], layer["same"].get<bool>() ? "same" : "differs", layer_text(layer)});
  fmt::print("{}{} layers compared\n", table(rows, "lllr"), report["layers"].size());
  if (!report["first_difference"].is_null()) {
    const Json& first = report["first_difference"];
    fmt::print("the first layer that differs: {} ({}), by {}\n", first["layer"].get<std::string>(), first["operator"].get<std::string>(),
               layer_text(first));
  }
  fmt::print("outputs: {}\n", report["outputs"]["same"].get<bool>() ? "the same" : "differ, by " + layer_text(report["outputs"]));
}

int diff(const DiffOptions& options, bool json) {
  const std::vector<std::string> named = named_inputs(options.inputs);
  LoadedModel first = load_model(options.first, named);
  const Tensors inputs = make_inputs(first, options.inputs, true);
  const ModelProgram program = make_program(first, inputs);
  Json report;
  Layers a = run_layers(program.graph, first.inputs, inputs), b;
  const Tensors eager = interpret(program.graph, bind_inputs(program.graph, first.inputs, inputs));
  Tensors other;
  if (options.second.path.empty()) {
    const Graph compiled = program.compile().after;
    b = run_layers(compiled, first.inputs, inputs);
    other = interpret(compiled, bind_inputs(compiled, first.inputs, inputs));
  } else {
    LoadedModel second = load_model(options.second, named);
    if (second.inputs.size() != inputs.size())
      raise<UserError>("the models have {} and {} inputs, so they cannot be given the same", inputs.size(), second.inputs.size());
    const ModelProgram second_program = make_program(second, inputs);
    report["parameters"] = compare_parameters(first.files.parameters, second.files.parameters, options.tolerance);
    b = run_layers(second_program.graph, second.inputs, inputs);
    other = interpret(second_program.graph, bind_inputs(second_program.graph, second.inputs, inputs));
  }
  std::vector<int> pairs = pair_layers(a, b);
  if (options.second.path.empty()) unpair_other_layouts(a, b, pairs);
  report["layers"] = compare_layers(a, b, pairs, options.tolerance);
  report["first_difference"] = nullptr;
  for (const Json& layer : report["layers"])
    if (report["first_difference"].is_null() && !layer["same"].get<bool>()) report["first_difference"] = layer;
  const Difference outputs = compare(eager, other, options.tolerance);
  report["outputs"] = difference_json(outputs);
  if (json)
    print_json(report);
  else
    print_report(report, options.all);
  return outputs.same && report["first_difference"].is_null() ? 0 : 1;
}

}  // namespace

void add_diff(Commands& commands) {
  auto options = std::make_shared<DiffOptions>();
  Command command = commands.add(
      "diff",
      "Runs two models on the same input, or one eagerly and compiled, and names the first layer that differs. Exit code 1: they do.");
  add_model_options(command, options->first);
  command.option("OTHER", options->second.path, "the model to compare with; left out: the same one after the passes of hybridize()");
  command.option("--other-params", options->second.params, "the other model's parameters").type("FILE");
  command.flag("--all", options->all, "show every layer");
  add_input_options(command, options->inputs);
  add_shape_options(command, options->inputs);
  add_tolerance_options(command, options->tolerance);
  command.runs([options](bool json) {
    options->second.random_weights = options->first.random_weights;
    return diff(*options, json);
  });
}

}  // namespace gluino::cli
