// A loaded model, as its handle names it.
#pragma once
#include <functional>

#include "c_api/handles.h"
#include "gluino/block.h"
#include "gluon/block/description.h"

namespace gluino::c_api {

struct Model {
  using Value = ValueDescription;
  using Description = ModelDescription;

  std::unique_ptr<HybridBlock> block;
  std::vector<std::string> input_names, output_names;
  // What shapes follow from: the graph, or for an ONNX model what its file says.
  std::optional<Symbol> graph;
  std::function<Description()> told_by_file;
  Device device;

  const Description& description() const;  // made when it is first asked for
  ShapeMap parameter_shapes() const;
  DTypeMap parameter_types() const;

 private:
  mutable std::once_flag is_described_;
  mutable Description description_;
};

// ONNX models, from a file and from memory. The library for inference alone refuses them: without_onnx/.
std::unique_ptr<Model> load_onnx(const std::string& path);
std::unique_ptr<Model> read_onnx(std::string_view bytes, const std::string& what);

template <>
struct HandleKind<Model> {
  static constexpr int number = 1;
  static constexpr const char* name = "model";
};
using Models = HandleTable<Model>;

}  // namespace gluino::c_api
