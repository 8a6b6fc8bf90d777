// Gradients of symbolic values, as further calls of the same graph. Uses only OpDef::gradient.
#pragma once
#include <string>
#include <unordered_map>

#include "dispatch/row_gradient.h"
#include "graph/head_sets.h"
#include "graph/trace.h"

namespace gluino {

struct GradientRequest {
  std::vector<GraphNode*> nodes;  // all that the heads depend on, inputs before users, with the shapes and dtypes of their outputs
  std::vector<Value> heads;
  Tensors head_grads;
  std::vector<Value> wanted;
  std::vector<bool> as_rows = {};  // beside wanted: rows that were picked from it stay such where they are all that flows back
};
struct SymbolicGradient {
  Tensor dense;                  // null where nothing flows back, or rows
  std::vector<PickedRows> rows;  // their sum
};
// Inputs to which no gradient flows back, whatever flows into the outputs of their calls.
class DeadEnds {
 public:
  void add(const GraphNode& call, size_t input);
  bool is_end(const Graph::Node& call, size_t input) const;

 private:
  std::unordered_map<std::string, std::vector<bool>> of_calls_;  // by name; none for calls without
};
// What is found on the way. With it the nodes of the backward pass say for which heads they are needed, where there are several.
struct GradientNotes {
  DeadEnds ends;
  HeadSets parts;
};
// One per wanted value.
std::vector<SymbolicGradient> symbolic_gradients_and_rows(const GradientRequest& request, GradientNotes* notes = nullptr);
// The same where no rows are asked for.
Tensors symbolic_gradients(const GradientRequest& request);

// Ones or zeros of a tensor's shape, by the operator that gives them: a constant, which the tape does not lead back from.
Tensor constant_like(std::string_view op, const Tensor& t);
// A symbolic tensor for a value whose node knows shapes and dtypes.
Tensor tensor_of_known(const Value& value);

}  // namespace gluino
