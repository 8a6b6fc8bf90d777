// What an ONNX file says of itself: inputs and outputs, the operators of its nodes, and those that have no rule.
#pragma once
#include "gluon/block/description.h"
#include "onnx/program.h"

namespace gluino::onnx {

ModelDescription describe(const Program& program);
ValueDescription describe(const ValueData& value);

// A node, those of bodies and functions too; found without making a program, which a file with unknown nodes does not become.
struct NodeSummary {
  std::string type;  // with its domain before it where that is not ONNX's own
  std::string text;  // "node 'conv1', Conv of operator set 13"
  bool has_rule = false;
};
std::vector<NodeSummary> summarize_nodes(const ModelData& model);

}  // namespace gluino::onnx
