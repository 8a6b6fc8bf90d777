// The gradient of a convolution's weight as matrix products over the places of all images: one product for each element of the
// window, or, where the window is 3 x 3 and moves by 1, one for each of Winograd's points (the transposed transforms of winograd.h).
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

bool can_run_grad_products(const ConvGeometry& g);
// The time it takes with Winograd's tiles of edge `tile`, or without them (0), in units of one multiply-add.
double grad_products_cost(const ConvGeometry& g, int64_t tile);
void products_weight_grad(const ConvGeometry& g, int64_t tile, const float* head, const float* data, float* weight_grad,
                          const Scratch& scratch);

}  // namespace gluino::kernels
