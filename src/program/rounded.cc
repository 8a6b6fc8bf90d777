#include "program/rounded.h"

#include "kernels/isa/primitives.h"

namespace gluino {

bool holds(ComputeType type, DType dtype) {
  return dtype == kernels::storage_of(type) || dtype == DType::boolean || (type == ComputeType::f32 && kernels::is_narrow_float(dtype));
}

Expr rounded(Expr x, DType dtype) {
  switch (dtype) {
    case DType::float16: return to_float16(x);
    case DType::bfloat16: return to_bfloat16(x);
    case DType::boolean: return to_bool(x);
    default: return x;
  }
}

}  // namespace gluino
