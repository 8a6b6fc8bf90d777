// Rows of requests into tensors, and back.
#pragma once
#include "serve/protocol/infer.h"

namespace gluino::serve {

const char* bytes_of(const Tensor& t);
// One tensor of the rows of several inputs of one type that agree in all extents but the first.
Tensor joined(const std::vector<const InferInput*>& inputs);
Tensor alone(const InferInput& input);

// Other numbers of the same kind: fractions are moved a little; whole numbers stay, because they may have to be among those that a model
// knows.
Tensor disturbed(const Tensor& t);
Tensor stacked(const Tensor& a, const Tensor& b);  // along the first axis

// Whether the rows of `whole` from `first` on are those of `part`, but for rounding.
bool rows_agree(const Tensor& whole, int64_t first, const Tensor& part);

}  // namespace gluino::serve
