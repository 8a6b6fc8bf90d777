// ONNX: models of other frameworks as blocks that run, train, hybridize and export like any other; and Gluino's networks as ONNX files.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "gluino/block.h"
#include "gluino/io.h"

namespace gluino::onnx {

class Program;

// A block made of an ONNX graph. Inputs are those of the graph, in its order; its initializers are parameters under their names.
class Model : public HybridBlock {
 public:
  explicit Model(std::shared_ptr<const Program> program);
  Tensors forward(const Tensors& inputs) override;
  std::vector<std::string> inputs() const;
  std::vector<std::string> outputs() const;
  std::string describe() const override;

 private:
  std::shared_ptr<const Program> program_;
};

// Raises UserError that lists every node without a rule before anything runs, and SystemError for a file that is damaged.
std::unique_ptr<Model> import_model(const std::string& path);

// An input of what is exported: extents of -1 are free in the file, under the names given or generated ones.
struct InputShape {
  std::string name = {};
  Shape shape = {};
  DType dtype = DType::float32;
  std::vector<std::string> free_names = {};
};
struct ExportOptions {
  int operator_set = 13;  // 13 to 17
  // Parameters in a file beside, PATH.data. Models above 2 GB are always written so, as an ONNX file cannot hold them.
  bool external_data = false;
};
// Raises UserError that lists every node that ONNX cannot express. `parameters` may carry MXNet's arg: and aux:.
void export_model(const Symbol& symbol, const NamedTensors& parameters, const std::string& path, const std::vector<InputShape>& inputs,
                  const ExportOptions& options = {});
// The network as it was traced by its last call, or as symbols trace it.
void export_model(HybridBlock& net, const std::string& path, const std::vector<InputShape>& inputs, const ExportOptions& options = {});
std::vector<std::string> exported_operators();  // those that can be written

}  // namespace gluino::onnx
