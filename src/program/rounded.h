// Values of a scalar program as arrays of narrower dtypes would keep them.
#pragma once
#include "gluino/dtype.h"
#include "gluino/expr.h"

namespace gluino {

// Whether a program in this type can hold values of the dtype.
bool holds(ComputeType type, DType dtype);
// x as a value of this dtype.
Expr rounded(Expr x, DType dtype);

}  // namespace gluino
