// Every algorithm for blocked activations against the plain loops in double precision, over random geometries.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kernels/convolution/convolution_algorithms.h"
#include "kernels/convolution/convolution_blocked.h"
#include "kernels/convolution/convolution_elements.h"
#include "kernels/convolution/convolution_gemm.h"
#include "kernels/convolution/convolution_weight_grad.h"
#include "kernels/convolution/narrow_convolution.h"
#include "kernels/convolution/winograd.h"
#include "unit/kernels/random_data.h"

namespace gluino::test {
namespace {

using kernels::ConvAlgorithm;
using kernels::ConvGeometry;

class Blocked : public RandomData {
 protected:
  Blocked() : RandomData(7) {}
  static std::vector<double> doubles(const Floats& v) { return {v.begin(), v.end()}; }

  // Extents of the output follow.
  static ConvGeometry complete(ConvGeometry g) {
    for (size_t i = 0; i < 2; ++i) g.out[i] = (g.in[i] + 2 * g.pad[i] - g.dilate[i] * (g.kernel[i] - 1) - 1) / g.stride[i] + 1;
    return g;
  }

  void expect_right(const ConvGeometry& g, ConvAlgorithm algorithm) {
    Floats data = numbers(g.batch * g.in_channels * g.in_area());
    for (int i = 0; i < not_finite_; ++i) data[between(0, std::ssize(data) - 1)] = std::array{NAN, INFINITY, -INFINITY}[between(0, 2)];
    const Floats weight = numbers(g.out_channels * g.in_channels / g.groups * g.kernel_area()), bias = numbers(g.out_channels);
    const bool has_bias = between(0, 1), accumulate = between(0, 1), relu = between(0, 1);
    const int64_t out_size = g.batch * g.out_channels * g.out_area();
    const Floats added = numbers(out_size);
    std::vector<double> want(out_size);
    kernels::convolution(g, doubles(data).data(), doubles(weight).data(), has_bias ? doubles(bias).data() : nullptr, want.data(),
                         scratch());
    Floats packed(static_cast<size_t>(kernels::packed_weight_elements(g, algorithm)), NAN);
    kernels::pack_weight(g, algorithm, weight.data(), packed.data(), scratch());
    Floats blocked(static_cast<size_t>(g.batch * kernels::blocks_of(g.in_channels) * 8 * g.in_area()));
    if (kernels::reads_plain_data(g))
      blocked = data;
    else
      kernels::to_blocked(g.batch, g.in_channels, g.in_area(), data.data(), blocked.data());
    Floats out(static_cast<size_t>(g.batch * kernels::blocks_of(g.out_channels) * 8 * g.out_area()), NAN), got(want.size());
    if (accumulate) kernels::to_blocked(g.batch, g.out_channels, g.out_area(), added.data(), out.data());
    const float limit = relu && between(0, 1) ? 0.5f : INFINITY;
    kernels::convolution_blocked(g, algorithm, blocked.data(), packed.data(),
                                 {.bias = has_bias ? bias.data() : nullptr, .accumulate = accumulate, .relu = relu, .limit = limit},
                                 out.data(), scratch());
    kernels::from_blocked(g.batch, g.out_channels, g.out_area(), out.data(), got.data());
    const double scale = std::sqrt(static_cast<double>(g.in_channels / g.groups * g.kernel_area())) + 1;
    for (size_t i = 0; i < got.size(); ++i) {
      const double sum = want[i] + (accumulate ? static_cast<double>(added[i]) : 0);
      const double expected = relu ? std::clamp(sum, 0.0, static_cast<double>(limit)) : sum, given = static_cast<double>(got[i]);
      const bool is_right = std::isnan(expected) ? std::isnan(given) : expected == given || std::abs(expected - given) <= 6e-6 * scale;
      ASSERT_TRUE(is_right) << given << " for " << expected << " by algorithm " << static_cast<int>(algorithm) << ": " << g.batch
                            << " images, " << g.in_channels << " to " << g.out_channels << " channels, " << g.in[0] << " x " << g.in[1]
                            << ", window " << g.kernel[0] << " x " << g.kernel[1] << ", pad " << g.pad[0] << ", " << g.pad[1]
                            << ", element " << i;
    }
    // What the last block has too many stays zero: the next layer counts on it.
    const int64_t surplus = kernels::blocks_of(g.out_channels) * 8 - g.out_channels;
    for (int64_t i = 0; surplus > 0 && i < g.out_area(); ++i)
      ASSERT_EQ(out[((kernels::blocks_of(g.out_channels) - 1) * g.out_area() + i) * 8 + 7], 0.0f);
    memory_.clear();
  }

  int not_finite_ = 0;  // so many elements of the data
};

TEST_F(Blocked, WinogradIsAConvolution) {
  for (int i = 0; i < 60; ++i) {
    ConvGeometry g;
    g.batch = between(1, 3);
    g.in_channels = between(4, 40);
    g.out_channels = between(1, 40);
    g.kernel = {3, 3, 1};
    g.in = {between(3, 21), between(3, 21), 1};
    g.pad = {between(0, 2), between(0, 2), 0};
    g = complete(g);
    ASSERT_TRUE(kernels::can_run_winograd(g));
    for (const ConvAlgorithm a : {ConvAlgorithm::winograd2, ConvAlgorithm::winograd4}) expect_right(g, a);
  }
}
TEST_F(Blocked, WinogradOfManyChannels) {
  ConvGeometry g;
  g.batch = 2;
  g.in_channels = 272;
  g.out_channels = 65;
  g.kernel = {3, 3, 1};
  g.in = {30, 15, 1};
  g.pad = {1, 1, 0};
  for (const ConvAlgorithm a : {ConvAlgorithm::winograd2, ConvAlgorithm::winograd4}) expect_right(complete(g), a);
}
TEST_F(Blocked, NarrowIsAConvolution) {
  for (int i = 0; i < 100; ++i) {
    ConvGeometry g;
    g.batch = between(1, 3);
    g.in_channels = between(1, 20);
    g.out_channels = between(1, 40);
    g.kernel = {between(1, 5), between(1, 5), 1};
    g.in = {between(9, 30), between(9, 30), 1};
    g.pad = {between(0, 2), between(0, 2), 0};
    g.stride = {between(1, 3), 1, 1};
    g.dilate = {between(1, 2), between(1, 2), 1};
    g = complete(g);
    ASSERT_TRUE(kernels::can_run_narrow(g));
    expect_right(g, ConvAlgorithm::narrow);
  }
}
TEST_F(Blocked, TheChosenAlgorithmIsAConvolution) {
  for (int i = 0; i < 60; ++i) {
    ConvGeometry g;
    g.batch = between(1, 2);
    g.in_channels = between(1, 80);
    g.out_channels = between(1, 80);
    const int64_t window = between(1, 3);
    g.kernel = {window, window, 1};
    g.in = {between(7, 20), between(7, 20), 1};
    g.pad = {between(0, 1), between(0, 1), 0};
    g.stride = {between(1, 2), between(1, 2), 1};
    g = complete(g);
    if (const auto algorithm = kernels::choose_algorithm(g)) expect_right(g, *algorithm);
  }
}
// Tiles of 4 need a weight four times as large, tiles of 2 one of 1.8: with few places to use it on the difference is not worth its memory.
TEST_F(Blocked, LargeWeightsTakeTheSmallerFormWhereItCostsLittle) {
  ConvGeometry g;
  g.batch = 1;
  g.kernel = {3, 3, 1};
  g.pad = {1, 1, 0};
  const auto chosen = [&](int64_t channels, int64_t edge) {
    g.in_channels = g.out_channels = channels;
    g.in = {edge, edge, 1};
    return kernels::choose_algorithm(complete(g));
  };
  EXPECT_EQ(chosen(256, 14), ConvAlgorithm::winograd2);  // 4 and 9 MB
  EXPECT_EQ(chosen(256, 28), ConvAlgorithm::winograd4);
  EXPECT_EQ(chosen(128, 14), ConvAlgorithm::winograd4);
}
// Between plain layouts: the sums of the plain loops in both directions.
// A NaN or an infinity is seen through the windows that it lies in and through no other, and stays where a relu follows.
TEST_F(Blocked, NumbersThatAreNotFiniteStayWhereTheyAre) {
  not_finite_ = 2;
  for (int i = 0; i < 200; ++i) {
    ConvGeometry g;
    g.batch = between(1, 2);
    g.in_channels = between(1, 24);
    g.out_channels = between(1, 24);
    g.kernel = {between(1, 4), between(1, 4), 1};
    if (between(0, 1)) g.kernel = {3, 3, 1};
    if (between(0, 4) == 0) {
      g.in_channels = g.out_channels = 8 * between(1, 3);
      g.groups = g.in_channels;
    }
    g.stride = {between(1, 2), between(1, 2), 1};
    g.in = {between(5, 17), between(5, 17), 1};
    g.pad = {between(0, g.kernel[0] - 1), between(0, g.kernel[1] - 1), 0};
    g = complete(g);
    for (const ConvAlgorithm a : {ConvAlgorithm::direct, ConvAlgorithm::narrow, ConvAlgorithm::winograd2, ConvAlgorithm::winograd4})
      if (kernels::can_run(g, a) && !(kernels::can_run_winograd(g) && kernels::reads_plain_data(g))) expect_right(g, a);
  }
}

TEST_F(Blocked, WinogradServesBothDirectionsOfPlainLayouts) {
  for (int i = 0; i < 6; ++i) {
    ConvGeometry g;
    g.batch = between(4, 6);
    g.in_channels = between(60, 70);
    g.out_channels = between(60, 70);
    g.kernel = {3, 3, 1};
    g.in = {between(16, 20), between(16, 20), 1};
    g.pad = {between(0, 2), between(0, 2), 0};
    g = complete(g);
    ASSERT_NE(kernels::plain_winograd_tile(g), 0);
    const Floats data = numbers(g.batch * g.in_channels * g.in_area()), weight = numbers(g.out_channels * g.in_channels * 9),
                 head = numbers(g.batch * g.out_channels * g.out_area()), bias = numbers(g.out_channels);
    Floats out(head.size()), data_grad(data.size());
    std::vector<double> want_out(head.size()), want_data(data.size());
    kernels::convolution(g, data.data(), weight.data(), bias.data(), out.data(), scratch());
    kernels::convolution(g, doubles(data).data(), doubles(weight).data(), doubles(bias).data(), want_out.data(), scratch());
    for (size_t k = 0; k < out.size(); ++k) ASSERT_NEAR(static_cast<double>(out[k]), want_out[k], 1e-4) << k;
    kernels::convolution_data_grad(g, head.data(), weight.data(), data_grad.data(), scratch());
    kernels::convolution_data_grad(g, doubles(head).data(), doubles(weight).data(), want_data.data(), scratch());
    for (size_t k = 0; k < data.size(); ++k) ASSERT_NEAR(static_cast<double>(data_grad[k]), want_data[k], 1e-4) << k;
    memory_.clear();
  }
}
TEST_F(Blocked, PlainLayoutsAndGradients) {
  for (int i = 0; i < 60; ++i) {
    ConvGeometry g;
    g.batch = between(1, 9);
    g.in_channels = between(1, 20);
    g.out_channels = between(1, 40);
    g.kernel = {between(1, 8), between(1, 8), 1};
    g.in = {between(9, 20), between(9, 20), 1};
    g.pad = {between(0, g.kernel[0] - 1), between(0, g.kernel[1] - 1), 0};
    g = complete(g);
    ASSERT_TRUE(kernels::can_run_narrow_plain(g));
    const Floats data = numbers(g.batch * g.in_channels * g.in_area()), weight = numbers(g.out_channels * g.in_channels * g.kernel_area()),
                 head = numbers(g.batch * g.out_channels * g.out_area()), bias = numbers(g.out_channels);
    const auto expect_near = [&](const Floats& got, const std::vector<double>& want, int64_t terms, const char* what) {
      for (size_t k = 0; k < got.size(); ++k)
        ASSERT_NEAR(static_cast<double>(got[k]), want[k], 4e-6 * (1 + std::sqrt(static_cast<double>(terms)))) << what << " " << k;
    };
    Floats out(head.size()), data_grad(data.size()), weight_grad(weight.size());
    std::vector<double> want_out(head.size()), want_data(data.size()), want_weight(weight.size());
    kernels::convolution_narrow_plain(g, data.data(), weight.data(), bias.data(), out.data(), scratch());
    kernels::convolution(g, doubles(data).data(), doubles(weight).data(), doubles(bias).data(), want_out.data(), scratch());
    expect_near(out, want_out, g.in_channels * g.kernel_area(), "output");
    kernels::convolution_gemm(g, data.data(), weight.data(), bias.data(), out.data(), scratch());
    expect_near(out, want_out, g.in_channels * g.kernel_area(), "output of the product");
    kernels::convolution_data_grad(g, head.data(), weight.data(), data_grad.data(), scratch());
    kernels::convolution_data_grad(g, doubles(head).data(), doubles(weight).data(), want_data.data(), scratch());
    expect_near(data_grad, want_data, g.out_channels * g.kernel_area(), "gradient of the data");
    kernels::gemm_data_grad(g, head.data(), weight.data(), data_grad.data(), scratch());
    expect_near(data_grad, want_data, g.out_channels * g.kernel_area(), "gradient of the data as a product");
    kernels::narrow_weight_grad(g, head.data(), data.data(), weight_grad.data(), scratch());
    kernels::convolution_weight_grad(g, doubles(head).data(), doubles(data).data(), want_weight.data(), scratch());
    expect_near(weight_grad, want_weight, g.batch * g.out_area(), "gradient of the weight");
    kernels::gemm_weight_grad(g, head.data(), data.data(), weight_grad.data(), scratch());
    expect_near(weight_grad, want_weight, g.batch * g.out_area(), "gradient of the weight as a product");
    memory_.clear();
  }
}

// Enlarging convolutions with few channels: more windows than stay in the cache, so that images are gone through in bands.
TEST_F(Blocked, WindowsAreAddedInBands) {
  for (const int64_t stride : {2, 3}) {
    ConvGeometry g;
    g.batch = 2;
    g.in_channels = 3;
    g.out_channels = 20;
    g.kernel = {9, 7, 1};
    g.stride = {stride, 2, 1};
    g.pad = {4, 2, 0};
    g.in = {75, 64, 1};
    g = complete(g);
    const Floats head = numbers(g.batch * g.out_channels * g.out_area()),
                 weight = numbers(g.out_channels * g.in_channels * g.kernel_area());
    Floats got(static_cast<size_t>(g.batch * g.in_channels * g.in_area()), NAN);
    std::vector<double> want(got.size());
    kernels::convolution_data_grad(g, head.data(), weight.data(), got.data(), scratch());
    kernels::convolution_data_grad(g, doubles(head).data(), doubles(weight).data(), want.data(), scratch());
    for (size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(static_cast<double>(got[k]), want[k], 2e-4) << k;
    memory_.clear();
  }
}
TEST_F(Blocked, ImagesOfOnePixelAreMatrices) {
  for (int i = 0; i < 60; ++i) {
    ConvGeometry g;
    g.batch = between(1, 9);
    g.in_channels = between(4, 90);
    g.out_channels = between(1, 90);
    g = complete(g);
    ASSERT_EQ(kernels::choose_algorithm(g), ConvAlgorithm::product);
    expect_right(g, ConvAlgorithm::product);
  }
}

// Large weights over few positions, in both directions.
TEST_F(Blocked, ProductsOfWhatTheWindowSees) {
  for (int i = 0; i < 60; ++i) {
    ConvGeometry g;
    g.batch = between(1, 9);
    g.in_channels = between(1, 90);
    g.out_channels = between(1, 90);
    g.kernel = {between(1, 4), between(1, 4), 1};
    g.stride = {between(1, 3), between(1, 3), 1};
    g.dilate = {between(1, 2), between(1, 2), 1};
    g.pad = {between(0, 3), between(0, 8), 0};
    g.in = {between(7, 9), between(7, 9), 1};
    g = complete(g);
    const Floats data = numbers(g.batch * g.in_channels * g.in_area()), weight = numbers(g.out_channels * g.in_channels * g.kernel_area()),
                 head = numbers(g.batch * g.out_channels * g.out_area()), bias = numbers(g.out_channels);
    Floats out(head.size(), NAN), data_grad(data.size(), NAN);
    std::vector<double> want_out(head.size()), want_data(data.size());
    kernels::convolution_elements(g, data.data(), weight.data(), bias.data(), out.data(), scratch());
    kernels::convolution(g, doubles(data).data(), doubles(weight).data(), doubles(bias).data(), want_out.data(), scratch());
    for (size_t k = 0; k < out.size(); ++k) ASSERT_NEAR(static_cast<double>(out[k]), want_out[k], 1e-4) << k;
    kernels::elements_data_grad(g, head.data(), weight.data(), data_grad.data(), scratch());
    kernels::convolution_data_grad(g, doubles(head).data(), doubles(weight).data(), want_data.data(), scratch());
    for (size_t k = 0; k < data.size(); ++k) ASSERT_NEAR(static_cast<double>(data_grad[k]), want_data[k], 1e-4) << k;
    std::fill(data_grad.begin(), data_grad.end(), NAN);
    kernels::gemm_data_grad_in_bands(g, head.data(), weight.data(), data_grad.data(), scratch());
    for (size_t k = 0; k < data.size(); ++k) ASSERT_NEAR(static_cast<double>(data_grad[k]), want_data[k], 1e-4) << k;
    memory_.clear();
  }
}

// The gradient of the weight as products over places, with Winograd's tiles where the window allows them.
class WeightGrad : public Blocked {
 protected:
  void expect_right(const ConvGeometry& g) {
    const Floats data = numbers(g.batch * g.in_channels * g.in_area()), head = numbers(g.batch * g.out_channels * g.out_area());
    const auto size = static_cast<size_t>(g.out_channels * g.in_channels * g.kernel_area());
    std::vector<double> want(size);
    kernels::convolution_weight_grad(g, doubles(head).data(), doubles(data).data(), want.data(), scratch());
    for (const int64_t tile : {0, 2, 4}) {
      if (tile && !kernels::can_run_winograd(g)) continue;
      Floats got(size, NAN);
      kernels::products_weight_grad(g, tile, head.data(), data.data(), got.data(), scratch());
      const double bound = (tile == 4 ? 1e-5 : 4e-6) * (1 + std::sqrt(static_cast<double>(g.batch * g.out_area())));
      for (size_t k = 0; k < size; ++k) ASSERT_NEAR(static_cast<double>(got[k]), want[k], bound) << "tile " << tile << ", " << k;
    }
    memory_.clear();
  }
};
TEST_F(WeightGrad, OfAnyWindow) {
  for (int i = 0; i < 60; ++i) {
    ConvGeometry g;
    g.batch = between(1, 4);
    g.in_channels = between(1, 60);
    g.out_channels = between(1, 40);
    g.kernel = {between(1, 5), between(1, 5), 1};
    g.stride = {between(1, 3), between(1, 3), 1};
    g.dilate = {between(1, 2), between(1, 2), 1};
    g.in = {between(9, 16), between(9, 16), 1};
    g.pad = {between(0, 10), between(0, 6), 0};
    expect_right(complete(g));
  }
}
TEST_F(WeightGrad, OfWindowsOf3x3) {
  for (int i = 0; i < 40; ++i) {
    ConvGeometry g;
    g.batch = between(1, 9);
    g.in_channels = between(1, 80);
    g.out_channels = between(1, 50);
    g.kernel = {3, 3, 1};
    g.pad = {between(0, 3), between(1, 2), 0};
    g.in = {between(3, 14), between(1, 14), 1};
    expect_right(complete(g));
  }
}
TEST_F(WeightGrad, OfMorePlacesThanArePreparedAtATime) {
  ConvGeometry g;
  g.batch = 3;
  g.in_channels = 50;
  g.out_channels = 70;
  g.kernel = {3, 3, 1};
  g.pad = {1, 1, 0};
  g.in = {39, 42, 1};
  expect_right(complete(g));
}
TEST_F(WeightGrad, TakesTheTilesThatNeedFewestProducts) {
  const auto tile_of = [](int64_t channels, int64_t extent, int64_t stride, int64_t kernel) {
    ConvGeometry g;
    g.batch = 8;
    g.in_channels = g.out_channels = channels;
    g.kernel = {kernel, kernel, 1};
    g.stride = {stride, stride, 1};
    g.pad = {kernel / 2, kernel / 2, 0};
    g.in = {extent, extent, 1};
    return kernels::weight_grad_tile(complete(g));
  };
  EXPECT_EQ(tile_of(64, 16, 1, 3), 4);
  EXPECT_EQ(tile_of(512, 2, 1, 3), 0) << "most of the window lies in the padding";
  EXPECT_EQ(tile_of(256, 8, 2, 3), 0) << "a large weight";
  EXPECT_EQ(tile_of(64, 56, 1, 1), std::nullopt) << "many places, which a direct sum takes as they are";
  EXPECT_EQ(tile_of(8, 16, 1, 3), std::nullopt);
}

}  // namespace
}  // namespace gluino::test
