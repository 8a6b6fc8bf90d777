// gluino inspect: what a model file holds, without running it.
#include <map>

#include "base/format.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/program.h"
#include "cli/report.h"
#include "graph/work.h"
#include "io/symbol_summary.h"
#include "onnx/description.h"

namespace gluino::cli {
namespace {

struct InspectOptions {
  ModelOptions model;
  InputOptions inputs;
  bool graph = false, arrays = false;
};

std::string shape_text(const std::optional<Shape>& shape) {
  if (!shape) return "?";
  std::vector<std::string> extents;
  for (int64_t extent : *shape) extents.push_back(extent == Shape::kUnknown ? "?" : std::to_string(extent));
  return fmt::format("({}{})", fmt::join(extents, ", "), extents.size() == 1 ? "," : "");
}
Json shape_json(const std::optional<Shape>& shape) {
  if (!shape) return nullptr;
  Json extents = Json::array();
  for (int64_t extent : *shape) extents.push_back(extent == Shape::kUnknown ? Json(nullptr) : Json(extent));
  return extents;
}

Json describe_arrays(const NamedTensors& arrays, bool each) {
  int64_t elements = 0, bytes = 0;
  std::map<std::string, int> by_type;
  Json list = Json::array();
  for (const auto& [name, t] : arrays) {
    elements += t.size();
    bytes += t.nbytes();
    ++by_type[std::string(dtype_name(t.dtype()))];
    list.push_back({{"name", name}, {"shape", shape_json(t.shape())}, {"dtype", std::string(dtype_name(t.dtype()))}});
  }
  Json report{{"arrays", arrays.size()}, {"elements", elements}, {"bytes", bytes}, {"dtypes", by_type}};
  if (each) report["list"] = list;
  return report;
}

struct NodeOfFile {
  std::string op, name;
  bool is_known = false;
};
std::vector<NodeOfFile> nodes_of(const io::SymbolSummary& summary) {
  std::vector<NodeOfFile> nodes;
  for (const auto& n : summary.nodes)
    if (n.op != "null")
      nodes.push_back({n.op, n.inside.empty() ? n.name : n.inside + "/" + n.name, OpRegistry::global().find(n.op) != nullptr});
  return nodes;
}
std::vector<NodeOfFile> nodes_of(const onnx::ModelData& model) {
  std::vector<NodeOfFile> nodes;
  for (const onnx::NodeSummary& n : onnx::summarize_nodes(model)) nodes.push_back({n.type, n.text, n.has_rule});
  return nodes;
}

// Operators by kind, most frequent first, and those that gluino does not have, each with the nodes that need it.
void describe_operators(const std::vector<NodeOfFile>& nodes, Json& report) {
  std::map<std::string, int> counts;
  Json missing = Json::array();
  std::map<std::string, std::vector<std::string>> nodes_of_missing;
  for (const NodeOfFile& node : nodes) {
    ++counts[node.op];
    if (!node.is_known) nodes_of_missing[node.op].push_back(node.name);
  }
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  report["operators"] = Json::array();
  for (const auto& [op, count] : sorted) report["operators"].push_back({{"name", op}, {"count", count}});
  for (const auto& [op, nodes] : nodes_of_missing) missing.push_back({{"operator", op}, {"nodes", nodes}});
  report["unsupported"] = missing;
}

Json describe_values(const Graph& graph, const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names)
    for (const auto& node : graph.nodes)
      if (!node.op && node.name == name)
        list.push_back({{"name", name},
                        {"shape", shape_json(node.outputs[0].shape)},
                        {"dtype", node.outputs[0].dtype ? Json(std::string(dtype_name(*node.outputs[0].dtype))) : Json(nullptr)}});
  return list;
}

// Work and memory: where every shape is known.
void describe_costs(const ModelProgram& program, Json& report) {
  std::map<std::string, int64_t> by_kind;
  int64_t total = 0;
  for (const auto& node : program.graph.nodes) {
    const int64_t operations = operations_of(program.graph, node);
    if (node.op) by_kind[node.op->name] += operations;
    total += operations;
  }
  report["flops"] = {{"total", total}, {"by_operator", by_kind}};
  const Plan plan = program.compile().plan;
  int64_t kept = 0;
  for (const Derived& d : plan.derived) kept += plan.slots[d.slot].bytes;
  report["memory"] = {{"planned_bytes", plan.arena_bytes},
                      {"unplanned_bytes", plan.unplanned_bytes},
                      {"kept_weights_bytes", kept},
                      {"steps", plan.steps.size()}};
}

Json describe_values(const std::vector<ValueDescription>& values) {
  Json list = Json::array();
  for (const ValueDescription& v : values)
    list.push_back(
        {{"name", v.name}, {"shape", shape_json(v.shape)}, {"dtype", v.dtype ? Json(std::string(dtype_name(*v.dtype))) : Json(nullptr)}});
  return list;
}

// What the file says, with the shapes that the command line gives; work and memory where all are known.
void describe_program(const ModelFiles& files, const InspectOptions& options, Json& report) {
  ModelDescription description = onnx::describe(*files.onnx);
  ShapeMap shapes = given_shapes(options.inputs);
  DTypeMap types = given_dtypes(options.inputs);
  bool is_complete = true;
  for (ValueDescription& v : description.inputs) {
    if (const auto given = shapes.find(v.name); given != shapes.end()) v.shape = given->second;
    is_complete = is_complete && v.shape && v.shape->is_known();
    if (v.shape && v.shape->is_known()) shapes[v.name] = *v.shape;
    if (v.dtype) types.try_emplace(v.name, *v.dtype);
  }
  for (const std::string& name : named_inputs(options.inputs))
    if (std::find(files.inputs.begin(), files.inputs.end(), name) == files.inputs.end())
      raise<UsageError>("the model has no input '{}'{}; its inputs are: {}", name, did_you_mean(name, files.inputs),
                        fmt::join(files.inputs, ", "));
  report["inputs"] = describe_values(description.inputs);
  report["labels"] = Json::array();
  report["outputs"] = describe_values(description.outputs);
  if (!is_complete) return;
  const ModelGraph graph = read_graph(files, shapes);
  const ModelProgram program = make_program(graph.symbol, graph.parameters, graph.inputs, shapes, types);
  if (program.is_complete) describe_costs(program, report);
  if (options.graph) report["graph"] = program.graph.str();
}

void describe_graph(const ModelFiles& files, const InspectOptions& options, Json& report) {
  if (files.onnx) return describe_program(files, options, report);
  const Symbol symbol = Symbol::from_json(files.symbol_json, files.symbol_path);
  std::vector<std::string> inputs = files.inputs.empty() ? guess_inputs(symbol, files.parameters) : files.inputs;
  const std::vector<std::string> variables = symbol.list_inputs();
  for (const std::string& name : named_inputs(options.inputs)) {
    if (std::find(variables.begin(), variables.end(), name) == variables.end())
      raise<UsageError>("the model has no input '{}'{}; its inputs are: {}", name, did_you_mean(name, inputs), fmt::join(inputs, ", "));
    if (std::find(inputs.begin(), inputs.end(), name) == inputs.end()) inputs.push_back(name);
  }
  const ModelProgram program = make_program(symbol, files.parameters, inputs, given_shapes(options.inputs), given_dtypes(options.inputs));
  const Graph& graph = program.graph;
  report["inputs"] = describe_values(graph, inputs);
  std::vector<std::string> labels;
  for (const std::string& name : variables)
    if (looks_like_label(name) && std::find(inputs.begin(), inputs.end(), name) == inputs.end()) labels.push_back(name);
  report["labels"] = describe_values(graph, labels);
  report["outputs"] = Json::array();
  const std::vector<std::string> names = symbol.list_outputs();
  for (size_t i = 0; i < names.size(); ++i)
    report["outputs"].push_back({{"name", names[i]}, {"shape", shape_json(graph.info(graph.outputs[i]).shape)}});
  if (program.is_complete) describe_costs(program, report);
  if (options.graph) report["graph"] = graph.str();
}

std::string values_text(const Json& values) {
  Rows rows;
  for (const Json& v : values) {
    std::optional<Shape> shape;
    if (!v["shape"].is_null()) {
      shape.emplace();
      for (const Json& extent : v["shape"]) shape->push_back(extent.is_null() ? Shape::kUnknown : extent.get<int64_t>());
    }
    rows.push_back({v["name"], shape_text(shape), v.contains("dtype") && v["dtype"].is_string() ? v["dtype"].get<std::string>() : ""});
  }
  return table(rows, "lll");
}

void print_arrays(const Json& arrays) {
  std::vector<std::string> types;
  for (const auto& [type, count] : arrays["dtypes"].items()) types.push_back(type);
  fmt::print("parameters: {} in {} arrays, {}{}\n", with_commas(arrays["elements"]), arrays["arrays"].get<int64_t>(),
             bytes_text(arrays["bytes"]), types.empty() ? "" : fmt::format(" of {}", fmt::join(types, ", ")));
  if (arrays.contains("list")) fmt::print("{}", values_text(arrays["list"]));
}

void print_costs(const Json& report) {
  if (!report.contains("flops")) {
    fmt::print("work and memory: give the inputs' shapes with --shape to see them\n");
    return;
  }
  const auto total = report["flops"]["total"].get<double>();
  std::vector<std::pair<double, std::string>> kinds;
  for (const auto& [op, operations] : report["flops"]["by_operator"].items()) kinds.emplace_back(operations.get<double>(), op);
  std::sort(kinds.rbegin(), kinds.rend());
  fmt::print("work: {} floating-point operations a call\n", amount(total));
  Rows rows;
  for (const auto& [operations, op] : kinds)
    if (rows.size() < 6 && operations > 0) rows.push_back({op, amount(operations), fmt::format("{:.1f} %", 100 * operations / total)});
  const Json& memory = report["memory"];
  fmt::print("{}memory: {} of intermediate values in {} steps, {} without a plan; {} of rearranged weights\n", table(rows, "lrr"),
             bytes_text(memory["planned_bytes"]), memory["steps"].get<int64_t>(), bytes_text(memory["unplanned_bytes"]),
             bytes_text(memory["kept_weights_bytes"]));
}

void print_report(const Json& report) {
  fmt::print("{}\n", report["file"].get<std::string>());
  if (report.contains("parameters_file") && report["parameters_file"] != report["file"])
    fmt::print("{}\n", report["parameters_file"].get<std::string>());
  if (report.contains("written_by")) fmt::print("written by: {}\n", report["written_by"].get<std::string>());
  if (report.contains("inputs"))
    fmt::print("inputs:\n{}{}outputs:\n{}", values_text(report["inputs"]),
               report["labels"].empty() ? "" : "labels, which may be left out:\n" + values_text(report["labels"]),
               values_text(report["outputs"]));
  if (report.contains("operators")) {
    int total = 0;
    Rows rows;
    for (const Json& op : report["operators"]) {
      total += op["count"].get<int>();
      rows.push_back({op["name"], std::to_string(op["count"].get<int>())});
    }
    fmt::print("operators: {}\n{}", total, table(rows, "lr"));
  }
  if (report.contains("parameters")) print_arrays(report["parameters"]);
  if (report.contains("inputs")) print_costs(report);
  if (report.contains("unsupported") && !report["unsupported"].empty()) {
    fmt::print("not supported:\n");
    for (const Json& missing : report["unsupported"])
      fmt::print("  {}, needed by {}\n", missing["operator"].get<std::string>(),
                 fmt::join(missing["nodes"].get<std::vector<std::string>>(), ", "));
  }
  if (report.contains("problem")) fmt::print("cannot be loaded: {}\n", report["problem"].get<std::string>());
  if (report.contains("graph")) fmt::print("graph:\n{}", report["graph"].get<std::string>());
}

// What the files hold, whether or not all of it is known here.
Json describe_onnx_file(const std::string& path, const InspectOptions& options) {
  const onnx::ModelData data = onnx::read_model(path);
  Json report{{"file", path}, {"operator_sets", Json::object()}};
  for (const auto& [domain, version] : data.operator_sets) report["operator_sets"][domain.empty() ? "ai.onnx" : domain] = version;
  report["written_by"] = data.producer.empty() ? "ONNX, its writer gives no name" : data.producer + ", as ONNX";
  describe_operators(nodes_of(data), report);
  report["parameters"] = describe_arrays(data.graph.initializers, options.arrays);
  return report;
}
Json describe_files(const ModelFiles& files, const InspectOptions& options) {
  Json report{{"file", files.symbol_path}};
  if (!files.params_path.empty()) report["parameters_file"] = files.params_path;
  const io::SymbolSummary summary = io::summarize_symbol_json(files.symbol_json, files.symbol_path);
  report["written_by"] = summary.written_by;
  report["mxnet_version"] = summary.version > 0 ? Json(summary.version) : Json(nullptr);
  describe_operators(nodes_of(summary), report);
  report["parameters"] = describe_arrays(files.parameters, options.arrays);
  return report;
}

Json describe_model(const InspectOptions& options) {
  const std::string onnx_file = find_onnx_file(options.model.path);
  std::optional<ModelFiles> files;
  if (onnx_file.empty()) files = read_model(options.model);
  Json report = files ? describe_files(*files, options) : describe_onnx_file(onnx_file, options);
  if (!report["unsupported"].empty()) return report;
  try {
    if (!files) files = read_model(options.model);
    describe_graph(*files, options, report);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    // The shapes that the command line gives may be what is wrong: then it is no answer about the file.
    if (!named_inputs(options.inputs).empty()) throw;
    report["problem"] = e.what();
  }
  return report;
}

// 0 also where operators are missing: the question was what is inside, and the answer is whole.
int inspect(const InspectOptions& options, bool json) {
  const Json report = holds_arrays_alone(options.model.path)
                          ? Json{{"file", options.model.path}, {"parameters", describe_arrays(load_tensors(options.model.path), true)}}
                          : describe_model(options);
  if (json)
    print_json(report);
  else
    print_report(report);
  return 0;
}

}  // namespace

void add_inspect(Commands& commands) {
  auto options = std::make_shared<InspectOptions>();
  Command command = commands.add("inspect", "Says what a model or a file of arrays holds, without running it.");
  add_model_options(command, options->model, false);
  add_shape_options(command, options->inputs);
  command.flag("--arrays", options->arrays, "list the parameters too");
  command.flag("--graph", options->graph, "show the graph too, with what is known of shapes");
  command.runs([options](bool json) { return inspect(*options, json); });
}

}  // namespace gluino::cli
