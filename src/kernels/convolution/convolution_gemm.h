// Convolution as a matrix product with the windows of the data spelled out, for large weights and few positions: the weight is
// read, or its gradient written, once and as it lies.
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

bool can_run_gemm(const ConvGeometry& g);
void convolution_gemm(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out, const Scratch& scratch);
void gemm_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch);
// The same for images of any size: some rows of the head at a time, whose windows stay in the cache.
void gemm_data_grad_in_bands(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch);
void gemm_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch);

// Windows of one place, or along a single axis in steps of one: what neighbouring outputs see under an element of the window are
// neighbours, so that the data are a factor of a product as they lie, or after a copy of runs of them.
bool can_run_runs(const ConvGeometry& g);
void convolution_runs(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out, const Scratch& scratch);
void runs_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch);
void runs_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch);

}  // namespace gluino::kernels
