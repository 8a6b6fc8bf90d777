// Squares of a plane in the blocked layout, with zeros where they lie outside of it.
#pragma once
#include <algorithm>

#include "kernels/convolution/blocked_layout.h"
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

inline constexpr int64_t kMostPatchEdge = 6;

// Calls f(first vector, step between rows) for the square of `edge` whose first element is (top, left) of `plane`; the square itself
// where it lies inside, else a copy.
template <class F>
void with_patch(const float* plane, const Spatial& extents, int64_t top, int64_t left, int64_t edge, F&& f) {
  const int64_t height = extents[0], width = extents[1];
  if (top >= 0 && left >= 0 && top + edge <= height && left + edge <= width)
    return f(plane + (top * width + left) * kChannelBlock, width * kChannelBlock);
  const int64_t first_row = std::max<int64_t>(top, 0), last_row = std::min(top + edge, height);
  const int64_t first_column = std::max<int64_t>(left, 0), columns = std::min(left + edge, width) - first_column;
  float patch[kMostPatchEdge * kMostPatchEdge * kChannelBlock] = {};
  for (int64_t y = first_row; y < last_row && columns > 0; ++y)
    std::copy_n(plane + (y * width + first_column) * kChannelBlock, columns * kChannelBlock,
                patch + ((y - top) * edge + first_column - left) * kChannelBlock);
  f(static_cast<const float*>(patch), edge * kChannelBlock);
}

}  // namespace gluino::kernels
