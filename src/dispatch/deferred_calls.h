// Calls that wait until somebody needs their values. A chain of elementwise ones is then one sweep over memory, with the bits of the calls
// one by one, and what is wanted in the end is written where it belongs. For a gradient, which is written with operators.
#pragma once
#include <optional>

#include "gluino/op.h"

namespace gluino {

// While it lives, calls of this thread on tensors that it gave out wait. Nothing may be recorded or traced meanwhile.
class DeferredCalls {
 public:
  DeferredCalls();
  ~DeferredCalls();
  DeferredCalls(const DeferredCalls&) = delete;
  DeferredCalls& operator=(const DeferredCalls&) = delete;

  // A name for a concrete tensor, on which calls wait.
  static Tensor deferred(const Tensor& concrete);
  // What the tensors stand for, as memory; null ones and concrete ones stay as they are. What is yet to be computed is written to the
  // destination, where there is one of its shape and dtype.
  static Tensors values(Tensors tensors, std::span<const Tensor> destinations);

  // apply() on inputs of which some are such tensors.
  static Tensors call(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs);
  static bool are_on() { return depth_ > 0; }

 private:
  static thread_local int depth_;
};

}  // namespace gluino
