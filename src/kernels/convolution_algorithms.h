// How a convolution over blocked activations is computed, and the one place that decides it.
#pragma once
#include <optional>

#include "kernels/convolution.h"

namespace gluino::kernels {

enum class ConvAlgorithm : uint8_t {
  direct,     // sums over the window, by oneDNN
  narrow,     // the same for few input channels
  winograd2,  // 3 x 3 windows, tiles of 2 x 2 outputs
  winograd4,  // and of 4 x 4
};

// The fastest algorithm for blocked activations; none: the plain layout is better.
std::optional<ConvAlgorithm> choose_algorithm(const ConvGeometry& g);

// Whether, in the plain layout, our own loops for few channels are faster than oneDNN.
bool is_narrow(const ConvGeometry& g);

int64_t packed_weight_elements(const ConvGeometry& g, ConvAlgorithm algorithm);
void pack_weight(const ConvGeometry& g, ConvAlgorithm algorithm, const float* weight, float* packed);

// out = conv(data) + bias [+ what is in out already], then [relu]; bias may be null.
void convolution_blocked(const ConvGeometry& g, ConvAlgorithm algorithm, const float* data, const float* packed, const float* bias,
                         bool accumulate, bool relu, float* out, const Scratch& scratch);

}  // namespace gluino::kernels
