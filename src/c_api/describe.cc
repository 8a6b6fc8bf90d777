// What a model takes and gives: from its graph, or from what an ONNX file says.
#include "c_api/model.h"

namespace gluino::c_api {

ShapeMap Model::parameter_shapes() const {
  ShapeMap shapes;
  for (const auto& [name, p] : block->own_parameters())
    if (p->is_initialized()) shapes[name] = p->shape();
  return shapes;
}
DTypeMap Model::parameter_types() const {
  DTypeMap types;
  for (const auto& [name, p] : block->own_parameters())
    if (p->is_initialized()) types[name] = p->dtype();
  return types;
}

const Model::Description& Model::description() const {
  std::call_once(is_described_, [this] {
    description_ = graph ? describe_model(*graph, input_names, parameter_shapes(), parameter_types()) : told_by_file();
  });
  return description_;
}

}  // namespace gluino::c_api
