// What recurrent layers and cells share.
#pragma once
#include "gluino/ops.h"

namespace gluino::nn {

// Zeros of extent 1 along every axis but batch_axis: takes the batch size from x without reading it, so that a traced
// program serves every batch size.
inline Tensor zero_column(const Tensor& x, int batch_axis) {
  Tensor column = x;
  for (int axis = 0; axis < x.ndim(); ++axis)
    if (axis != batch_axis) column = slice_axis(column, {.axis = axis, .begin = 0, .end = 1});
  return zeros_like(column);
}

}  // namespace gluino::nn
