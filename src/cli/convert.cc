// gluino convert: a model or a file of arrays in another form.
#include <set>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/rewrite_model.h"
#include "cli/report.h"
#include "gluino/onnx.h"
#include "gluon/block/description.h"
#include "io/zip.h"

namespace gluino::cli {
namespace {

struct ConvertOptions {
  ModelOptions model;
  InputOptions inputs;
  std::string output, dtype;
  int epoch = 0;
  bool fold_batch_norm = false;
  std::vector<std::string> free;  // NAME=AXES
  onnx::ExportOptions onnx;
};

bool is_for_arrays(const std::string& path) {
  return path.ends_with(".params") || path.ends_with(".npz") || path.ends_with(".npy") || path.ends_with(".safetensors");
}

NamedTensors cast_arrays(NamedTensors arrays, DType dtype) {
  for (auto& [name, t] : arrays)
    if (is_floating(t.dtype())) t = t.astype(dtype);
  return arrays;
}

// Those that the graph reads, as MXNet 1.9 names them.
NamedTensors with_prefixes(const Symbol& symbol, const NamedTensors& parameters) {
  NamedTensors named;
  const auto add = [&](const char* prefix, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      for (const auto& [given, t] : parameters)
        if (bare_name(given) == name) named.emplace_back(prefix + name, t);
  };
  add("arg:", symbol.list_arguments());
  add("aux:", symbol.list_auxiliary_states());
  return named;
}

std::vector<std::string> names_of(const ShapeMap& shapes) {
  std::vector<std::string> names;
  for (const auto& [name, shape] : shapes) names.push_back(name);
  return names;
}

// The shapes of what an ONNX file takes: those given, else what the weights let expect, where extents that may change stay free.
std::vector<onnx::InputShape> onnx_inputs(const RewrittenModel& model, const ConvertOptions& options) {
  const ShapeMap given = given_shapes(options.inputs), freed = parse_shapes("--free", options.free, "axes are given as name=0,2");
  const DTypeMap types = given_dtypes(options.inputs);
  ShapeMap shapes;
  DTypeMap dtypes;
  for (const auto& [name, t] : model.parameters) shapes[bare_name(name)] = t.shape(), dtypes[bare_name(name)] = t.dtype();
  std::vector<onnx::InputShape> inputs;
  for (const ValueDescription& v : describe_model(model.symbol, model.inputs, shapes, dtypes).inputs) {
    const auto shape = given.find(v.name);
    if (shape == given.end() && !v.shape)
      raise<UsageError>("the shape of input '{}' is not known; give it with --shape {}=1,3,224,224", v.name, v.name);
    onnx::InputShape input{.name = v.name, .shape = shape != given.end() ? shape->second : *v.shape};
    for (int64_t& extent : input.shape) extent = extent == Shape::kUnknown ? -1 : extent;
    if (const auto type = types.find(v.name); type != types.end()) input.dtype = type->second;
    if (const auto axes = freed.find(v.name); axes != freed.end())
      for (const int64_t axis : axes->second) {
        if (axis >= input.shape.ndim()) raise<UsageError>("--free {}: input '{}' has {} axes", axis, v.name, input.shape.ndim());
        input.shape[static_cast<int>(axis)] = -1;
      }
    inputs.push_back(std::move(input));
  }
  for (const auto& names : {named_inputs(options.inputs), names_of(freed)})
    for (const std::string& name : names)
      if (std::none_of(inputs.begin(), inputs.end(), [&](const onnx::InputShape& i) { return i.name == name; }))
        raise<UsageError>("the model has no input '{}'{}; its inputs are: {}", name, did_you_mean(name, model.inputs),
                          fmt::join(model.inputs, ", "));
  return inputs;
}

std::vector<std::string> write_model(const RewrittenModel& model, const ConvertOptions& options) {
  if (is_onnx_file(options.output)) {
    onnx::export_model(model.symbol, model.parameters, options.output, onnx_inputs(model, options), options.onnx);
    return {options.output};
  }
  const std::string json = model.symbol.to_json(), params = write_params(with_prefixes(model.symbol, model.parameters));
  if (options.output.ends_with(".gluino")) {
    const Json meta{{"format", "gluino"}, {"version", 1}, {"inputs", model.inputs}};
    write_file(options.output, io::write_zip({{"meta.json", json_text(meta, 2)}, {"symbol.json", json}, {"model.params", params}}));
    return {options.output};
  }
  std::string prefix = options.output;
  if (prefix.ends_with("-symbol.json")) prefix.resize(prefix.size() - std::string_view("-symbol.json").size());
  const std::vector<std::string> paths{fmt::format("{}-{:04}.params", prefix, options.epoch), prefix + "-symbol.json"};
  write_files({{paths[0], params}, {paths[1], json}});
  return paths;
}

int convert(const ConvertOptions& options, bool json) {
  Json report{{"from", options.model.path}, {"written", Json::array()}};
  std::optional<DType> dtype;
  if (!options.dtype.empty()) dtype = parse_dtype(options.dtype);
  if (holds_arrays_alone(options.model.path) || is_for_arrays(options.output)) {
    if (options.fold_batch_norm)
      raise<UsageError>("--fold-batch-norm: arrays alone have no batch norms; give a model, and a name to write one to");
    if (!is_for_arrays(options.output))
      raise<UsageError>("'{}' holds arrays and no graph: they can be written to .params, .npz, .npy or .safetensors, not to '{}'",
                        options.model.path, options.output);
    NamedTensors arrays = holds_arrays_alone(options.model.path) ? load_tensors(options.model.path) : read_model(options.model).parameters;
    if (dtype) arrays = cast_arrays(std::move(arrays), *dtype);
    save_tensors(options.output, arrays);
    report["written"].push_back(options.output);
    report["arrays"] = arrays.size();
  } else {
    ModelGraph graph = read_graph(read_model(options.model), given_shapes(options.inputs));
    RewrittenModel model{std::move(graph.symbol), std::move(graph.parameters), std::move(graph.inputs)};
    if (options.fold_batch_norm)
      report["folded_batch_norms"] = fold_batch_norms(model, given_shapes(options.inputs), given_dtypes(options.inputs));
    if (dtype) cast_model(model, *dtype);
    report["written"] = write_model(model, options);
  }
  if (json) {
    print_json(report);
    return 0;
  }
  if (report.contains("folded_batch_norms")) fmt::print("{} batch norms folded\n", report["folded_batch_norms"].get<int>());
  fmt::print("written: {}\n", fmt::join(report["written"].get<std::vector<std::string>>(), ", "));
  return 0;
}

}  // namespace

void add_convert(Commands& commands) {
  auto options = std::make_shared<ConvertOptions>();
  Command command =
      commands.add("convert", "Writes a model of any age in MXNet 1.9's form, as one file or as ONNX, or its arrays in another format.");
  add_model_options(command, options->model, false);
  command
      .option("-o,--output", options->output,
              "what to write: NAME for NAME-symbol.json and NAME-0000.params, NAME.gluino for one file, NAME.onnx; .params, .npz, .npy "
              "or .safetensors for the arrays alone")
      .required();
  command.option("--epoch", options->epoch, "the number in the name of the parameters' file").between(0, 9999);
  command.flag("--fold-batch-norm", options->fold_batch_norm, "fold batch norms into the layers before them; needs --shape");
  command.option("--cast", options->dtype, "store weights and compute in this type; inputs and outputs stay as they are")
      .choices({"float16", "bfloat16", "float32", "float64"});
  command.option("--operator-set", options->onnx.operator_set, "of an .onnx file").between(13, 17).with_default();
  command.flag("--external-data", options->onnx.external_data, "put the parameters of an .onnx file into NAME.onnx.data");
  command.option("--free", options->free, "axes of an input whose extents stay free in an .onnx file, as data=0").type("NAME=AXES");
  add_shape_options(command, options->inputs);
  command.runs([options](bool json) { return convert(*options, json); });
}

}  // namespace gluino::cli
