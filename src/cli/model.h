// A model as the command line names it: an exported pair, one file, an ONNX file, or a folder that holds one of them.
#pragma once
#include <memory>

#include "gluino/block.h"
#include "gluino/io.h"
#include "onnx/program.h"

namespace gluino::cli {

class Command;

// The command line is wrong, and not a file or a model: exit code 2.
class UsageError : public UserError {
 public:
  using UserError::UserError;
};

// Where a model is, which every command that takes one asks for in the same words.
struct ModelOptions {
  std::string path, params;
  bool random_weights = false;
};
void add_model_options(Command& command, ModelOptions& options, bool may_lack_weights = true);

struct ModelFiles {
  std::string symbol_path, params_path;  // equal for one file that holds both; params_path is empty where there are none
  std::string symbol_json;
  NamedTensors parameters;                    // as the file names them
  std::vector<std::string> inputs;            // where the file says so
  std::shared_ptr<const onnx::Program> onnx;  // of an ONNX file, in place of symbol_json
};
ModelFiles read_model(const ModelOptions& options);
// The graph and its parameters. An ONNX file becomes a graph for inputs of given shapes; where its nodes decide on computed values, none.
struct ModelGraph {
  Symbol symbol;
  NamedTensors parameters;
  std::vector<std::string> inputs;
};
ModelGraph read_graph(const ModelFiles& files, const ShapeMap& shapes);
bool is_onnx_file(const std::string& path);
// The one file that a path means, where it is one of ONNX's; else "".
std::string find_onnx_file(const std::string& path);
// Whether a path names a file that holds arrays and no graph.
bool holds_arrays_alone(const std::string& path);

// A network that runs. Its inputs are the variables without a value, labels aside.
struct LoadedModel {
  ModelFiles files;
  std::optional<Symbol> symbol;  // none for an ONNX file
  std::unique_ptr<HybridBlock> net;
  std::vector<std::string> inputs, outputs;  // their names
  bool has_weights = true;                   // false: they are to be drawn when shapes are known
};
// `named`: inputs that the command line speaks of, which weights that are to be drawn do not include.
LoadedModel load_model(const ModelOptions& options, const std::vector<std::string>& named = {});

// The name without arg: or aux: before it.
std::string bare_name(const std::string& name);
bool looks_like_label(const std::string& name);

// Variables that are neither given by a file nor look like weights, labels aside.
std::vector<std::string> guess_inputs(const Symbol& symbol, const NamedTensors& parameters);

}  // namespace gluino::cli
