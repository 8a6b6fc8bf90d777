// Winograd's algorithm for 3 x 3 windows of stride 1 in the blocked layout: m x m outputs of a channel cost (m + 2)^2
// products instead of 9 m^2. A patch of inputs and the weight are transformed, multiplied point by point (a matrix product
// over the channels for each of the (m + 2)^2 points), and the sums are transformed into outputs.
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

bool can_run_winograd(const ConvGeometry& g);
// The time it takes for tiles of edge m (2 or 4), in units of one multiply-add of a direct convolution.
double winograd_cost(const ConvGeometry& g, int64_t m);

int64_t winograd_weight_elements(const ConvGeometry& g, int64_t m);
// A turned weight is that of the convolution whose gradient this is: (in_channels, out_channels, 3, 3), windows turned round.
void pack_winograd_weight(const ConvGeometry& g, int64_t m, const float* weight, bool is_turned, float* packed, const Scratch& scratch);

void convolution_winograd(const ConvGeometry& g, int64_t m, const float* data, const float* packed, const ConvEpilogue& epilogue,
                          float* out, const Scratch& scratch);

// The same between plain layouts, with the weight as it is.
void convolution_winograd_plain(const ConvGeometry& g, int64_t m, const float* data, const float* weight, bool is_turned, const float* bias,
                                float* out, const Scratch& scratch);

}  // namespace gluino::kernels
