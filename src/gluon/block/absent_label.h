// Labels of a loaded network that nobody gives: they do not matter for what it predicts.
#pragma once
#include <string_view>

#include "graph/graph.h"

namespace gluino {

bool looks_like_label(std::string_view name);

// Adds zeros for the labels among the variables of a graph with inferred shapes that `tensors` lacks. A label that is one number per row
// is made of the first input, so that a program that was traced for one batch holds for the others.
void add_absent_labels(const Graph& graph, const Tensors& inputs, TensorMap& tensors);

}  // namespace gluino
