// backward() and grad() while code is traced.
#pragma once
#include "gluino/autograd.h"

namespace gluino::autograd {

// The gradients become part of the program: those of `variables`, or what backward() writes where there are none.
Tensors trace_backward(const Tensors& heads, const Tensors& variables, const Tensors& head_grads, BackwardOptions options);

}  // namespace gluino::autograd
