#include "kernels/convolution/narrow_convolution.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/convolution/blocked_layout.h"
#include "kernels/convolution/narrow_tiles.h"
#include "kernels/gemm/costs.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(NarrowTable, kNarrowTable, narrow_table)

namespace {

// Data as the rows of windows read it: planes of `unit` interleaved channels, with the padding around them.
struct Planes {
  const float* data;
  int64_t count, unit, height, width;  // of one image
  int64_t plane() const { return height * width * unit; }
};

bool is_padded(const ConvGeometry& g) { return g.pad[0] > 0 || g.pad[1] > 0; }
int64_t padded_plane(const ConvGeometry& g) { return (g.in[0] + 2 * g.pad[0]) * (g.in[1] + 2 * g.pad[1]); }

// The same with zeros around; `to` has room for g.batch images, and is not used when there is no padding.
Planes with_padding(const ConvGeometry& g, const Planes& p, float* to) {
  if (!is_padded(g)) return p;
  const Planes padded{to, p.count, p.unit, p.height + 2 * g.pad[0], p.width + 2 * g.pad[1]};
  parallel_for(g.batch * p.count, kParallelGrain / padded.plane(), [&](int64_t begin, int64_t end) {
    std::fill(to + begin * padded.plane(), to + end * padded.plane(), 0.0f);
    for (int64_t i = begin; i < end; ++i)
      for (int64_t y = 0; y < p.height; ++y)
        std::copy_n(p.data + i * p.plane() + y * p.width * p.unit, p.width * p.unit,
                    to + i * padded.plane() + ((y + g.pad[0]) * padded.width + g.pad[1]) * p.unit);
  });
  return padded;
}
Planes planes_of(const ConvGeometry& g, bool plain, const float* data) {
  return {data, plain ? g.in_channels : blocks_of(g.in_channels), plain ? 1 : kChannelBlock, g.in[0], g.in[1]};
}

// `planes` has the padding.
void run_rows(const ConvGeometry& g, const Planes& planes, const float* packed, const ConvEpilogue& epilogue, float* out) {
  const int64_t blocks = blocks_of(g.out_channels), pairs = (blocks + 1) / 2, out_block = g.out_area() * kChannelBlock;
  const auto& rows = planes.unit == 1 ? narrow_table().plain : narrow_table().blocked;
  const std::vector<float> all_bias = padded_bias(epilogue.bias, g.out_channels);
  const int64_t weight_block = narrow_weight_elements(g) / blocks, work = g.out[1] * 2 * weight_block;
  parallel_for(g.batch * pairs * g.out[0], kGrain / std::max<int64_t>(work, 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t y = i % g.out[0], b = i / g.out[0] % pairs * 2, n = i / g.out[0] / pairs;
      // Row k of the window sees row top + k * dilate of the data.
      const int64_t top = y * g.stride[0] - g.pad[0], dilate = g.dilate[0];
      const int64_t first = top < 0 ? (-top + dilate - 1) / dilate : 0, last = top >= g.in[0] ? 0 : (g.in[0] - 1 - top) / dilate + 1;
      rows[b + 1 < blocks ? 1 : 0]({.columns = g.out[1],
                                    .channels = g.in_channels,
                                    .kernel_height = g.kernel[0],
                                    .kernel_width = g.kernel[1],
                                    .first_row = first,
                                    .last_row = std::min(last, g.kernel[0]),
                                    .data = planes.data + n * planes.count * planes.plane() + y * g.stride[0] * planes.width * planes.unit,
                                    .plane_step = planes.plane(),
                                    .row_step = g.dilate[0] * planes.width * planes.unit,
                                    .tap_step = g.dilate[1] * planes.unit,
                                    .weight = packed + b * weight_block,
                                    .weight_block = weight_block,
                                    .bias = all_bias.data() + b * kChannelBlock,
                                    .out = out + ((n * blocks + b) * g.out[0] + y) * g.out[1] * kChannelBlock,
                                    .out_block = out_block,
                                    .accumulate = epilogue.accumulate,
                                    .relu = epilogue.relu,
                                    .limit = epilogue.limit});
    }
  });
}

// Memory for some images at a time in the plain layout: their padded data and their outputs in blocks stay in the cache.
struct Chunk {
  ConvGeometry g;  // of so many images
  float *padded, *blocked;
  Chunk(const ConvGeometry& all, const Scratch& scratch) : g(all) {
    constexpr int64_t kElements = 1 << 16;
    const int64_t padded_image = is_padded(g) ? g.in_channels * padded_plane(g) : 0;
    const int64_t blocked_image = blocks_of(g.out_channels) * kChannelBlock * g.out_area();
    g.batch = std::clamp<int64_t>(kElements / (padded_image + blocked_image), 1, all.batch);
    padded = floats(g.batch * padded_image, scratch);
    blocked = floats(g.batch * blocked_image, scratch);
  }
  // Calls f(number of the first image, geometry of the chunk).
  template <class F>
  void for_each(int64_t images, F&& f) {
    for (int64_t first = 0; first < images; first += g.batch) {
      ConvGeometry here = g;
      here.batch = std::min(g.batch, images - first);
      f(first, here);
    }
  }
};

}  // namespace

bool can_run_narrow(const ConvGeometry& g) { return g.rank == 2 && !g.channels_last && g.groups == 1 && g.stride[1] == 1; }

int64_t narrow_weight_elements(const ConvGeometry& g) {
  return blocks_of(g.out_channels) * g.in_channels * g.kernel_area() * kChannelBlock;
}

// (blocks of output channels, input channels, kernel, 8)
void pack_narrow_weight(const ConvGeometry& g, const float* weight, float* packed) {
  const int64_t terms = g.in_channels * g.kernel_area();
  std::fill_n(packed, narrow_weight_elements(g), 0.0f);
  for (int64_t o = 0; o < g.out_channels; ++o)
    for (int64_t i = 0; i < terms; ++i) packed[(o / kChannelBlock * terms + i) * kChannelBlock + o % kChannelBlock] = weight[o * terms + i];
}

void convolution_narrow(const ConvGeometry& g, bool data_is_plain, const float* data, const float* packed, const ConvEpilogue& epilogue,
                        float* out, const Scratch& scratch) {
  const Planes planes = planes_of(g, data_is_plain, data);
  float* padded = is_padded(g) ? floats(g.batch * planes.count * planes.unit * padded_plane(g), scratch) : nullptr;
  run_rows(g, with_padding(g, planes, padded), packed, epilogue, out);
}

bool can_run_narrow_plain(const ConvGeometry& g) {
  return can_run_narrow(g) && g.stride[0] == 1 && g.dilate[0] == 1 && g.dilate[1] == 1 && g.pad[0] < g.kernel[0] && g.pad[1] < g.kernel[1];
}

void convolution_narrow_plain(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out,
                              const Scratch& scratch) {
  float* packed = floats(narrow_weight_elements(g), scratch);
  pack_narrow_weight(g, weight, packed);
  Chunk chunk(g, scratch);
  chunk.for_each(g.batch, [&](int64_t first, const ConvGeometry& here) {
    const Planes planes = planes_of(here, true, data + first * g.in_channels * g.in_area());
    run_rows(here, with_padding(here, planes, chunk.padded), packed, {.bias = bias}, chunk.blocked);
    from_blocked(here.batch, g.out_channels, g.out_area(), chunk.blocked, out + first * g.out_channels * g.out_area());
  });
}

void narrow_weight_grad(const ConvGeometry& g, const float* head, const float* data, float* weight_grad, const Scratch& scratch) {
  const int64_t blocks = blocks_of(g.out_channels), elements = narrow_weight_elements(g), terms = g.in_channels * g.kernel_area();
  const int64_t head_block = g.out_area() * kChannelBlock, weight_block = elements / blocks;
  Chunk chunk(g, scratch);
  // Images are summed in parts, as many for any number of threads: sums do not depend on it, and so many threads can share the work.
  constexpr int64_t kMostParts = 8;
  const int64_t parts = std::min(chunk.g.batch, kMostParts);
  float* sums = floats(parts * elements, scratch);
  std::fill_n(sums, parts * elements, 0.0f);
  chunk.for_each(g.batch, [&](int64_t first, const ConvGeometry& here) {
    const Planes planes = with_padding(here, planes_of(here, true, data + first * g.in_channels * g.in_area()), chunk.padded);
    to_blocked(here.batch, g.out_channels, g.out_area(), head + first * g.out_channels * g.out_area(), chunk.blocked);
    const auto add_image = [&](int64_t n, int64_t b, int64_t c, float* sum) {
      narrow_table().weight_grad[b + 1 < blocks ? 1 : 0]({.rows = g.out[0],
                                                          .columns = g.out[1],
                                                          .kernel_height = g.kernel[0],
                                                          .kernel_width = g.kernel[1],
                                                          .head = chunk.blocked + (n * blocks + b) * head_block,
                                                          .head_block = head_block,
                                                          .data = planes.data + (n * planes.count + c) * planes.plane(),
                                                          .data_row = planes.width,
                                                          .weight_grad = sum + b * weight_block + c * g.kernel_area() * kChannelBlock,
                                                          .weight_block = weight_block});
    };
    parallel_for(parts, kGrain * parts / std::max<int64_t>(elements * g.out_area() * here.batch, 1), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for (int64_t n = here.batch * p / parts; n < here.batch * (p + 1) / parts; ++n)
          for (int64_t b = 0; b < blocks; b += 2)
            for (int64_t c = 0; c < g.in_channels; ++c) add_image(n, b, c, sums + p * elements);
    });
  });
  for (int64_t p = 1; p < parts; ++p)
    for (int64_t i = 0; i < elements; ++i) sums[i] += sums[p * elements + i];
  for (int64_t o = 0; o < g.out_channels; ++o)
    for (int64_t i = 0; i < terms; ++i)
      weight_grad[o * terms + i] = sums[(o / kChannelBlock * terms + i) * kChannelBlock + o % kChannelBlock];
}

}  // namespace gluino::kernels
