// Pooling windows over 1 to 3 spatial axes, and the gradient of pooling.
#pragma once
#include <cstdint>

#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

enum class PoolKind : uint8_t { max, avg, sum, lp };

// Element (n, c, x...) lies at n * batch_stride + c * channel_stride + (row-major position of x) * axis_stride.
struct PoolGeometry {
  PoolKind kind = PoolKind::max;
  int64_t batch = 0, channels = 0;
  Spatial in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, pad{0, 0, 0};
  bool channels_last = false;
  bool count_include_pad = true;  // whether avg divides by the padded window
  int p = 2;                      // of lp

  int64_t in_area() const { return in[0] * in[1] * in[2]; }
  int64_t out_area() const { return out[0] * out[1] * out[2]; }
};

template <class T>
void pool(const PoolGeometry& g, const T* data, T* out);
// data and values are the input and output of pool(); the maximum's gradient goes to the first largest element.
template <class T>
void pool_grad(const PoolGeometry& g, const T* head, const T* data, const T* values, T* data_grad);
// For max: picks from `source` (of the shape of data) the elements that pool() chose.
template <class T>
void pool_pick(const PoolGeometry& g, const T* source, const T* data, const T* values, T* out);

}  // namespace gluino::kernels
