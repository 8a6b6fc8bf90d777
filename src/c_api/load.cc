// From files and bytes to models.
#include <cctype>
#include <filesystem>

#include "base/file.h"
#include "base/format.h"
#include "c_api/errors.h"
#include "c_api/model.h"
#include "gluino/io.h"

namespace gluino::c_api {

namespace {

// The only file <name>-<number>*.params beside <name>-symbol.json; "" where there is none.
std::string parameters_beside(const std::string& graph_path) {
  namespace fs = std::filesystem;
  const std::string suffix = "-symbol.json";
  if (!graph_path.ends_with(suffix)) return "";
  const fs::path path(graph_path);
  const std::string file = path.filename().string(), start = file.substr(0, file.size() - suffix.size()) + "-";
  std::string found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path.has_parent_path() ? path.parent_path() : fs::path("."), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(".params") || !std::isdigit(static_cast<unsigned char>(name[start.size()]))) continue;
    if (!found.empty())
      raise<UserError>("beside '{}' there are '{}' and '{}'; say in params_path which one is meant", graph_path, found,
                       entry.path().string());
    found = entry.path().string();
  }
  return found;
}

// What exporting wrote: a graph's text with its parameters, or a one-file model. `what` and `params_what` name them in messages.
std::unique_ptr<SymbolBlock> read_model(const std::string& graph, const std::string& what, std::string_view params,
                                        const std::string& params_what, const std::vector<std::string>& inputs) {
  if (graph.starts_with("PK")) {
    if (!params.empty()) raise<UserError>("'{}' is a model in one file; {} must not be given too", what, params_what);
    if (!inputs.empty()) raise<UserError>("'{}' is a model in one file and names its inputs itself; give none in the options", what);
    return SymbolBlock::read(graph, what);
  }
  const NamedTensors parameters = params.empty() ? NamedTensors{} : read_tensors(params, params_what);
  return std::make_unique<SymbolBlock>(Symbol::from_json(graph, what), inputs, parameters);
}

struct Options {
  Device device;
  bool compile = true, keep_memory = false;
  std::vector<std::string> inputs;
};

Options checked(const gluino_model_options* given) {
  Options options;
  if (!given) return options;
  if (given->struct_size != sizeof(gluino_model_options))
    throw CallError(fmt::format("options->struct_size is {}; set it to sizeof(gluino_model_options), {}", given->struct_size,
                                sizeof(gluino_model_options)));
  options.device = cpu(given->device);
  options.compile = !given->operator_by_operator;
  options.keep_memory = given->keep_memory;
  check_list(given->input_names, given->num_inputs, "options->input_names");
  for (size_t i = 0; i < given->num_inputs; ++i)
    options.inputs.emplace_back(not_null(given->input_names[i], "an input's name in the options"));
  return options;
}

gluino_model ready(std::unique_ptr<Model> model, const Options& options) {
  if (options.compile) model->block->hybridize(true, {.static_alloc = options.keep_memory});
  model->device = options.device;
  return Models::global().add(std::move(model));
}

std::unique_ptr<Model> model_of(std::unique_ptr<SymbolBlock> block) {
  auto model = std::make_unique<Model>();
  model->input_names = block->inputs();
  model->output_names = block->outputs().list_outputs();
  model->graph = block->outputs();
  model->block = std::move(block);
  return model;
}

// Neither JSON nor an archive: a message of protobuf begins with its first field, a number that says which version of ONNX wrote it.
bool is_onnx(std::string_view bytes) { return bytes.starts_with('\b'); }

void check_for_onnx(const std::string& what, bool has_params, const Options& options) {
  if (has_params || !options.inputs.empty())
    raise<UserError>("'{}' is an ONNX model, which has its parameters and names its inputs itself; give neither", what);
}

}  // namespace
}  // namespace gluino::c_api

using namespace gluino;
using namespace gluino::c_api;

extern "C" {

gluino_status gluino_model_load(const char* path, const char* params_path, const gluino_model_options* options, gluino_model* model) {
  return guarded(__func__, [&] {
    *not_null(model, "model") = 0;
    const std::string graph_path = not_null(path, "path");
    const Options o = checked(options);
    const DeviceScope scope(o.device);
    if (graph_path.ends_with(".onnx")) {
      check_for_onnx(graph_path, params_path != nullptr, o);
      *model = ready(load_onnx(graph_path), o);
      return;
    }
    const std::string graph = read_file(graph_path);
    const bool is_one_file = graph.starts_with("PK");
    const std::string beside = params_path ? params_path : is_one_file ? "" : parameters_beside(graph_path);
    const std::string params = beside.empty() ? "" : read_file(beside);
    *model = ready(model_of(read_model(graph, graph_path, params, beside, o.inputs)), o);
  });
}

gluino_status gluino_model_load_memory(const void* graph, size_t graph_bytes, const void* params, size_t params_bytes,
                                       const gluino_model_options* options, gluino_model* model) {
  return guarded(__func__, [&] {
    *not_null(model, "model") = 0;
    not_null(graph, "graph");
    if (params_bytes > 0) not_null(params, "params");
    const Options o = checked(options);
    const DeviceScope scope(o.device);
    const std::string text(static_cast<const char*>(graph), graph_bytes);
    if (is_onnx(text)) {
      check_for_onnx("the model in memory", params_bytes > 0, o);
      *model = ready(read_onnx(text, "the model in memory"), o);
      return;
    }
    const std::string_view values(static_cast<const char*>(params), params_bytes);
    *model = ready(model_of(read_model(text, "the graph in memory", values, "the parameters in memory", o.inputs)), o);
  });
}

gluino_status gluino_model_free(gluino_model model) {
  return guarded(__func__, [&] { Models::global().remove(model); });
}

}  // extern "C"
