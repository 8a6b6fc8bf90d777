// Convolution and its gradients by oneDNN: primitives in the layouts it likes best, with reorders from and to plain ones.
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

void dnnl_convolution(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out, const Scratch& scratch);
void dnnl_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch);
void dnnl_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch);

}  // namespace gluino::kernels
