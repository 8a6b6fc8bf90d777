#include "dispatch/overwrite.h"

#include <cstring>

#include "dispatch/recording_as.h"

namespace gluino {

static bool is_needed_by_others(const detail::TensorImpl& t) {
  return t.storage && t.storage->use_count() > 1 && !t.storage->is_shared_outside();
}

void overwrite(Tensor& target, const Tensor& value) {
  detail::TensorImpl& t = impl_of(target);
  const detail::TensorImpl& v = impl_of(value);
  const bool is_paused = !mode().recording && !mode().tracing && pauses_under_way() > 0;
  const bool is_plain = !t.symbolic && !v.symbolic && !t.view && v.shape == t.shape && v.dtype == t.dtype && v.device == t.device;
  if (!is_paused || !is_plain || !is_needed_by_others(t)) return target.assign(value);
  const MakesForOthers for_its_owner;
  const Tensor own = make_tensor(t.shape, t.dtype, t.device);
  std::memcpy(bytes_of(own), bytes_of(value), static_cast<size_t>(t.shape.elements() * dtype_bytes(t.dtype)));
  t.storage = impl_of(own).storage;
  t.data = impl_of(own).data;
  t.next_version();
}

}  // namespace gluino
