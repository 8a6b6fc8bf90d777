// Convolution over two spatial axes on activations in the blocked layout (batch, channels / 8, height, width, 8), whose
// last block is padded with zeros, and on weights packed for it. What follows the layer is done while its output is hot.
#pragma once
#include "kernels/convolution.h"

namespace gluino::kernels {

inline constexpr int64_t kChannelBlock = 8;
inline int64_t blocks_of(int64_t channels) { return (channels + kChannelBlock - 1) / kChannelBlock; }

// Whether there is a fast kernel. Data of few channels is read in the plain layout, all other in the blocked one.
bool can_run_blocked(const ConvGeometry& g);
bool reads_plain_data(const ConvGeometry& g);

int64_t packed_weight_elements(const ConvGeometry& g);
void pack_weight(const ConvGeometry& g, const float* weight, float* packed);

// out = conv(data) + bias [+ what is in out already], then [relu]; bias may be null.
void convolution_blocked(const ConvGeometry& g, const float* data, const float* packed, const float* bias, bool accumulate, bool relu,
                         float* out, const Scratch& scratch);

void to_blocked(int64_t batch, int64_t channels, int64_t area, const float* plain, float* blocked);
void from_blocked(int64_t batch, int64_t channels, int64_t area, const float* blocked, float* plain);

}  // namespace gluino::kernels
