#include "ops/common.h"

#include "kernels/isa/primitives.h"
#include "tensor/impl.h"

namespace gluino::ops {

Tensor reduce_like(const Tensor& gradient, const Tensor& like) { return call("_sum_like", {gradient, like}); }

Tensor with_dtype(const Tensor& t, DType dtype) {
  const detail::TensorImpl& from = impl_of(t);
  if (from.dtype == dtype) return t;
  Tensor out = make_tensor(from.shape, dtype, from.device);
  kernels::convert(bytes_of(t), from.dtype, bytes_of(out), dtype, from.shape.elements());
  return out;
}

}  // namespace gluino::ops
