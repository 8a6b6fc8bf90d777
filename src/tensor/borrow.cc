#include "tensor/borrow.h"

#include "tensor/impl.h"

namespace gluino {

Tensor borrow(void* data, const Shape& shape, DType dtype) {
  auto impl = make_ref<detail::TensorImpl>(shape, dtype, current_device());
  impl->storage = make_ref<Storage>(data, shape.elements() * dtype_bytes(dtype), current_device(), [] {});
  impl->data = static_cast<char*>(data);
  return Tensor(std::move(impl));
}

}  // namespace gluino
