#include "cli/model.h"

#include <filesystem>
#include <set>

#include "cli/command.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "gluino/onnx.h"
#include "io/zip.h"
#include "onnx/symbol.h"

namespace gluino::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSymbolEnding = "-symbol.json";

bool is_zip(std::string_view bytes) { return bytes.starts_with("PK"); }

// name-0012.params, and what people make of it: name-0012-best.params. -1: another file.
int epoch_of(const std::string& file, const std::string& name) {
  if (!file.starts_with(name + "-") || !file.ends_with(".params")) return -1;
  const std::string rest = file.substr(name.size() + 1);
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  return digits == 4 ? std::stoi(rest.substr(0, 4)) : -1;
}

// The parameters beside a graph: those of the last epoch.
std::string find_params(const std::string& symbol_path) {
  const fs::path path(symbol_path);
  std::string name = path.filename().string();
  if (!name.ends_with(kSymbolEnding)) return "";
  name.resize(name.size() - kSymbolEnding.size());
  std::string best;
  int latest = -1;
  const fs::path folder = path.parent_path().empty() ? "." : path.parent_path();
  for (const auto& entry : fs::directory_iterator(folder))
    if (const int epoch = epoch_of(entry.path().filename().string(), name); epoch > latest) {
      latest = epoch;
      best = (path.parent_path() / entry.path().filename()).string();
    }
  return best;
}

std::string only_symbol_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().string().ends_with(kSymbolEnding) || entry.path().extension() == ".gluino" || is_onnx_file(entry.path().string()))
      found.push_back(entry.path().string());
  std::sort(found.begin(), found.end());
  if (found.empty())
    raise<SystemError>("'{}' is a folder without a model: it holds no file that ends in {}, .gluino or .onnx", folder, kSymbolEnding);
  if (found.size() > 1) raise<UsageError>("'{}' is a folder of several models; name one: {}", folder, fmt::join(found, ", "));
  return found[0];
}

// The graph's file for what the user wrote: itself, a prefix, the parameters', or a folder.
std::string find_symbol(const std::string& path) {
  if (fs::is_directory(path)) return only_symbol_in(path);
  if (fs::exists(path + std::string(kSymbolEnding))) return path + std::string(kSymbolEnding);
  if (!fs::exists(path))
    raise<SystemError>("there is no '{}', and no '{}{}'; a model is given by its -symbol.json, by the name before that, or as one file",
                       path, path, kSymbolEnding);
  if (path.ends_with(".params")) {
    const std::string file = fs::path(path).filename().string();
    for (size_t dash = file.rfind('-'); dash != std::string::npos && dash > 0; dash = file.rfind('-', dash - 1)) {
      const fs::path symbol = fs::path(path).parent_path() / (file.substr(0, dash) + std::string(kSymbolEnding));
      if (fs::exists(symbol)) return symbol.string();
    }
    raise<SystemError>("'{}' holds parameters, and no -symbol.json with the same beginning stands beside it", path);
  }
  return path;
}

ModelFiles read_one_file(const std::string& path, const std::string& bytes) {
  ModelFiles files{.symbol_path = path, .params_path = path};
  bool has_meta = false;
  for (const auto& [name, content] : io::read_zip(bytes, path)) {
    if (name == "symbol.json") files.symbol_json = content;
    if (name == "model.params") files.parameters = read_params(content, path);
    if (name != "meta.json") continue;
    has_meta = true;
    try {
      for (const auto& input : parse_json(content).at("inputs")) files.inputs.push_back(input.get<std::string>());
    } catch (const nlohmann::json::exception& e) {
      raise<SystemError>("{}: meta.json is damaged: {}", path, e.what());
    }
  }
  if (!has_meta || files.symbol_json.empty())
    raise<SystemError>("'{}' is an archive without a model: it has no meta.json and symbol.json, as save() writes them", path);
  return files;
}

}  // namespace

void add_model_options(Command& command, ModelOptions& options, bool may_lack_weights) {
  command
      .option("MODEL", options.path,
              "an exported model: its -symbol.json, the name before that, its .params, one file, an .onnx file, or a folder with one model")
      .required();
  command.option("--params", options.params, "its parameters, where they are not those of the last epoch beside the graph").type("FILE");
  if (may_lack_weights) command.flag("--random-weights", options.random_weights, "draw the weights, for a graph without any");
}

bool is_onnx_file(const std::string& path) { return path.ends_with(".onnx"); }

std::string find_onnx_file(const std::string& path) {
  const std::string found = find_symbol(path);
  return is_onnx_file(found) ? found : "";
}

ModelFiles read_model(const ModelOptions& options) {
  const std::string path = find_symbol(options.path);
  if (is_onnx_file(path)) {
    if (!options.params.empty()) raise<UsageError>("--params: '{}' holds its parameters itself", path);
    ModelFiles files{.symbol_path = path, .params_path = path, .onnx = onnx::Program::load(path)};
    files.parameters = files.onnx->parameters();
    for (const onnx::ValueData& v : files.onnx->inputs()) files.inputs.push_back(v.name);
    return files;
  }
  const std::string bytes = read_file(path);
  if (is_zip(bytes)) return read_one_file(path, bytes);
  ModelFiles files{.symbol_path = path, .symbol_json = bytes};
  files.params_path = !options.params.empty() ? options.params : options.path.ends_with(".params") ? options.path : find_params(path);
  if (!files.params_path.empty()) files.parameters = load_tensors(files.params_path);
  return files;
}

ModelGraph read_graph(const ModelFiles& files, const ShapeMap& shapes) {
  if (files.onnx) {
    onnx::ModelSymbol model = onnx::to_symbol(*files.onnx, shapes);
    return {std::move(model.symbol), std::move(model.parameters), files.inputs};
  }
  ModelGraph graph{.symbol = Symbol::from_json(files.symbol_json, files.symbol_path), .parameters = files.parameters};
  graph.inputs = files.inputs.empty() ? guess_inputs(graph.symbol, files.parameters) : files.inputs;
  return graph;
}

bool holds_arrays_alone(const std::string& path) {
  if (fs::is_directory(path) || !fs::is_regular_file(path) || is_onnx_file(path)) return false;
  if (path.ends_with(".params")) {
    try {
      find_symbol(path);
      return false;
    } catch (const SystemError&) {
      return true;
    }
  }
  const std::string bytes = read_file(path);
  if (is_zip(bytes)) {
    for (const auto& [name, content] : io::read_zip(bytes, path))
      if (name == "symbol.json") return false;
    return true;
  }
  // Everything that is no text of JSON is taken for a file of arrays.
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string::npos && bytes[first] != '{';
}

std::string bare_name(const std::string& name) { return name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name; }
bool looks_like_label(const std::string& name) { return name == "label" || name.ends_with("_label"); }

std::vector<std::string> guess_inputs(const Symbol& symbol, const NamedTensors& parameters) {
  std::set<std::string> known;
  for (const auto& [name, t] : parameters) known.insert(bare_name(name));
  for (const std::string& state : symbol.list_auxiliary_states()) known.insert(state);
  static const char* const kWeightEndings[] = {"weight", "bias", "gamma", "beta", "_mean", "_var", "parameters", "alpha"};
  std::vector<std::string> inputs;
  for (const std::string& name : symbol.list_inputs()) {
    const bool is_weight = parameters.empty() && std::any_of(std::begin(kWeightEndings), std::end(kWeightEndings),
                                                             [&](const char* ending) { return name.ends_with(ending); });
    if (!known.contains(name) && !looks_like_label(name) && !is_weight) inputs.push_back(name);
  }
  return inputs;
}

LoadedModel load_model(const ModelOptions& options, const std::vector<std::string>& named) {
  LoadedModel model;
  model.files = read_model(options);
  if (model.files.onnx) {
    auto net = std::make_unique<onnx::Model>(model.files.onnx);
    model.inputs = net->inputs();
    model.outputs = net->outputs();
    model.net = std::move(net);
    return model;
  }
  const Symbol& symbol = model.symbol.emplace(Symbol::from_json(model.files.symbol_json, model.files.symbol_path));
  model.has_weights = !model.files.parameters.empty();
  if (!model.has_weights && !options.random_weights && symbol.list_inputs().size() > named.size())
    raise<SystemError>(
        "'{}' has no parameters beside it; name their file with --params, or try the graph with weights drawn by --random-weights",
        model.files.symbol_path);
  std::vector<std::string>& inputs = model.inputs = model.files.inputs;
  if (inputs.empty()) inputs = guess_inputs(symbol, model.files.parameters);
  const std::vector<std::string> all = symbol.list_inputs();
  for (const std::string& name : named)
    if (std::find(all.begin(), all.end(), name) != all.end() && std::find(inputs.begin(), inputs.end(), name) == inputs.end())
      inputs.push_back(name);
  model.net = std::make_unique<SymbolBlock>(symbol, inputs, model.files.parameters);
  model.outputs = symbol.list_outputs();
  if (!model.has_weights) model.net->initialize(init::xavier());
  return model;
}

}  // namespace gluino::cli
