// Convolution of float64, which is made of matrix products, against sums term by term: every number of axes, groups, layout, stride,
// dilation and padding, forward and both gradients.
#include <functional>
#include <random>
#include <vector>

#include "kernels/convolution/convolution.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using kernels::ConvGeometry;
using kernels::Spatial;

std::vector<double> random_numbers(int64_t n, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> v(static_cast<size_t>(n));
  for (double& x : v) x = uniform(engine);
  return v;
}

size_t place(const ConvGeometry& g, int64_t outer, int64_t channels, int64_t channel, const Spatial& extents, const Spatial& at) {
  const int64_t area = extents[0] * extents[1] * extents[2], position = (at[0] * extents[1] + at[1]) * extents[2] + at[2];
  return static_cast<size_t>(g.channels_last ? (outer * area + position) * channels + channel
                                             : (outer * channels + channel) * area + position);
}
Spatial position(int64_t i, const Spatial& extents) { return {i / (extents[1] * extents[2]), i / extents[2] % extents[1], i % extents[2]}; }

// f(place in data, in weight, in out) for every product.
void for_each_product(const ConvGeometry& g, const std::function<void(size_t, size_t, size_t)>& f) {
  const int64_t channels = g.in_channels / g.groups, filters = g.out_channels / g.groups;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t o = 0; o < g.out_channels; ++o)
      for (int64_t p = 0; p < g.out_area(); ++p)
        for (int64_t q = 0; q < g.kernel_area(); ++q) {
          const Spatial out = position(p, g.out), tap = position(q, g.kernel);
          Spatial in{};
          bool inside = true;
          for (size_t i = 0; i < 3; ++i) {
            in[i] = out[i] * g.stride[i] - g.pad[i] + tap[i] * g.dilate[i];
            inside &= in[i] >= 0 && in[i] < g.in[i];
          }
          for (int64_t c = 0; inside && c < channels; ++c)
            f(place(g, n, g.in_channels, o / filters * channels + c, g.in, in), place(g, o, channels, c, g.kernel, tap),
              place(g, n, g.out_channels, o, g.out, out));
        }
}

ConvGeometry geometry(int rank, Spatial in, Spatial kernel, Spatial stride, Spatial dilate, Spatial pad) {
  ConvGeometry g{.rank = rank,
                 .batch = 2,
                 .in_channels = 4,
                 .out_channels = 6,
                 .in = in,
                 .kernel = kernel,
                 .stride = stride,
                 .dilate = dilate,
                 .pad = pad};
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) g.out[i] = (in[i] + 2 * pad[i] - dilate[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  return g;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-12) << i;
}

TEST(ConvolutionOfDoubles, IsTheSumOfProducts) {
  std::vector<std::vector<char>> memory;
  const kernels::Scratch scratch = [&](int64_t bytes) -> void* { return memory.emplace_back(static_cast<size_t>(bytes)).data(); };
  for (ConvGeometry g : {geometry(1, {9, 1, 1}, {3, 1, 1}, {2, 1, 1}, {1, 1, 1}, {1, 0, 0}),
                         geometry(2, {7, 6, 1}, {3, 2, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}),
                         geometry(2, {7, 8, 1}, {3, 3, 1}, {2, 1, 1}, {2, 3, 1}, {2, 4, 0}),
                         geometry(2, {5, 4, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}),
                         geometry(2, {3, 3, 1}, {2, 2, 1}, {3, 3, 1}, {1, 1, 1}, {1, 1, 0}),
                         geometry(3, {4, 5, 6}, {2, 3, 3}, {1, 2, 1}, {1, 1, 2}, {1, 1, 2})})
    for (const int64_t groups : {1, 2})
      for (const bool channels_last : {false, true}) {
        g.groups = groups;
        g.channels_last = channels_last;
        const auto data = random_numbers(g.batch * g.in_channels * g.in_area(), 1), bias = random_numbers(g.out_channels, 2),
                   weight = random_numbers(g.out_channels * g.in_channels / groups * g.kernel_area(), 3),
                   head = random_numbers(g.batch * g.out_channels * g.out_area(), 4);
        std::vector<double> out(head.size()), with_bias(head.size()), data_grad(data.size()), weight_grad(weight.size());
        for_each_product(g, [&](size_t d, size_t w, size_t o) {
          out[o] += data[d] * weight[w];
          data_grad[d] += head[o] * weight[w];
          weight_grad[w] += head[o] * data[d];
        });
        for (size_t i = 0; i < out.size(); ++i) {
          const auto at = static_cast<int64_t>(i);
          with_bias[i] = out[i] + bias[static_cast<size_t>(channels_last ? at % g.out_channels : at / g.out_area() % g.out_channels)];
        }
        std::vector<double> got(out.size(), 77);
        convolution(g, data.data(), weight.data(), nullptr, got.data(), scratch);
        expect_near(got, out);
        convolution(g, data.data(), weight.data(), bias.data(), got.data(), scratch);
        expect_near(got, with_bias);
        got.assign(data.size(), 77);
        convolution_data_grad(g, head.data(), weight.data(), got.data(), scratch);
        expect_near(got, data_grad);
        got.assign(weight.size(), 77);
        convolution_weight_grad(g, head.data(), data.data(), got.data(), scratch);
        expect_near(got, weight_grad);
      }
}

}  // namespace
}  // namespace gluino::test
