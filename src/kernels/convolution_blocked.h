// Direct convolution in the blocked layout by oneDNN. What follows the layer is done while its output is hot.
#pragma once
#include "kernels/blocked_layout.h"
#include "kernels/convolution.h"

namespace gluino::kernels {

// Data of few channels is read in the plain layout, all other in the blocked one.
bool can_run_direct(const ConvGeometry& g);
bool reads_plain_data(const ConvGeometry& g);
int64_t direct_weight_elements(const ConvGeometry& g);
void pack_direct_weight(const ConvGeometry& g, const float* weight, float* packed);
// out = conv(data) + bias [+ what is in out already], then [relu]; bias may be null.
void convolution_direct_blocked(const ConvGeometry& g, const float* data, const float* packed, const float* bias, bool accumulate,
                                bool relu, float* out, const Scratch& scratch);

}  // namespace gluino::kernels
