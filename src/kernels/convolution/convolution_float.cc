// The float kernels of convolution in the plain layout: each call goes to the algorithm that is fastest for its geometry.
#include <algorithm>
#include <vector>

#include "base/parallel.h"
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

// A window whose elements are some pixels apart sees every so many-th pixel. Those are an image of their own, under a window whose elements
// are neighbours.
class Phases {
 public:
  explicit Phases(const ConvGeometry& g) : g_(g), each_(g) {
    each_.dilate = {1, 1, 1};
    each_.batch = g.batch * count();
    for (size_t i = 0; i < 2; ++i) {
      each_.in[i] = (g.in[i] + g.dilate[i] - 1) / g.dilate[i];
      each_.pad[i] = g.pad[i] / g.dilate[i];
      each_.out[i] = each_.in[i] + 2 * each_.pad[i] - g.kernel[i] + 1;
    }
  }
  const ConvGeometry& each() const { return each_; }
  // Numbers outside of the image are 0.
  const float* split(const Spatial& extents, const Spatial& parts, int64_t channels, const float* images, const Scratch& scratch) const {
    const int64_t elements = each_.batch * channels * parts[0] * parts[1];
    float* result = floats(elements, scratch);
    if (g_.batch * channels * extents[0] * extents[1] < elements) std::fill_n(result, elements, 0.0f);
    visit(extents, parts, channels, [&](int64_t pixels, int64_t phase, int64_t n) {
      for (int64_t i = 0; i < n; ++i) result[phase + i] = images[pixels + i * g_.dilate[1]];
    });
    return result;
  }
  void join(const Spatial& extents, const Spatial& parts, int64_t channels, const float* phases, float* images) const {
    visit(extents, parts, channels, [&](int64_t pixels, int64_t phase, int64_t n) {
      for (int64_t i = 0; i < n; ++i) images[pixels + i * g_.dilate[1]] = phases[phase + i];
    });
  }
  const float* split_data(const float* data, const Scratch& s) const { return split(g_.in, each_.in, g_.in_channels, data, s); }
  const float* split_head(const float* head, const Scratch& s) const { return split(g_.out, each_.out, g_.out_channels, head, s); }

 private:
  int64_t count() const { return g_.dilate[0] * g_.dilate[1]; }
  // f(where the pixels of a row begin, where they stand in their phase, how many they are)
  template <class F>
  void visit(const Spatial& extents, const Spatial& parts, int64_t channels, F&& f) const {
    const int64_t planes = g_.batch * channels, area = extents[0] * extents[1];
    parallel_for(planes, kParallelGrain / area + 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for (int64_t y = 0; y < extents[0]; ++y)
          for (int64_t x = 0; x < std::min(g_.dilate[1], extents[1]); ++x) {
            const int64_t phase = y % g_.dilate[0] * g_.dilate[1] + x;
            f(p * area + y * extents[1] + x, ((phase * planes + p) * parts[0] + y / g_.dilate[0]) * parts[1],
              (extents[1] - x + g_.dilate[1] - 1) / g_.dilate[1]);
          }
    });
  }
  const ConvGeometry& g_;
  ConvGeometry each_;
};
// Where Winograd's algorithm saves more than it takes to bring the pixels together.
bool has_fast_phases(const ConvGeometry& g) {
  const bool is_dilated = g.dilate[0] > 1 || g.dilate[1] > 1, fits = g.pad[0] % g.dilate[0] == 0 && g.pad[1] % g.dilate[1] == 0;
  return g.rank == 2 && is_dilated && fits && g.stride == Spatial{1, 1, 1} && plain_winograd_tile(Phases(g).each()) > 0;
}

// One group of one image, where its few channels are worth loops of their own.
std::optional<ConvGeometry> narrow_group(const ConvGeometry& g) {
  ConvGeometry one = g;
  one.batch = one.groups = 1;
  one.in_channels /= g.groups;
  one.out_channels /= g.groups;
  return g.groups > 1 && is_narrow(one) ? std::optional(one) : std::nullopt;
}
// f(number of the image and group, offset of the group's weight, scratch) for all of them, one after the other in the same memory.
template <class F>
void for_groups(const ConvGeometry& g, const ConvGeometry& one, const Scratch& scratch, F&& f) {
  std::vector<void*> kept;
  size_t used = 0;
  const Scratch again = [&](int64_t bytes) {
    if (used == kept.size()) kept.push_back(scratch(bytes));
    return kept[used++];
  };
  for (int64_t i = 0; i < g.batch * g.groups; ++i, used = 0)
    f(i, i % g.groups * one.out_channels * one.in_channels * g.kernel_area(), again);
}

}  // namespace

void convolution(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out, const Scratch& scratch) {
  if (can_run_planes(g)) return convolution_planes(g, data, weight, bias, out);
  if (is_narrow(g)) return convolution_narrow_plain(g, data, weight, bias, out, scratch);
  if (has_large_weight(g)) return (sees_much_padding(g) ? convolution_elements : convolution_gemm)(g, data, weight, bias, out, scratch);
  if (const int64_t m = plain_winograd_tile(g)) return convolution_winograd_plain(g, m, data, weight, false, bias, out, scratch);
  if (can_run_runs(g)) return convolution_runs(g, data, weight, bias, out, scratch);
  if (has_fast_phases(g)) {
    const Phases phases(g);
    float* result = floats(phases.each().batch * g.out_channels * phases.each().out_area(), scratch);
    convolution(phases.each(), phases.split_data(data, scratch), weight, bias, result, scratch);
    return phases.join(g.out, phases.each().out, g.out_channels, result, out);
  }
  if (const auto one = narrow_group(g))
    return for_groups(g, *one, scratch, [&](int64_t i, int64_t at, const Scratch& again) {
      const float* own_bias = bias ? bias + i % g.groups * one->out_channels : nullptr;
      convolution(*one, data + i * one->in_channels * g.in_area(), weight + at, own_bias, out + i * one->out_channels * g.out_area(),
                  again);
    });
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
  if (has_fast_phases(g)) {
    const Phases phases(g);
    float* result = floats(phases.each().batch * g.in_channels * phases.each().in_area(), scratch);
    convolution_data_grad(phases.each(), phases.split_head(head, scratch), weight, result, scratch);
    return phases.join(g.in, phases.each().in, g.in_channels, result, data_grad);
  }
  if (const auto one = narrow_group(g))
    return for_groups(g, *one, scratch, [&](int64_t i, int64_t at, const Scratch& again) {
      convolution_data_grad(*one, head + i * one->out_channels * g.out_area(), weight + at, data_grad + i * one->in_channels * g.in_area(),
                            again);
    });
  if (adds_windows(g)) return gemm_data_grad_in_bands(g, head, weight, data_grad, scratch);
  dnnl_data_grad(g, head, weight, data_grad, scratch);
}

void convolution_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch) {
  if (can_run_planes(g)) return planes_weight_grad(g, head, data, weight_grad);
  if (is_narrow(g)) return narrow_weight_grad(g, head, data, weight_grad, scratch);
  if (const auto tile = weight_grad_tile(g)) return products_weight_grad(g, *tile, head, data, weight_grad, scratch);
  if (has_large_weight(g)) return gemm_weight_grad(g, head, data, weight_grad, scratch);
  if (can_run_runs(g)) return runs_weight_grad(g, head, data, weight_grad, scratch);
  if (has_fast_phases(g)) {
    const Phases phases(g);
    return convolution_weight_grad(phases.each(), phases.split_head(head, scratch), phases.split_data(data, scratch), weight_grad, scratch);
  }
  dnnl_weight_grad(g, head, data, weight_grad, scratch);
}

}  // namespace gluino::kernels
