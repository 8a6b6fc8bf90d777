// How a convolution over blocked activations is computed, and the one place that decides it.
#pragma once
#include <optional>

#include "kernels/convolution/convolution.h"

namespace gluino::kernels {

enum class ConvAlgorithm : uint8_t {
  direct,     // sums over the window, by oneDNN
  narrow,     // the same for few input channels
  winograd2,  // 3 x 3 windows, tiles of 2 x 2 outputs
  winograd4,  // and of 4 x 4
  product,    // images of one pixel: a matrix of channels
};

// The fastest algorithm for blocked activations; none: the plain layout is better.
std::optional<ConvAlgorithm> choose_algorithm(const ConvGeometry& g);

// In the plain layout, where the weight of each call is new: whether loops of our own for few channels, or a product with the
// weight as it lies (for each element of the window, where many see padding), are faster than oneDNN; and the edge of Winograd's
// tiles if those are, else 0.
bool is_narrow(const ConvGeometry& g);
bool has_large_weight(const ConvGeometry& g);
bool sees_much_padding(const ConvGeometry& g);
int64_t plain_winograd_tile(const ConvGeometry& g);
// Whether the gradient of the data is fastest as windows that are products, and are added where they were read.
bool adds_windows(const ConvGeometry& g);
// The gradient of the weight as products over places: the edge of Winograd's tiles or 0 for none; nothing: another way is faster.
std::optional<int64_t> weight_grad_tile(const ConvGeometry& g);

// Whether the algorithm is for such windows at all; what stands below must only be asked then.
bool can_run(const ConvGeometry& g, ConvAlgorithm algorithm);
int64_t packed_weight_elements(const ConvGeometry& g, ConvAlgorithm algorithm);
void pack_weight(const ConvGeometry& g, ConvAlgorithm algorithm, const float* weight, float* packed, const Scratch& scratch);

void convolution_blocked(const ConvGeometry& g, ConvAlgorithm algorithm, const float* data, const float* packed,
                         const ConvEpilogue& epilogue, float* out, const Scratch& scratch);

}  // namespace gluino::kernels
