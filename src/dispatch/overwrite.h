// Overwriting a tensor whose old values may still be needed.
#pragma once
#include "gluino/tensor.h"

namespace gluino {

// As target.assign(value), but where the thread has paused a recording and others have the memory too, the tensor goes on in memory of its
// own: the tape and programs keep the values that forward has read. Views of the tensor and programs follow it. Memory that comes from
// outside, or is lent there, is written in place.
void overwrite(Tensor& target, const Tensor& value);

}  // namespace gluino
