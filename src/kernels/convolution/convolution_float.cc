// The float kernels of convolution in the plain layout: each call goes to the algorithm that is fastest for its geometry.
#include <algorithm>

#include "kernels/convolution/convolution_algorithms.h"
#include "kernels/convolution/convolution_dnnl.h"
#include "kernels/convolution/convolution_elements.h"
#include "kernels/convolution/convolution_gemm.h"
#include "kernels/convolution/convolution_weight_grad.h"
#include "kernels/convolution/depthwise_planes.h"
#include "kernels/convolution/narrow_convolution.h"
#include "kernels/convolution/winograd.h"

namespace gluino::kernels {
namespace {

// The gradient of the data is a convolution of the head with the window turned round, where windows are one step apart.
bool is_turned_convolution(const ConvGeometry& g) {
  return g.rank == 2 && !g.channels_last && g.groups == 1 && g.stride == Spatial{1, 1, 1} && g.dilate == Spatial{1, 1, 1} &&
         g.pad[0] < g.kernel[0] && g.pad[1] < g.kernel[1];
}
ConvGeometry turned(ConvGeometry g) {
  std::swap(g.in_channels, g.out_channels);
  std::swap(g.in, g.out);
  for (size_t i = 0; i < 2; ++i) g.pad[i] = g.kernel[i] - 1 - g.pad[i];
  return g;
}
const float* turned_weight(const ConvGeometry& g, const float* weight, const Scratch& scratch) {
  const int64_t taps = g.kernel_area();
  float* result = floats(g.out_channels * g.in_channels * taps, scratch);
  for (int64_t c = 0; c < g.in_channels; ++c)
    for (int64_t o = 0; o < g.out_channels; ++o) {
      const float* window = weight + (o * g.in_channels + c) * taps;
      std::reverse_copy(window, window + taps, result + (c * g.out_channels + o) * taps);
    }
  return result;
}

}  // namespace

void convolution(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out, const Scratch& scratch) {
  if (can_run_planes(g)) return convolution_planes(g, data, weight, bias, out);
  if (is_narrow(g)) return convolution_narrow_plain(g, data, weight, bias, out, scratch);
  if (has_large_weight(g)) return (sees_much_padding(g) ? convolution_elements : convolution_gemm)(g, data, weight, bias, out, scratch);
  if (const int64_t m = plain_winograd_tile(g)) return convolution_winograd_plain(g, m, data, weight, false, bias, out, scratch);
  if (can_run_runs(g)) return convolution_runs(g, data, weight, bias, out, scratch);
  dnnl_convolution(g, data, weight, bias, out, scratch);
}

void convolution_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch) {
  if (can_run_planes(g)) return planes_data_grad(g, head, weight, data_grad);
  if (has_large_weight(g)) return (sees_much_padding(g) ? elements_data_grad : gemm_data_grad)(g, head, weight, data_grad, scratch);
  if (is_turned_convolution(g)) {
    const ConvGeometry t = turned(g);
    if (is_narrow(g)) return convolution_narrow_plain(t, head, turned_weight(g, weight, scratch), nullptr, data_grad, scratch);
    if (const int64_t m = plain_winograd_tile(t)) return convolution_winograd_plain(t, m, head, weight, true, nullptr, data_grad, scratch);
  }
  if (can_run_runs(g)) return runs_data_grad(g, head, weight, data_grad, scratch);
  if (adds_windows(g)) return gemm_data_grad_in_bands(g, head, weight, data_grad, scratch);
  dnnl_data_grad(g, head, weight, data_grad, scratch);
}

void convolution_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch) {
  if (can_run_planes(g)) return planes_weight_grad(g, head, data, weight_grad);
  if (is_narrow(g)) return narrow_weight_grad(g, head, data, weight_grad, scratch);
  if (const auto tile = weight_grad_tile(g)) return products_weight_grad(g, *tile, head, data, weight_grad, scratch);
  if (has_large_weight(g)) return gemm_weight_grad(g, head, data, weight_grad, scratch);
  if (can_run_runs(g)) return runs_weight_grad(g, head, data, weight_grad, scratch);
  dnnl_weight_grad(g, head, data, weight_grad, scratch);
}

}  // namespace gluino::kernels
