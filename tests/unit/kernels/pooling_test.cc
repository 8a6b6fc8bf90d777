// Fast paths of pooling against the definition, over random geometries.
#include "kernels/pooling/pooling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace gluino::test {
namespace {

using kernels::PoolGeometry;
using kernels::PoolKind;

// One output at a time, in the words of the definition; data_grad may be null.
void pool_by_definition(const PoolGeometry& g, const std::vector<float>& data, const std::vector<float>& head, std::vector<float>& out,
                        std::vector<float>& data_grad) {
  const int64_t unit = g.channels_last ? g.channels : 1;
  for (int64_t i = 0; i < g.batch * g.channels; ++i)
    for (int64_t y = 0; y < g.out[1]; ++y)
      for (int64_t x = 0; x < g.out[2]; ++x) {
        const int64_t from = g.channels_last ? i / g.channels * g.channels * g.in_area() + i % g.channels : i * g.in_area();
        const int64_t to =
            (g.channels_last ? i / g.channels * g.channels * g.out_area() + i % g.channels : i * g.out_area()) + (y * g.out[2] + x) * unit;
        float best = std::numeric_limits<float>::lowest(), sum = 0;
        int64_t chosen = -1, count = 0;
        std::vector<int64_t> seen;
        for (int64_t a = y * g.stride[1] - g.pad[1]; a < std::min(y * g.stride[1] - g.pad[1] + g.kernel[1], g.in[1] + g.pad[1]); ++a)
          for (int64_t b = x * g.stride[2] - g.pad[2]; b < std::min(x * g.stride[2] - g.pad[2] + g.kernel[2], g.in[2] + g.pad[2]); ++b) {
            const bool inside = a >= 0 && b >= 0 && a < g.in[1] && b < g.in[2];
            count += inside || g.count_include_pad;
            if (!inside) continue;
            const int64_t at = from + (a * g.in[2] + b) * unit;
            seen.push_back(at);
            sum += data[at];
            if (data[at] > best) best = data[chosen = at];
          }
        const float divisor = g.kind == PoolKind::avg ? static_cast<float>(std::max<int64_t>(count, 1)) : 1.0f;
        out[to] = g.kind == PoolKind::max ? best : sum / divisor;
        const float h = head[to];
        if (g.kind == PoolKind::max && chosen >= 0) data_grad[chosen] += h;
        for (int64_t at : seen)
          if (g.kind != PoolKind::max) data_grad[at] += h / divisor;
      }
}

TEST(Pooling, IsWhatTheDefinitionSays) {
  std::mt19937 engine(3);
  const auto between = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); };
  const auto numbers = [&](int64_t count) {
    std::vector<float> v(count);
    for (float& x : v) x = static_cast<float>(between(-8, 8)) / 4;  // with many equal ones
    return v;
  };
  for (int i = 0; i < 300; ++i) {
    PoolGeometry g;
    g.kind = std::array{PoolKind::max, PoolKind::avg, PoolKind::sum}[i % 3];
    g.batch = between(1, 2);
    g.channels_last = between(0, 1) == 1;
    g.channels = between(0, 1) ? 8 * between(1, 2) : between(1, 9);
    g.count_include_pad = between(0, 1) == 1;
    const bool squares = between(0, 1) == 1;
    for (size_t axis : {1, 2}) {
      g.in[axis] = between(4, 40);
      g.kernel[axis] = squares ? 2 : between(1, 4);
      g.stride[axis] = squares ? 2 : between(1, 3);
      g.pad[axis] = squares ? 0 : between(0, g.kernel[axis] - 1);
      g.out[axis] = (g.in[axis] + 2 * g.pad[axis] - g.kernel[axis] + between(0, 1) * (g.stride[axis] - 1)) / g.stride[axis] + 1;
    }
    const auto in_size = g.batch * g.channels * g.in_area(), out_size = g.batch * g.channels * g.out_area();
    const std::vector<float> data = numbers(in_size), head = numbers(out_size);
    std::vector<float> want(head.size()), want_grad(data.size()), got(head.size(), NAN), got_grad(data.size(), NAN);
    pool_by_definition(g, data, head, want, want_grad);
    kernels::pool(g, data.data(), got.data());
    kernels::pool_grad(g, head.data(), data.data(), got.data(), got_grad.data());
    for (size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-5f) << "case " << i << ", output " << k;
    for (size_t k = 0; k < data.size(); ++k) ASSERT_NEAR(got_grad[k], want_grad[k], 1e-5f) << "case " << i << ", gradient " << k;
  }
}

}  // namespace
}  // namespace gluino::test
