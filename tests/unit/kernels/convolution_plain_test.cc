// Convolution of float32 in the plain layout, where windows of one channel, of one place, along one axis, with pixels between their
// elements and of groups of few channels have ways of their own, against that of float64.
#include <vector>

#include "kernels/convolution/convolution.h"
#include "support/support.h"
#include "unit/kernels/random_data.h"

namespace gluino::test {
namespace {

using kernels::ConvGeometry;
using kernels::Spatial;

using Doubles = std::vector<double>;

Doubles widened(const Floats& v) { return {v.begin(), v.end()}; }

class PlainConvolution : public RandomData {
 protected:
  PlainConvolution() : RandomData(3) {}

  static void expect_close(const Floats& got, const Doubles& want, const char* what) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5 * (10 + std::abs(want[i]))) << what << " " << i;
  }

  void compare(ConvGeometry g) {
    for (size_t i = 0; i < static_cast<size_t>(g.rank); ++i) {
      g.out[i] = (g.in[i] + 2 * g.pad[i] - (g.kernel[i] - 1) * g.dilate[i] - 1) / g.stride[i] + 1;
      if (g.in[i] + 2 * g.pad[i] < (g.kernel[i] - 1) * g.dilate[i] + 1) return;
    }
    const Floats data = numbers(g.batch * g.in_channels * g.in_area()), bias = numbers(g.out_channels);
    const Floats weight = numbers(g.out_channels * (g.in_channels / g.groups) * g.kernel_area());
    const Floats head = numbers(g.batch * g.out_channels * g.out_area());
    Floats out(head.size(), NAN), data_grad(data.size(), NAN), weight_grad(weight.size(), NAN);
    Doubles want_out(out.size()), want_data(data.size()), want_weight(weight.size());
    const Doubles wide_data = widened(data), wide_weight = widened(weight), wide_bias = widened(bias), wide_head = widened(head);
    for (const bool has_bias : {true, false}) {
      kernels::convolution(g, data.data(), weight.data(), has_bias ? bias.data() : nullptr, out.data(), scratch());
      kernels::convolution(g, wide_data.data(), wide_weight.data(), has_bias ? wide_bias.data() : nullptr, want_out.data(), scratch());
      expect_close(out, want_out, has_bias ? "output" : "output without bias");
    }
    kernels::convolution_data_grad(g, head.data(), weight.data(), data_grad.data(), scratch());
    kernels::convolution_data_grad(g, wide_head.data(), wide_weight.data(), want_data.data(), scratch());
    expect_close(data_grad, want_data, "gradient of the data");
    kernels::convolution_weight_grad(g, head.data(), data.data(), weight_grad.data(), scratch());
    kernels::convolution_weight_grad(g, wide_head.data(), wide_data.data(), want_weight.data(), scratch());
    expect_close(weight_grad, want_weight, "gradient of the weight");
    memory_.clear();
  }
};

TEST_F(PlainConvolution, WindowsOfOneChannel) {
  for (const int64_t filters : {1, 2})
    for (const Spatial kernel : {Spatial{3, 3, 1}, Spatial{2, 5, 1}, Spatial{1, 1, 1}})
      for (const Spatial stride : {Spatial{1, 1, 1}, Spatial{2, 3, 1}})
        for (const Spatial dilate : {Spatial{1, 1, 1}, Spatial{2, 3, 1}})
          for (const Spatial pad : {Spatial{0, 0, 0}, Spatial{1, 2, 0}, Spatial{5, 4, 0}})
            for (const Spatial in : {Spatial{15, 19, 1}, Spatial{14, 66, 1}})
              compare({.rank = 2,
                       .batch = 2,
                       .in_channels = 3,
                       .out_channels = 3 * filters,
                       .groups = 3,
                       .in = in,
                       .kernel = kernel,
                       .stride = stride,
                       .dilate = dilate,
                       .pad = pad});
  compare(
      {.rank = 1, .batch = 2, .in_channels = 4, .out_channels = 4, .groups = 4, .in = {37, 1, 1}, .kernel = {5, 1, 1}, .pad = {2, 0, 0}});
}

TEST_F(PlainConvolution, WindowsOfOnePlace) {
  compare({.rank = 1, .batch = 2, .in_channels = 5, .out_channels = 7, .in = {150, 1, 1}});
  compare({.rank = 2, .batch = 3, .in_channels = 20, .out_channels = 24, .in = {13, 17, 1}});
  compare({.rank = 3, .batch = 2, .in_channels = 3, .out_channels = 4, .in = {5, 7, 9}});
}

TEST_F(PlainConvolution, WindowsAlongOneAxis) {
  for (const int64_t kernel : {1, 2, 3, 7})
    for (const int64_t dilate : {1, 3})
      for (const int64_t pad : {0, 2, 20})
        compare({.rank = 1,
                 .batch = 2,
                 .in_channels = 9,
                 .out_channels = 18,
                 .in = {161, 1, 1},
                 .kernel = {kernel, 1, 1},
                 .dilate = {dilate, 1, 1},
                 .pad = {pad, 0, 0}});
}

TEST_F(PlainConvolution, WindowsWithPixelsBetweenTheirElements) {
  for (const Spatial dilate : {Spatial{2, 2, 1}, Spatial{1, 3, 1}, Spatial{4, 1, 1}})
    for (const Spatial in : {Spatial{28, 30, 1}, Spatial{29, 35, 1}})
      for (const int64_t pad : {0, 1, 2})
        compare({.rank = 2,
                 .batch = 2,
                 .in_channels = 24,
                 .out_channels = 32,
                 .in = in,
                 .kernel = {3, 3, 1},
                 .dilate = dilate,
                 .pad = {pad * dilate[0], pad * dilate[1], 0}});
}

TEST_F(PlainConvolution, GroupsOfFewChannels) {
  for (const int64_t groups : {2, 4})
    for (const int64_t filters : {3, 8, 20})
      for (const int64_t pad : {0, 1})
        compare({.rank = 2,
                 .batch = 3,
                 .in_channels = groups * 8,
                 .out_channels = groups * filters,
                 .groups = groups,
                 .in = {17, 21, 1},
                 .kernel = {3, 3, 1},
                 .pad = {pad, pad, 0}});
}

}  // namespace
}  // namespace gluino::test
