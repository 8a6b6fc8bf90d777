// Which parameter of a block a tensor is.
#pragma once
#include <string>

#include "gluino/block.h"

namespace gluino {

// The full name of the parameter in this block or below whose value is `t`; empty: none.
std::string name_of_parameter(const Block& block, const Tensor& t);

}  // namespace gluino
