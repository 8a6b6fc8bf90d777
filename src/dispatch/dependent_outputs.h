// Loops, of which not every output depends on every input: what eager code, which runs their bodies, has on the tape.
#pragma once
#include <span>

#include "gluino/op.h"

namespace gluino {

// Which outputs depend on the marked inputs, of these shapes.
using DependenceRule = std::function<std::vector<bool>(const void* attrs, std::span<const Shape> in, const std::vector<bool>& marked)>;

// Said where such an operator is defined.
void says_dependent_outputs(const std::string& op, DependenceRule rule);
// Null for operators whose outputs all depend on all inputs.
const DependenceRule* dependence_rule_of(const OpDef& op);

}  // namespace gluino
