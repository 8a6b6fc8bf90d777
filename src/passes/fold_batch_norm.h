// fold_batch_norm: when predicting, a node that scales and shifts channels (CompilerRules::channel_affine) disappears into the
// layer before it (CompilerRules::fold_affine). The folded weights are computed inside the graph, from the parameters as they are
// at each run, so it is done only where the weights are smaller than the values it saves a pass over.
#pragma once
#include "passes/pass.h"

namespace gluino {
Graph fold_batch_norm(Graph graph, const PassContext& context);
}
