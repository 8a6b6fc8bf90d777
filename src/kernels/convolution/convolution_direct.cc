// The double kernels of convolution: one loop over all taps serves forward and both gradients.
#include <algorithm>

#include "base/parallel.h"
#include "kernels/convolution/convolution.h"

namespace gluino::kernels {
namespace {

struct Strides {
  int64_t batch, channel;
  Spatial axis;
};

Strides strides_of(int64_t channels, const Spatial& extents, bool channels_last) {
  Strides s;
  const int64_t area = extents[0] * extents[1] * extents[2], unit = channels_last ? channels : 1;
  s.batch = channels * area;
  s.channel = channels_last ? 1 : area;
  s.axis = {extents[1] * extents[2] * unit, extents[2] * unit, unit};
  return s;
}

struct Layout {
  Strides data, out, weight;
  explicit Layout(const ConvGeometry& g)
      : data(strides_of(g.in_channels, g.in, g.channels_last)),
        out(strides_of(g.out_channels, g.out, g.channels_last)),
        weight(strides_of(g.in_channels / g.groups, g.kernel, g.channels_last)) {}
};

// Calls f(data_offset, weight_offset, out_offset) for every product that contributes to image n and filter o.
template <class F>
void for_each_tap(const ConvGeometry& g, const Layout& l, int64_t n, int64_t o, F&& f) {
  const int64_t channels = g.in_channels / g.groups, first = o / (g.out_channels / g.groups) * channels;
  for (int64_t p = 0; p < g.out_area(); ++p) {
    const Spatial at{p / (g.out[1] * g.out[2]), p / g.out[2] % g.out[1], p % g.out[2]};
    const int64_t out = n * l.out.batch + o * l.out.channel + at[0] * l.out.axis[0] + at[1] * l.out.axis[1] + at[2] * l.out.axis[2];
    for (int64_t q = 0; q < g.kernel_area(); ++q) {
      const Spatial tap{q / (g.kernel[1] * g.kernel[2]), q / g.kernel[2] % g.kernel[1], q % g.kernel[2]};
      int64_t data = n * l.data.batch + first * l.data.channel, weight = o * l.weight.batch;
      bool inside = true;
      for (size_t i = 0; i < 3; ++i) {
        const int64_t x = at[i] * g.stride[i] - g.pad[i] + tap[i] * g.dilate[i];
        inside &= x >= 0 && x < g.in[i];
        data += x * l.data.axis[i];
        weight += tap[i] * l.weight.axis[i];
      }
      if (!inside) continue;
      for (int64_t c = 0; c < channels; ++c) f(data + c * l.data.channel, weight + c * l.weight.channel, out);
    }
  }
}

}  // namespace

void convolution(const ConvGeometry& g, const double* data, const double* weight, const double* bias, double* out, const Scratch&) {
  const Layout l(g);
  const int64_t work = g.out_area() * g.kernel_area() * g.in_channels / g.groups;
  parallel_for(g.batch * g.out_channels, kParallelGrain / std::max<int64_t>(work, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / g.out_channels, o = i % g.out_channels;
      for (int64_t p = 0; p < g.out_area(); ++p) out[n * l.out.batch + o * l.out.channel + p * l.out.axis[2]] = bias ? bias[o] : 0;
      for_each_tap(g, l, n, o, [&](int64_t d, int64_t w, int64_t y) { out[y] += data[d] * weight[w]; });
    }
  });
}

void convolution_data_grad(const ConvGeometry& g, const double* head, const double* weight, double* data_grad, const Scratch&) {
  const Layout l(g);
  parallel_for(g.batch, 1, [&](int64_t begin, int64_t end) {
    std::fill(data_grad + begin * l.data.batch, data_grad + end * l.data.batch, 0.0);
    for (int64_t n = begin; n < end; ++n)
      for (int64_t o = 0; o < g.out_channels; ++o)
        for_each_tap(g, l, n, o, [&](int64_t d, int64_t w, int64_t y) { data_grad[d] += head[y] * weight[w]; });
  });
}

void convolution_weight_grad(const ConvGeometry& g, const double* head, const double* data, double* weight_grad, const Scratch&) {
  const Layout l(g);
  parallel_for(g.out_channels, 1, [&](int64_t begin, int64_t end) {
    std::fill(weight_grad + begin * l.weight.batch, weight_grad + end * l.weight.batch, 0.0);
    for (int64_t o = begin; o < end; ++o)
      for (int64_t n = 0; n < g.batch; ++n)
        for_each_tap(g, l, n, o, [&](int64_t d, int64_t w, int64_t y) { weight_grad[w] += head[y] * data[d]; });
  });
}

}  // namespace gluino::kernels
