// Tensors from outside that a traced program reads: parameters, members, variables of the surrounding function.
#pragma once
#include <memory>

#include "tensor/impl.h"

namespace gluino {

// Asks for the lines of a tensor, and for the first ones of its memory, before they are needed.
inline void prefetch_tensor(const Tensor& t) {
  const char* object = reinterpret_cast<const char*>(t.impl().get());
  for (size_t line = 0; line < sizeof(detail::TensorImpl); line += 64) __builtin_prefetch(object + line);
}
inline void prefetch_values(const Tensor& t) {
  for (int64_t line = 0; line < 4; ++line) __builtin_prefetch(impl_of(t).data + 64 * line);
  __builtin_prefetch(impl_of(t).storage.get());
}

// Graphs and plans hold the shadow, a tensor of their own on the same memory, so that the owner's tensor has one reference from all
// programs together: when it is the last, the owner has let go of it, and what was traced is out of date.
class CapturedTensor {
 public:
  static std::shared_ptr<CapturedTensor> of(const Tensor& live);  // the same for all programs

  const Tensor& live() const { return live_; }
  const Tensor& shadow() const { return shadow_; }
  // Nobody else has it, or a variable that was this tensor has been made another; somebody may have a copy of the old one then. A constant
  // that traced code made itself has no other owner from the beginning.
  bool is_let_go() const {
    const detail::TensorImpl& t = impl_of(live_);
    return has_owner_ && (t.use_count() == 1 || t.times_overwritten.load(std::memory_order_relaxed) != times_overwritten_);
  }
  // Follows a tensor that got other memory, as one on the tape does when it or its base is updated in place.
  void follow();

 private:
  explicit CapturedTensor(const Tensor& live);
  Tensor live_, shadow_;
  const bool has_owner_;
  const uint32_t times_overwritten_;
};
using CapturedTensors = std::vector<std::shared_ptr<CapturedTensor>>;

}  // namespace gluino
