// Rows of requests into tensors, and back.
#pragma once
#include "serve/protocol/infer.h"

namespace gluino::serve {

const char* bytes_of(const Tensor& t);

// Rows of a request, or of a tensor.
struct Rows {
  const char* data;
  Shape shape;
  DType dtype;
};
inline Rows rows_of(const InferInput& input) { return {input.data, input.shape, input.dtype}; }
inline Rows rows_of(const Tensor& t) { return {bytes_of(t), t.shape(), t.dtype()}; }

// One tensor of all rows, which agree in all extents but the first; with a length also but the second, which zeros fill up to it.
Tensor pack(const std::vector<Rows>& parts, int64_t length = 0);
// Some rows; with a length only so much of the second axis.
Tensor cut(const Tensor& whole, int64_t first, int64_t rows, int64_t length = 0);
// Elements beyond a limit become the limit.
void limit_from_above(Tensor& t, int64_t first, int64_t rows, int64_t limit);

// Other numbers of the same kind: fractions are moved a little; whole numbers stay, because they may have to be among those that a model
// knows.
Tensor disturbed(const Tensor& t);

// Whether both are the same but for rounding.
bool agree(const Tensor& a, const Tensor& b);

}  // namespace gluino::serve
