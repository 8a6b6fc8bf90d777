// Convolution with a window for each channel in the plain layout, where neighbours in a row are neighbours in vectors: nothing is
// rearranged but the padding.
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

bool can_run_planes(const ConvGeometry& g);
void convolution_planes(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out);
void planes_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad);
void planes_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad);

}  // namespace gluino::kernels
