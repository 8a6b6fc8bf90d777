// What recurrent layers and cells share.
#pragma once
#include "gluino/op.h"

namespace gluino::nn {

// Zeros of extent 1 along every axis but batch_axis: takes the batch size from x without reading it, so that a traced
// program serves every batch size.
inline Tensor zero_column(const Tensor& x, int batch_axis) {
  Tensor column = x;
  for (int axis = 0; axis < x.ndim(); ++axis)
    if (axis != batch_axis) column = call("slice_axis", {column}, {{"axis", int64_t{axis}}, {"begin", int64_t{0}}, {"end", int64_t{1}}});
  return call("zeros_like", {column});
}

}  // namespace gluino::nn
