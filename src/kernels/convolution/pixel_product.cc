#include "kernels/convolution/pixel_product.h"

#include <algorithm>
#include <cmath>

#include "kernels/convolution/blocked_layout.h"
#include "kernels/convolution/convolution_blocked.h"
#include "kernels/gemm/gemm.h"

namespace gluino::kernels {
namespace {

// Channels with the padding of the last block, whose weights are zero.
int64_t padded(int64_t channels) { return blocks_of(channels) * kChannelBlock; }

}  // namespace

bool can_run_product(const ConvGeometry& g) {
  return g.rank == 2 && !g.channels_last && g.groups == 1 && g.in_area() == 1 && g.kernel_area() == 1 && g.pad[0] == 0 && g.pad[1] == 0 &&
         !reads_plain_data(g);
}

int64_t product_weight_elements(const ConvGeometry& g) { return packed_elements(padded(g.in_channels), padded(g.out_channels)); }

void pack_product_weight(const ConvGeometry& g, const float* weight, float* packed, const Scratch& scratch) {
  const int64_t in = padded(g.in_channels), out = padded(g.out_channels);
  float* rows = floats(in * out, scratch);
  std::fill_n(rows, in * out, 0.0f);
  for (int64_t o = 0; o < g.out_channels; ++o) std::copy_n(weight + o * g.in_channels, g.in_channels, rows + o * in);
  pack_factor(true, in, out, rows, in, packed);
}

void convolution_product(const ConvGeometry& g, const float* data, const float* packed, const ConvEpilogue& epilogue, float* out) {
  const int64_t in = padded(g.in_channels), n = padded(g.out_channels);
  const std::vector<float> bias = padded_bias(epilogue.bias, g.out_channels);
  const bool is_done = !epilogue.accumulate && !std::isfinite(epilogue.limit);
  gemm_packed({g.batch, n, in}, {data, in}, packed, epilogue.accumulate, {out, n},
              epilogue.accumulate ? Epilogue{} : Epilogue{.bias = bias.data(), .relu = is_done && epilogue.relu});
  if (is_done) return;
  for (int64_t i = 0; i < g.batch * n; ++i) {
    if (epilogue.accumulate) out[i] += bias[static_cast<size_t>(i % n)];
    if (epilogue.relu) out[i] = std::min(std::max(out[i], 0.0f), epilogue.limit);
  }
}

}  // namespace gluino::kernels
