// Included by separable_tiles_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set. Every sum begins with the bias and
// adds its terms in the order of the weight, wherever in the image it stands.
#include "kernels/convolution/separable_tiles.h"
#include "kernels/isa/lanes.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

constexpr int kSums = 12;  // that stay in registers, beside the weights of a channel and a number of the data

template <int kBlocks, int kPixels>
__attribute__((always_inline)) inline void pointwise_tile(const PointwiseCall& c, int64_t first_block, int64_t first_pixel) {
  const int64_t weight_block = c.in_blocks * kLanes * kLanes;
  Lanes sum[kPixels][kBlocks];
#pragma GCC unroll 12
  for (int i = 0; i < kPixels; ++i)
#pragma GCC unroll 3
    for (int b = 0; b < kBlocks; ++b) sum[i][b] = load(c.bias + (first_block + b) * kLanes);
  const float *data = c.data + first_pixel * kLanes, *weight = c.weight + first_block * weight_block;
  for (int64_t k = 0; k < c.in_blocks; ++k, data += c.data_block) {
#pragma GCC unroll 2
    for (int64_t j = 0; j < kLanes; ++j, weight += kLanes) {
      Lanes w[kBlocks];
#pragma GCC unroll 3
      for (int b = 0; b < kBlocks; ++b) w[b] = load(weight + b * weight_block);
#pragma GCC unroll 12
      for (int i = 0; i < kPixels; ++i) {
        const Lanes v = spread(data[i * kLanes + j]);
#pragma GCC unroll 3
        for (int b = 0; b < kBlocks; ++b) sum[i][b] += v * w[b];
      }
    }
  }
  const int64_t place = first_block * c.out_block + first_pixel * kLanes;
  if (c.added)
#pragma GCC unroll 12
    for (int i = 0; i < kPixels; ++i)
#pragma GCC unroll 3
      for (int b = 0; b < kBlocks; ++b) sum[i][b] += load(c.added + place + b * c.out_block + i * kLanes);
  if (c.relu)
#pragma GCC unroll 12
    for (int i = 0; i < kPixels; ++i)
#pragma GCC unroll 3
      for (int b = 0; b < kBlocks; ++b) sum[i][b] = relu(sum[i][b], c.limit);
#pragma GCC unroll 12
  for (int i = 0; i < kPixels; ++i)
#pragma GCC unroll 3
    for (int b = 0; b < kBlocks; ++b) store(c.out + place + b * c.out_block + i * kLanes, sum[i][b]);
}

template <int kBlocks, int kPixels>
void pointwise_tile_of(const PointwiseCall& c, int64_t block, int64_t first, int64_t pixels) {
  if constexpr (kPixels > 1)
    if (pixels < kPixels) return pointwise_tile_of<kBlocks, kPixels - 1>(c, block, first, pixels);
  pointwise_tile<kBlocks, kPixels>(c, block, first);
}

template <int kBlocks>
void pointwise_blocks(const PointwiseCall& c, int64_t block) {
  constexpr int kMost = kSums / kBlocks;
  // The last tiles have nearly the same size: 3 + 3, not 4 + 2.
  const int64_t tiles = (c.pixels + kMost - 1) / kMost, last = c.pixels % kMost == 0 ? 0 : tiles < 2 ? 1 : 2;
  int64_t first = 0;
  for (; first < (tiles - last) * kMost; first += kMost) pointwise_tile<kBlocks, kMost>(c, block, first);
  for (int64_t t = last; t > 0; --t) {
    const int64_t here = (c.pixels - first + t - 1) / t;
    pointwise_tile_of<kBlocks, kMost>(c, block, first, here);
    first += here;
  }
}

void pointwise(const PointwiseCall& c) {
  for (int64_t b = 0; b < c.out_blocks;) {
    const int64_t left = c.out_blocks - b;
    if (left == 1) {
      pointwise_blocks<1>(c, b);
      b += 1;
    } else if (left == 2 || left == 4) {  // 2 + 2, not 3 + 1
      pointwise_blocks<2>(c, b);
      b += 2;
    } else {
      pointwise_blocks<3>(c, b);
      b += 3;
    }
  }
}

// One output, which may see padding to its left and right.
void depthwise_pixel(const DepthwiseRow& r, int64_t x) {
  const int64_t left = x * r.stride - r.pad;
  const int64_t first = left < 0 ? -left : 0, last = left + r.kernel_width > r.in_columns ? r.in_columns - left : r.kernel_width;
  Lanes sum = load(r.bias);
  for (int64_t y = 0; y < r.rows; ++y)
    for (int64_t t = first; t < last; ++t)
      sum += load(r.data[y] + (left + t) * kLanes) * load(r.weight + (y * r.kernel_width + t) * kLanes);
  store(r.out + x * kLanes, r.relu ? relu(sum, r.limit) : sum);
}

// Neighbours whose windows lie inside the row: what several of them see is loaded once.
template <int kWidth, int kStride, int kPixels>
__attribute__((always_inline)) inline void depthwise_tile(const DepthwiseRow& r, int64_t x) {
  constexpr int kSeen = (kPixels - 1) * kStride + kWidth;
  Lanes sum[kPixels];
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i) sum[i] = load(r.bias);
  const int64_t left = (x * kStride - r.pad) * kLanes;
  const float* weight = r.weight;
  for (int64_t y = 0; y < r.rows; ++y, weight += kWidth * kLanes) {
    const float* data = r.data[y] + left;
    Lanes seen[kSeen];
#pragma GCC unroll 12
    for (int i = 0; i < kSeen; ++i) seen[i] = load(data + i * kLanes);
#pragma GCC unroll 5
    for (int t = 0; t < kWidth; ++t) {
      const Lanes w = load(weight + t * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i) sum[i] += seen[i * kStride + t] * w;
    }
  }
  if (r.relu)
#pragma GCC unroll 8
    for (int i = 0; i < kPixels; ++i) sum[i] = relu(sum[i], r.limit);
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i) store(r.out + (x + i) * kLanes, sum[i]);
}

template <int kWidth, int kStride>
int64_t depthwise_tiles(const DepthwiseRow& r, int64_t x, int64_t end) {
  constexpr int kPixels = 6;
  for (; x + kPixels <= end; x += kPixels) depthwise_tile<kWidth, kStride, kPixels>(r, x);
  for (; x + 2 <= end; x += 2) depthwise_tile<kWidth, kStride, 2>(r, x);
  return x;
}

void depthwise(const DepthwiseRow& r) {
  int64_t x = 0;
  const int64_t inside = (r.pad + r.stride - 1) / r.stride;  // the first output that sees no padding
  const int64_t end = r.in_columns + r.pad < r.kernel_width ? 0 : (r.in_columns + r.pad - r.kernel_width) / r.stride + 1;
  for (; x < inside && x < r.columns; ++x) depthwise_pixel(r, x);
  const int64_t stop = end < r.columns ? end : r.columns;
  if (r.kernel_width == 3 && r.stride == 1)
    x = depthwise_tiles<3, 1>(r, x, stop);
  else if (r.kernel_width == 3 && r.stride == 2)
    x = depthwise_tiles<3, 2>(r, x, stop);
  else if (r.kernel_width == 5 && r.stride == 1)
    x = depthwise_tiles<5, 1>(r, x, stop);
  for (; x < r.columns; ++x) depthwise_pixel(r, x);
}

// kBlocks vectors of neighbouring outputs, of which `columns` are there. kWidth: of the window, or 0 for any.
template <int kBlocks, int kWidth>
__attribute__((always_inline)) inline void plane_tile(const PlaneRow& r, const float* weight, float bias, int64_t columns,
                                                      const float* data, float* out) {
  const int64_t width = kWidth ? kWidth : r.width;
  Lanes sum[kBlocks];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) sum[b] = spread(bias);
  for (int64_t i = 0; i < r.rows; ++i, data += r.row_step, weight += width)
#pragma GCC unroll 3
    for (int64_t j = 0; j < width; ++j) {
      const Lanes w = spread(weight[j]);
      const float* seen = data + r.taps[j];
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) sum[b] += load(seen + b * kLanes) * w;
    }
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks - 1; ++b) store(out + b * kLanes, sum[b]);
  const int64_t left = columns - (kBlocks - 1) * kLanes;
  if (left == kLanes) return store(out + (kBlocks - 1) * kLanes, sum[kBlocks - 1]);
  float last[kLanes];  // not the sum itself: with its address taken, GCC would keep it in memory all the time
  store(last, sum[kBlocks - 1]);
  memcpy(out + (kBlocks - 1) * kLanes, last, static_cast<size_t>(left) * sizeof(float));
}
template <int kWidth>
void plane_row_of(const PlaneRow& r, const float* weight, float bias, float* out) {
  constexpr int64_t kMost = 8 * kLanes;
  int64_t x = 0;
  for (; x + kMost <= r.columns; x += kMost) plane_tile<8, kWidth>(r, weight, bias, kMost, r.data + x, out + x);
  const int64_t left = r.columns - x;
  switch ((left + kLanes - 1) / kLanes) {
    case 8: return plane_tile<8, kWidth>(r, weight, bias, left, r.data + x, out + x);
    case 7: return plane_tile<7, kWidth>(r, weight, bias, left, r.data + x, out + x);
    case 6: return plane_tile<6, kWidth>(r, weight, bias, left, r.data + x, out + x);
    case 5: return plane_tile<5, kWidth>(r, weight, bias, left, r.data + x, out + x);
    case 4: return plane_tile<4, kWidth>(r, weight, bias, left, r.data + x, out + x);
    case 3: return plane_tile<3, kWidth>(r, weight, bias, left, r.data + x, out + x);
    case 2: return plane_tile<2, kWidth>(r, weight, bias, left, r.data + x, out + x);
    case 1: return plane_tile<1, kWidth>(r, weight, bias, left, r.data + x, out + x);
    default: return;
  }
}
void plane_row(const PlaneRow& r, const float* weight, float bias, float* out) {
  if (r.width == 3) return plane_row_of<3>(r, weight, bias, out);
  plane_row_of<0>(r, weight, bias, out);
}
void add_row(int64_t n, float factor, const float* from, float* to) {
  int64_t i = 0;
  const Lanes w = spread(factor);
  for (; i + kLanes <= n; i += kLanes) store(to + i, load(to + i) + w * load(from + i));
  for (; i < n; ++i) to[i] += factor * from[i];
}
// kTaps elements of the window at once: one sum waits for itself.
template <int kTaps>
__attribute__((always_inline)) inline void plane_products(const float* head, int64_t n, const float* const* data, float* sums) {
  Lanes sum[kTaps];
  for (int t = 0; t < kTaps; ++t) sum[t] = load(sums + t * kLanes);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Lanes h = load(head + i);
#pragma GCC unroll 4
    for (int t = 0; t < kTaps; ++t) sum[t] += h * load(data[t] + i);
  }
  if (i < n) {  // what lies behind the row may be no number
    const auto rest = [&](const float* from) {
      float part[kLanes] = {};
      memcpy(part, from + i, static_cast<size_t>(n - i) * sizeof(float));
      return load(part);
    };
    const Lanes h = rest(head);
    for (int t = 0; t < kTaps; ++t) sum[t] += h * rest(data[t]);
  }
  for (int t = 0; t < kTaps; ++t) store(sums + t * kLanes, sum[t]);
}
void plane_grad(const PlaneRow& r, const float* head, float* sums) {
  constexpr int kTaps = 4;
  const float* data[kTaps];
  int waiting = 0;
  for (int64_t i = 0; i < r.rows; ++i)
    for (int64_t j = 0; j < r.width; ++j) {
      data[waiting++] = r.data + i * r.row_step + r.taps[j];
      if (waiting < kTaps) continue;
      plane_products<kTaps>(head, r.columns, data, sums);
      sums += kTaps * kLanes;
      waiting = 0;
    }
  for (int t = 0; t < waiting; ++t) plane_products<1>(head, r.columns, data + t, sums + t * kLanes);
}

}  // namespace

extern const SeparableTable kSeparableTable;
const SeparableTable kSeparableTable = {pointwise, depthwise, plane_row, add_row, plane_grad};

}  // namespace gluino::kernels::GLUINO_ISA
