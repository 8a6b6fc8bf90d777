// Which outputs of a convolution see data under an element of the window, and not the padding.
#pragma once
#include <algorithm>

#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

// Outputs in [first, last) along an axis; output o sees o * stride + offset.
struct SeenOutputs {
  int64_t first, last, offset;
  int64_t count() const { return last - first; }
};
inline SeenOutputs seen_outputs(const ConvGeometry& g, size_t axis, int64_t element) {
  const int64_t offset = element * g.dilate[axis] - g.pad[axis], stride = g.stride[axis];
  const int64_t first = std::min(offset < 0 ? (-offset + stride - 1) / stride : 0, g.out[axis]), room = g.in[axis] - 1 - offset;
  return {first, std::clamp(room < 0 ? 0 : room / stride + 1, first, g.out[axis]), offset};
}

// The part of the window's elements, over all outputs, that see data.
inline double seen_share(const ConvGeometry& g) {
  double share = 1;
  for (size_t axis = 0; axis < 2; ++axis) {
    int64_t seen = 0;
    for (int64_t i = 0; i < g.kernel[axis]; ++i) seen += seen_outputs(g, axis, i).count();
    share *= static_cast<double>(seen) / static_cast<double>(g.kernel[axis] * g.out[axis]);
  }
  return share;
}

}  // namespace gluino::kernels
