// Joined convolutions against plain loops in double precision, over random geometries and numbers of threads.
#include "kernels/convolution/separable_convolution.h"

#include <cmath>
#include <optional>

#include "kernels/convolution/blocked_layout.h"
#include "kernels/convolution/convolution_algorithms.h"
#include "support/support.h"
#include "unit/kernels/random_data.h"

namespace gluino::test {
namespace {

using kernels::ConvAlgorithm;
using kernels::ConvGeometry;
using Doubles = std::vector<double>;

class Separable : public RandomData {
 protected:
  Separable() : RandomData(11) {}
  void TearDown() override { set_num_threads(threads_); }

  struct Layer {
    ConvGeometry g;
    Floats packed, bias;
    bool relu;
    float limit;
    kernels::SeparableLayer view() const { return {packed.data(), bias.data(), relu, limit}; }
  };
  // `values` become what the layer makes of them.
  Layer add_layer(const ConvGeometry& g, Doubles& values, const Floats& added = {}) {
    const Floats weight = numbers(g.out_channels * (g.in_channels / g.groups) * g.kernel_area());
    Layer layer{g, Floats(static_cast<size_t>(kernels::packed_weight_elements(g, ConvAlgorithm::direct))), numbers(g.out_channels),
                between(0, 2) > 0, between(0, 1) ? 0.75f : INFINITY};
    kernels::pack_weight(g, ConvAlgorithm::direct, weight.data(), layer.packed.data(), scratch());
    Doubles out(static_cast<size_t>(g.batch * g.out_channels * g.out_area()));
    kernels::convolution(g, values.data(), Doubles(weight.begin(), weight.end()).data(),
                         Doubles(layer.bias.begin(), layer.bias.end()).data(), out.data(), scratch());
    for (size_t i = 0; i < out.size(); ++i) {
      if (!added.empty()) out[i] += static_cast<double>(added[i]);
      if (layer.relu) out[i] = std::clamp(out[i], 0.0, static_cast<double>(layer.limit));
    }
    values = std::move(out);
    return layer;
  }
  static ConvGeometry pointwise(const ConvGeometry& middle, const kernels::Spatial& extents, int64_t in, int64_t out) {
    ConvGeometry g;
    g.batch = middle.batch;
    g.in_channels = in;
    g.out_channels = out;
    g.in = g.out = extents;
    return g;
  }
  Floats blocked(int64_t batch, int64_t channels, int64_t area, const Floats& plain) {
    Floats out(static_cast<size_t>(batch * kernels::blocks_of(channels) * 8 * area));
    kernels::to_blocked(batch, channels, area, plain.data(), out.data());
    return out;
  }

  void expect_right(const ConvGeometry& middle, int64_t in_channels, int64_t out_channels, bool expand, bool project) {
    ASSERT_TRUE(kernels::can_be_separable_middle(middle));
    const Floats data = numbers(middle.batch * in_channels * middle.in_area());
    const bool add = project && between(0, 1);
    const Floats added = numbers(add ? middle.batch * out_channels * middle.out_area() : 0);
    Doubles want(data.begin(), data.end());
    kernels::SeparableCall call{.depthwise = middle, .in_channels = in_channels, .out_channels = out_channels};
    std::vector<Layer> layers;
    layers.reserve(3);
    if (expand) call.expand = layers.emplace_back(add_layer(pointwise(middle, middle.in, in_channels, middle.in_channels), want)).view();
    call.middle = layers.emplace_back(add_layer(middle, want)).view();
    if (project)
      call.project = layers.emplace_back(add_layer(pointwise(middle, middle.out, middle.in_channels, out_channels), want, added)).view();
    const Floats blocked_added = blocked(middle.batch, out_channels, add ? middle.out_area() : 0, added);
    if (add) call.added = blocked_added.data();
    const Floats blocked_data = blocked(middle.batch, in_channels, middle.in_area(), data);
    std::optional<Floats> first;
    for (const int threads : {1, 2, 3}) {
      set_num_threads(threads);
      Floats out(static_cast<size_t>(middle.batch * kernels::blocks_of(out_channels) * 8 * middle.out_area()), NAN), got(want.size());
      kernels::convolution_separable(call, blocked_data.data(), out.data(), scratch());
      kernels::from_blocked(middle.batch, out_channels, middle.out_area(), out.data(), got.data());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(static_cast<double>(got[i]), want[i], 2e-5)
            << middle.batch << " images of " << middle.in[0] << " x " << middle.in[1] << ", channels " << in_channels << ", "
            << middle.in_channels << ", " << out_channels << ", window " << middle.kernel[0] << " x " << middle.kernel[1] << ", stride "
            << middle.stride[0] << ", " << middle.stride[1] << ", element " << i;
      if (!first) first = out;
      ASSERT_EQ(*first, out) << "one thread and " << threads << " give other numbers";  // the padding of the last block too
    }
    memory_.clear();
  }

  const int threads_ = num_threads();
};

TEST_F(Separable, IsThreeConvolutions) {
  for (int i = 0; i < 120; ++i) {
    ConvGeometry g;
    g.batch = between(1, 3);
    g.in_channels = g.out_channels = g.groups = 8 * between(2, 5);
    g.kernel = {between(1, 5), between(1, 5), 1};
    g.in = {between(5, 24), between(5, 24), 1};
    g.stride = {between(1, 3), between(1, 3), 1};
    g.pad = {between(0, g.kernel[0] - 1), between(0, g.kernel[1] - 1), 0};
    for (size_t s = 0; s < 2; ++s) g.out[s] = (g.in[s] + 2 * g.pad[s] - g.kernel[s]) / g.stride[s] + 1;
    const bool expand = between(0, 3) > 0, project = !expand || between(0, 3) > 0;
    expect_right(g, expand ? between(4, 40) : g.in_channels, project ? between(1, 60) : g.in_channels, expand, project);
  }
}
// So wide that a few rows at a time fill the cache, and rows of the expansion are used again.
TEST_F(Separable, PassesOverManyBandsOfRows) {
  for (const int64_t stride : {1, 2}) {
    ConvGeometry g;
    g.batch = 1;
    g.in_channels = g.out_channels = g.groups = 48;
    g.kernel = {3, 3, 1};
    g.in = {61, 90, 1};
    g.stride = {stride, stride, 1};
    g.pad = {1, 1, 0};
    for (size_t s = 0; s < 2; ++s) g.out[s] = (g.in[s] - 1) / stride + 1;
    expect_right(g, 16, 24, true, true);
  }
}
// More threads than rows, but not more than images.
TEST_F(Separable, ThreadsShareImagesOfOneRow) {
  ConvGeometry g;
  g.batch = 40;
  g.in_channels = g.out_channels = g.groups = 64;
  g.kernel = {3, 3, 1};
  g.in = {3, 50, 1};
  g.out = {1, 48, 1};
  expect_right(g, 32, 32, true, true);
}

}  // namespace
}  // namespace gluino::test
