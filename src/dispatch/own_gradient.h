// Losses of before Gluon, and operators of users: backward gives their gradients whatever flows in, zeros among it.
#pragma once
#include "gluino/op.h"

namespace gluino {

// Said where such an operator is defined. In MXNet an operator without a gradient (BlockGrad, argmax) passes zeros back, which ends
// every way but those that lead through these.
void gives_own_gradient(const std::string& op);
bool has_own_gradient(const OpDef& op);

// Said of an operator that has a gradient, which is nothing whatever flows in: backward goes through its calls and ends there.
void ends_gradients(const std::string& op);
bool passes_gradients(const OpDef& op);  // something may flow back through it

}  // namespace gluino
