#include "kernels/convolution_algorithms.h"

#include "kernels/convolution_blocked.h"
#include "kernels/narrow_convolution.h"
#include "kernels/winograd.h"

namespace gluino::kernels {
namespace {

constexpr int64_t kNarrowChannels = 8;     // up to so many, ours loses nothing to padding
constexpr int64_t kWinogradChannels = 32;  // below, the transforms are most of the work

int64_t winograd_tile(ConvAlgorithm algorithm) { return algorithm == ConvAlgorithm::winograd2 ? 2 : 4; }

double direct_cost(const ConvGeometry& g) {
  return static_cast<double>(g.batch * g.out_channels * (g.in_channels / g.groups) * g.kernel_area()) * static_cast<double>(g.out_area());
}

}  // namespace

std::optional<ConvAlgorithm> choose_algorithm(const ConvGeometry& g) {
  if (g.rank != 2 || g.channels_last || g.out_area() == 0 || g.batch == 0) return {};
  if (can_run_winograd(g) && std::min(g.in_channels, g.out_channels) >= kWinogradChannels) {
    const double cost2 = winograd_cost(g, 2), cost4 = winograd_cost(g, 4);
    if (std::min(cost2, cost4) < direct_cost(g)) return cost2 < cost4 ? ConvAlgorithm::winograd2 : ConvAlgorithm::winograd4;
  }
  if (can_run_narrow(g) && g.in_channels <= kNarrowChannels) return ConvAlgorithm::narrow;
  return can_run_direct(g) ? std::optional(ConvAlgorithm::direct) : std::nullopt;
}

bool is_narrow(const ConvGeometry& g) {
  return can_run_narrow_plain(g) && g.in_channels <= kNarrowChannels && g.out_channels <= 4 * kNarrowChannels;
}

int64_t packed_weight_elements(const ConvGeometry& g, ConvAlgorithm algorithm) {
  switch (algorithm) {
    case ConvAlgorithm::direct: return direct_weight_elements(g);
    case ConvAlgorithm::narrow: return narrow_weight_elements(g);
    default: return winograd_weight_elements(g, winograd_tile(algorithm));
  }
}

void pack_weight(const ConvGeometry& g, ConvAlgorithm algorithm, const float* weight, float* packed) {
  switch (algorithm) {
    case ConvAlgorithm::direct: return pack_direct_weight(g, weight, packed);
    case ConvAlgorithm::narrow: return pack_narrow_weight(g, weight, packed);
    default: return pack_winograd_weight(g, winograd_tile(algorithm), weight, packed);
  }
}

void convolution_blocked(const ConvGeometry& g, ConvAlgorithm algorithm, const float* data, const float* packed, const float* bias,
                         bool accumulate, bool relu, float* out, const Scratch& scratch) {
  if (g.batch == 0) return;
  switch (algorithm) {
    case ConvAlgorithm::direct: return convolution_direct_blocked(g, data, packed, bias, accumulate, relu, out, scratch);
    case ConvAlgorithm::narrow: return convolution_narrow(g, reads_plain_data(g), data, packed, bias, accumulate, relu, out, scratch);
    default: return convolution_winograd(g, winograd_tile(algorithm), data, packed, bias, accumulate, relu, out, scratch);
  }
}

}  // namespace gluino::kernels
