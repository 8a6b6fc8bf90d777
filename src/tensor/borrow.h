// Tensors on memory of somebody else's.
#pragma once
#include "gluino/tensor.h"

namespace gluino {

// In row-major order and aligned for its elements. The memory must outlive the tensor and all that shares it.
Tensor borrow(void* data, const Shape& shape, DType dtype);

}  // namespace gluino
