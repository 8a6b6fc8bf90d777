// Direct convolution in the blocked layout by oneDNN.
#pragma once
#include "kernels/convolution/blocked_layout.h"
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

// Data of few channels is read in the plain layout, all other in the blocked one.
bool can_run_direct(const ConvGeometry& g);
bool reads_plain_data(const ConvGeometry& g);
int64_t direct_weight_elements(const ConvGeometry& g);
void pack_direct_weight(const ConvGeometry& g, const float* weight, float* packed, const Scratch& scratch);
void convolution_direct_blocked(const ConvGeometry& g, const float* data, const float* packed, const ConvEpilogue& epilogue, float* out,
                                const Scratch& scratch);

}  // namespace gluino::kernels
