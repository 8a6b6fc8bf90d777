// Two batches of matrix products with a softmax between them become one operator, which takes over a scale of the queries, elementwise
// operators on the scores (masks), and the transpositions that split and join heads.
#pragma once
#include "passes/pass.h"

namespace gluino {

Graph fuse_attention(Graph graph, const PassContext& context);

}  // namespace gluino
