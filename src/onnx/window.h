// The geometry of convolution and pooling windows in ONNX's terms.
#pragma once
#include "onnx/rules.h"

namespace gluino::onnx {

struct Window {
  Shape kernel, stride, dilation, before, after;  // per spatial axis
  bool is_symmetric() const { return before == after; }
  bool is_padded() const;
  int64_t reach(int axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
  int axes() const { return kernel.ndim(); }
};

// From kernel_shape (or the weight's extents), strides, dilations, pads and auto_pad; x has (batch, channel, spatial...).
Window window_of(Call& c, const Tensor& x, const Shape& kernel);
Tensor pad_for(const Tensor& x, const Window& w, double value);

}  // namespace gluino::onnx
