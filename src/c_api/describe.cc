// What a model takes and gives: from its graph, or from what an ONNX file says.
#include "c_api/model.h"
#include "onnx/program.h"

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

namespace {

// What an ONNX file says of its inputs or outputs.
std::vector<Model::Value> values_of(const std::vector<onnx::ValueData>& list) {
  std::vector<Model::Value> values;
  for (const onnx::ValueData& v : list) {
    Model::Value& value = values.emplace_back(Model::Value{v.name, std::nullopt, std::nullopt});
    try {
      value.dtype = onnx::carrier(v.type, v.name);
    } catch (const DTypeError&) {
      // Then it is not known before the call.
    }
    if (!v.has_shape || v.extents.size() > Shape::kMaxAxes) continue;
    value.shape.emplace();
    for (const auto& extent : v.extents) value.shape->push_back(extent.value_or(Shape::kUnknown));
  }
  return values;
}

}  // namespace

const Model::Description& Model::description() const {
  std::call_once(is_described_, [this] {
    description_ = graph ? describe_model(*graph, input_names, parameter_shapes(), parameter_types())
                         : Description{values_of(onnx_program->inputs()), values_of(onnx_program->outputs())};
  });
  return description_;
}

}  // namespace gluino::c_api
