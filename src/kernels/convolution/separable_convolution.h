// A convolution with a window for each channel, between convolutions whose windows are one place, band by band of rows: what
// passes from one to the next stays in the cache, and threads share the rows, so that each reads what it has written itself.
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

// Weights are packed as for direct convolutions of blocked data.
struct SeparableLayer {
  const float *weight = nullptr, *bias = nullptr;  // no weight: there is no such layer
  bool relu = false;
  float limit = std::numeric_limits<float>::infinity();
};
struct SeparableCall {
  ConvGeometry depthwise;
  int64_t in_channels, out_channels;
  SeparableLayer expand, middle, project;
  const float* added = nullptr;  // to the results of the projection, before its relu; or null
};

bool is_pointwise(const ConvGeometry& g);
bool can_be_separable_middle(const ConvGeometry& g);
void convolution_separable(const SeparableCall& call, const float* data, float* out, const Scratch& scratch);

}  // namespace gluino::kernels
