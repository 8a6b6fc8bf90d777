// Gradients of symbolic values, as further calls of the same graph. Uses only OpDef::gradient.
#pragma once
#include "graph/trace.h"

namespace gluino {

struct GradientRequest {
  std::vector<GraphNode*> nodes;  // all that the heads depend on, inputs before users, with the shapes and dtypes of their outputs
  std::vector<Value> heads;
  Tensors head_grads;
  std::vector<Value> wanted;
};
// One per wanted value; null where nothing flows back to it.
Tensors symbolic_gradients(const GradientRequest& request);

// A symbolic tensor for a value whose node knows shapes and dtypes.
Tensor tensor_of_known(const Value& value);

}  // namespace gluino
