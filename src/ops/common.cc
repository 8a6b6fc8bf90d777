#include "ops/common.h"

#include "dispatch/mode.h"
#include "kernels/isa/primitives.h"
#include "tensor/impl.h"

namespace gluino::ops {

static std::string_view name_of(std::string_view relation) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {{"==", "equal"},        {"!=", "not_equal"}, {"<", "lesser"},
                                                                     {"<=", "lesser_equal"}, {">", "greater"},    {">=", "greater_equal"}};
  for (const auto& [sign, name] : names)
    if (sign == relation) return name;
  raise<InternalError>("no relation '{}'", relation);
}
Tensor indicator(const Tensor& a, std::string_view relation, const Tensor& b) {
  return call(fmt::format("broadcast_{}", name_of(relation)), {a, b});
}
Tensor indicator(const Tensor& a, std::string_view relation, double b) {
  return call(fmt::format("_{}_scalar", name_of(relation)), {a}, {{"scalar", b}});
}
Tensor reduce_like(const Tensor& gradient, const Tensor& like) {
  const detail::TensorImpl &from = impl_of(gradient), &to = impl_of(like);
  // A traced program may run with other shapes.
  if (!from.symbolic && !to.symbolic && !mode().tracing && from.shape == to.shape) return gradient;
  return call("_sum_like", {gradient, like});
}

Tensor with_dtype(const Tensor& t, DType dtype) {
  const detail::TensorImpl& from = impl_of(t);
  if (from.dtype == dtype) return t;
  Tensor out = make_tensor(from.shape, dtype, from.device);
  kernels::convert(bytes_of(t), from.dtype, bytes_of(out), dtype, from.shape.elements());
  return out;
}

}  // namespace gluino::ops
