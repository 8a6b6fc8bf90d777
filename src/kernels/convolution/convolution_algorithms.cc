#include "kernels/convolution/convolution_algorithms.h"

#include "kernels/convolution/convolution_blocked.h"
#include "kernels/convolution/convolution_gemm.h"
#include "kernels/convolution/convolution_weight_grad.h"
#include "kernels/convolution/narrow_convolution.h"
#include "kernels/convolution/pixel_product.h"
#include "kernels/convolution/seen_outputs.h"
#include "kernels/convolution/winograd.h"

namespace gluino::kernels {
namespace {

constexpr int64_t kNarrowChannels = 8;     // up to so many, ours loses nothing to padding
constexpr int64_t kFewPositions = 64;      // of the output, over all images
constexpr double kTransformedWeight = 8;   // what it takes to transform a weight and write it, a number
constexpr int64_t kWinogradChannels = 12;  // below, the transforms are most of the work
constexpr double kMostlySeen = 0.75;       // from so much of the window on, padding is not worth leaving out
constexpr int64_t kLargeWeight = 1 << 20;  // numbers, transformed
constexpr double kWorthOfANumber = 16;     // of it that is kept, in multiplications a call
constexpr int64_t kProductChannels = 16;   // below, products over places are too thin

int64_t winograd_tile(ConvAlgorithm algorithm) { return algorithm == ConvAlgorithm::winograd2 ? 2 : 4; }

double direct_cost(const ConvGeometry& g) {
  return static_cast<double>(g.batch * g.out_channels * (g.in_channels / g.groups) * g.kernel_area()) * static_cast<double>(g.out_area());
}

// The edge of Winograd's tiles, or 0 where a direct sum is faster. `weight_cost` is what each number of the transformed weight
// costs beside its use, in multiply-adds.
int64_t faster_winograd_tile(const ConvGeometry& g, double weight_cost) {
  if (!can_run_winograd(g) || std::min(g.in_channels, g.out_channels) < kWinogradChannels) return 0;
  const auto cost = [&](int64_t m) {
    return winograd_cost(g, m) + weight_cost * static_cast<double>((m + 2) * (m + 2) * g.in_channels * g.out_channels);
  };
  const double cost2 = cost(2), cost4 = cost(4);
  if (std::min(cost2, cost4) >= direct_cost(g)) return 0;
  // What fills memory must be worth it: a large weight takes its larger form only for many multiplications.
  const int64_t small = winograd_weight_elements(g, 2), large = winograd_weight_elements(g, 4);
  const double room = large > kLargeWeight ? kWorthOfANumber * static_cast<double>(large - small) : 0;
  return cost2 < cost4 + room ? 2 : 4;
}

}  // namespace

std::optional<ConvAlgorithm> choose_algorithm(const ConvGeometry& g) {
  if (g.rank != 2 || g.channels_last || g.out_area() == 0 || g.batch == 0) return {};
  if (can_run_product(g)) return ConvAlgorithm::product;
  if (const int64_t m = faster_winograd_tile(g, 0)) return m == 2 ? ConvAlgorithm::winograd2 : ConvAlgorithm::winograd4;
  if (can_run_narrow(g) && g.in_channels <= kNarrowChannels) return ConvAlgorithm::narrow;
  return can_run_direct(g) ? std::optional(ConvAlgorithm::direct) : std::nullopt;
}

bool is_narrow(const ConvGeometry& g) {
  return can_run_narrow_plain(g) && g.in_channels <= kNarrowChannels && g.out_channels <= 4 * kNarrowChannels;
}

bool has_large_weight(const ConvGeometry& g) {
  return can_run_gemm(g) && g.batch * g.out_area() <= kFewPositions && g.in_channels * g.kernel_area() >= 8 * kFewPositions &&
         g.out_channels >= kFewPositions;
}

bool sees_much_padding(const ConvGeometry& g) { return seen_share(g) < kMostlySeen; }

// oneDNN's loops are over blocks of channels: for one of 56 it took ten times as long, with 24 and more it is faster.
bool adds_windows(const ConvGeometry& g) {
  return can_run_gemm(g) && std::max(g.stride[0], g.stride[1]) > 1 && g.in_channels < kNarrowChannels;
}

int64_t plain_winograd_tile(const ConvGeometry& g) { return faster_winograd_tile(g, kTransformedWeight); }

std::optional<int64_t> weight_grad_tile(const ConvGeometry& g) {
  if (!can_run_grad_products(g) || std::min(g.in_channels, g.out_channels) < kProductChannels) return {};
  int64_t best = 0;
  if (can_run_winograd(g))
    for (const int64_t m : {2, 4})
      if (grad_products_cost(g, m) < grad_products_cost(g, best)) best = m;
  if (best == 0 && has_large_weight(g) && !sees_much_padding(g)) return {};
  // Measured: what a multiply-add takes here and there, and a number of the weight there.
  constexpr double kProduct = 1.6, kDirect = 1.4, kDirectWeight = 50;
  const auto weights = static_cast<double>(g.out_channels * g.in_channels * g.kernel_area());
  if (kProduct * grad_products_cost(g, best) >= kDirect * direct_cost(g) + kDirectWeight * weights) return {};
  return best;
}

bool can_run(const ConvGeometry& g, ConvAlgorithm algorithm) {
  switch (algorithm) {
    case ConvAlgorithm::direct: return true;  // oneDNN says by itself what it cannot
    case ConvAlgorithm::narrow: return can_run_narrow(g);
    case ConvAlgorithm::product: return g.groups == 1 && g.kernel_area() == 1;
    default: return can_run_winograd(g);
  }
}

int64_t packed_weight_elements(const ConvGeometry& g, ConvAlgorithm algorithm) {
  switch (algorithm) {
    case ConvAlgorithm::direct: return direct_weight_elements(g);
    case ConvAlgorithm::narrow: return narrow_weight_elements(g);
    case ConvAlgorithm::product: return product_weight_elements(g);
    default: return winograd_weight_elements(g, winograd_tile(algorithm));
  }
}

void pack_weight(const ConvGeometry& g, ConvAlgorithm algorithm, const float* weight, float* packed, const Scratch& scratch) {
  switch (algorithm) {
    case ConvAlgorithm::direct: return pack_direct_weight(g, weight, packed, scratch);
    case ConvAlgorithm::narrow: return pack_narrow_weight(g, weight, packed);
    case ConvAlgorithm::product: return pack_product_weight(g, weight, packed, scratch);
    default: return pack_winograd_weight(g, winograd_tile(algorithm), weight, false, packed, scratch);
  }
}

// Zeros in the channels that the last block has too many: where data is not finite, weights of 0 have made NaN of it.
static void clear_surplus(const ConvGeometry& g, float* out) {
  const int64_t blocks = blocks_of(g.out_channels), area = g.out_area();
  for (int64_t n = 1; n <= g.batch; ++n)
    for (float* pixel = out + (n * blocks - 1) * area * kChannelBlock; pixel < out + n * blocks * area * kChannelBlock;
         pixel += kChannelBlock)
      std::fill(pixel + g.out_channels % kChannelBlock, pixel + kChannelBlock, 0.0f);
}

void convolution_blocked(const ConvGeometry& g, ConvAlgorithm algorithm, const float* data, const float* packed,
                         const ConvEpilogue& epilogue, float* out, const Scratch& scratch) {
  if (g.batch == 0) return;
  switch (algorithm) {
    case ConvAlgorithm::direct: convolution_direct_blocked(g, data, packed, epilogue, out, scratch); break;
    case ConvAlgorithm::narrow: convolution_narrow(g, reads_plain_data(g), data, packed, epilogue, out, scratch); break;
    case ConvAlgorithm::product: convolution_product(g, data, packed, epilogue, out); break;
    default: convolution_winograd(g, winograd_tile(algorithm), data, packed, epilogue, out, scratch);
  }
  if (g.out_channels % kChannelBlock) clear_surplus(g, out);
}

}  // namespace gluino::kernels
