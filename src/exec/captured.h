// Tensors from outside that a traced program reads: parameters, members, variables of the surrounding function.
#pragma once
#include <memory>

#include "tensor/impl.h"

namespace gluino {

// Graphs and plans hold the shadow, a tensor of their own on the same memory, so that the owner's tensor has one reference from all
// programs together: when it is the last, the owner has let go of it, and what was traced is out of date.
class CapturedTensor {
 public:
  static std::shared_ptr<CapturedTensor> of(const Tensor& live);  // the same for all programs

  const Tensor& live() const { return live_; }
  const Tensor& shadow() const { return shadow_; }
  // A constant that traced code made itself has no other owner from the beginning.
  bool is_let_go() const { return !impl_of(live_).is_made_in_trace && live_.impl()->use_count() == 1; }
  // Follows a tensor that got other memory, as one on the tape does when it or its base is updated in place.
  void follow();

 private:
  explicit CapturedTensor(const Tensor& live);
  Tensor live_, shadow_;
};
using CapturedTensors = std::vector<std::shared_ptr<CapturedTensor>>;

}  // namespace gluino
