// An ONNX model as one graph of Gluino's operators.
#pragma once
#include "gluino/io.h"
#include "onnx/program.h"

namespace gluino::onnx {

struct ModelSymbol {
  Symbol symbol;
  NamedTensors parameters;  // of all variables that are not inputs: what is learnt, and constants
};

// `shapes` of inputs; those that are not given are the file's, with 1 for free extents. What rules read of them is fixed in the graph.
ModelSymbol to_symbol(const Program& program, const ShapeMap& shapes = {});

}  // namespace gluino::onnx
