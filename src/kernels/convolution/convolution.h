// Convolution and its two gradients over 1 to 3 spatial axes: oneDNN and loops of our own for float, matrix products for double.
#pragma once
#include <array>
#include <cstdint>
#include <limits>

#include "base/scratch.h"

namespace gluino::kernels {

using Spatial = std::array<int64_t, 3>;  // only the first `rank` entries count

// data: (batch, in_channels, in...), out: (batch, out_channels, out...), weight: (out_channels, in_channels / groups, kernel...);
// channels_last moves the channel axis of all three to the end.
struct ConvGeometry {
  int rank = 2;
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  Spatial in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilate{1, 1, 1}, pad{0, 0, 0};
  bool channels_last = false;

  int64_t in_area() const { return in[0] * in[1] * in[2]; }
  int64_t out_area() const { return out[0] * out[1] * out[2]; }
  int64_t kernel_area() const { return kernel[0] * kernel[1] * kernel[2]; }
  bool is_depthwise() const { return groups > 1 && groups == in_channels && groups == out_channels; }  // a window for each channel
};

// What follows a convolution, done while its output is hot: out = conv(data) + bias [+ what is in out already], then negative
// numbers become zero and those above the limit the limit.
struct ConvEpilogue {
  const float* bias = nullptr;  // or null
  bool accumulate = false, relu = false;
  float limit = std::numeric_limits<float>::infinity();  // only with relu
};

// bias may be null.
void convolution(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out, const Scratch& scratch);
void convolution(const ConvGeometry& g, const double* data, const double* weight, const double* bias, double* out, const Scratch& scratch);
// data_grad[...] = sum over the outputs that read the element
void convolution_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch);
void convolution_data_grad(const ConvGeometry& g, const double* head, const double* weight, double* data_grad, const Scratch& scratch);
void convolution_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch);
void convolution_weight_grad(const ConvGeometry& g, const double* head, const double* data, double* weight_grad, const Scratch& scratch);

}  // namespace gluino::kernels
