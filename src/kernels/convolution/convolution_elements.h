// Convolution as matrix products, one for each element of the window and what it sees of the data, for large weights and few positions
// most of which are at an edge: the weight is read once and as it lies, and nothing is multiplied with padding.
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

void convolution_elements(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out,
                          const Scratch& scratch);
void elements_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch);

}  // namespace gluino::kernels
