// Which shapes a model takes. Graphs rarely say: their inputs are variables, and shapes follow from data to weights, not back. So
// likely shapes are made from the parameters that meet an input, and inference is asked whether they fit and which extents may change.
#pragma once
#include <optional>

#include "gluino/symbol.h"

namespace gluino {

// What is known of an input or output before anything runs.
struct ValueDescription {
  std::string name;
  std::optional<DType> dtype;
  std::optional<Shape> shape;  // Shape::kUnknown for an extent that may change from call to call
};
struct ModelDescription {
  std::vector<ValueDescription> inputs, outputs;
};
ModelDescription describe_model(const Symbol& symbol, const std::vector<std::string>& inputs, const ShapeMap& parameter_shapes,
                                const DTypeMap& parameter_types);

}  // namespace gluino
