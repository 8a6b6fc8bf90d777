// Convolution of images that are one pixel, as the gates of squeeze-and-excitation are: in blocks their channels are rows of a matrix.
#pragma once
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

bool can_run_product(const ConvGeometry& g);
int64_t product_weight_elements(const ConvGeometry& g);
void pack_product_weight(const ConvGeometry& g, const float* weight, float* packed, const Scratch& scratch);
void convolution_product(const ConvGeometry& g, const float* data, const float* packed, const ConvEpilogue& epilogue, float* out);

}  // namespace gluino::kernels
