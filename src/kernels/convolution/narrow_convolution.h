// Direct convolution for few input channels in the blocked layout: registers hold neighbouring outputs of 8 or 16 channels,
// and no time is spent on the padding of the input's last block.
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

bool can_run_narrow(const ConvGeometry& g);
int64_t narrow_weight_elements(const ConvGeometry& g);
void pack_narrow_weight(const ConvGeometry& g, const float* weight, float* packed);
void convolution_narrow(const ConvGeometry& g, bool data_is_plain, const float* data, const float* packed, const ConvEpilogue& epilogue,
                        float* out, const Scratch& scratch);

// The same between plain layouts, and the gradient of the weight; strides of 1 and windows whose elements are neighbours.
bool can_run_narrow_plain(const ConvGeometry& g);
void convolution_narrow_plain(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out,
                              const Scratch& scratch);
void narrow_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch);

}  // namespace gluino::kernels
