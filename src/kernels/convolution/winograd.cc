#include "kernels/convolution/winograd.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/parallel.h"
#include "kernels/convolution/blocked_layout.h"
#include "kernels/convolution/blocked_patches.h"
#include "kernels/convolution/winograd_transforms.h"
#include "kernels/gemm/costs.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(WinogradTable, kWinogradTable, winograd_table)

namespace {

constexpr int64_t kTileRows = 6, kTileColumns = 16;  // what WinogradTable::multiply takes at once
constexpr int64_t kStripBytes = 1 << 18;             // transformed data that stays in the second-level cache beside the products

// How the work of one call is laid out. Tiles are numbered over all images, rows and columns; a strip of them is
// transformed at a time. Transformed data is (point, tile, channel), a panel's products (point, tile, 16).
struct Layout {
  int64_t m, edge, points, tile_rows, tile_columns, tiles, in_blocks, in_channels, out_blocks, panels, strips, strip;
  Layout(const ConvGeometry& g, int64_t tile)
      : m(tile),
        edge(m + 2),
        points(edge * edge),
        tile_rows((g.out[0] + m - 1) / m),
        tile_columns((g.out[1] + m - 1) / m),
        tiles(g.batch * tile_rows * tile_columns),
        in_blocks(blocks_of(g.in_channels)),
        in_channels(in_blocks * kChannelBlock),
        out_blocks(blocks_of(g.out_channels)),
        panels((g.out_channels + kTileColumns - 1) / kTileColumns) {
    const int64_t most = std::clamp<int64_t>(kStripBytes / (points * in_channels * int64_t{sizeof(float)}) / kTileRows, 4, 8) * kTileRows;
    strips = (tiles + most - 1) / most;
    strip = (tiles + strips - 1) / std::max<int64_t>(strips, 1);
  }
  int64_t data_step() const { return strip * in_channels + kLine; }
  int64_t weight_step() const { return in_channels * kTileColumns + kLine; }
  int64_t product_step() const { return strip * kTileColumns + kLine; }
  const WinogradTransforms& transforms() const { return m == 2 ? winograd_table().tiles_of_2 : winograd_table().tiles_of_4; }
};

struct Place {
  int64_t image, y, x;  // of the first output
};
Place place_of(const Layout& l, int64_t tile) {
  return {tile / (l.tile_rows * l.tile_columns), tile / l.tile_columns % l.tile_rows * l.m, tile % l.tile_columns * l.m};
}

// All channels of one tile.
void transform_data(const ConvGeometry& g, const Layout& l, int64_t tile, const float* data, float* to) {
  const Place at = place_of(l, tile);
  const int64_t plane = g.in_area() * kChannelBlock;
  for (int64_t b = 0; b < l.in_blocks; ++b, to += kChannelBlock)
    with_patch(data + (at.image * l.in_blocks + b) * plane, g.in, at.y - g.pad[0], at.x - g.pad[1], l.edge,
               [&](const float* patch, int64_t row_step) { l.transforms().input(patch, row_step, to, l.data_step()); });
}

// The products of `count` tiles with one panel of 16 output channels. Weights come from far away: while one point is
// multiplied, the next one's are fetched, a share by every group of rows.
void multiply(const Layout& l, int64_t count, const float* data, const float* panel, float* products) {
  const int64_t groups = (count + kTileRows - 1) / kTileRows, rows = (count + groups - 1) / groups;
  const int64_t point = l.weight_step(), share = kTileColumns / std::min<int64_t>(groups, 4);
  const auto multiply_tile = winograd_table().multiply;
  for (int64_t p = 0; p < l.points; ++p)
    for (int64_t t = 0, ahead = point; t < count; t += rows, ahead = std::min(ahead + share * l.in_channels, 2 * point))
      multiply_tile(std::min(rows, count - t), l.in_channels, data + p * l.data_step() + t * l.in_channels, panel + p * point,
                    products + p * l.product_step() + t * kTileColumns, panel + p * point + ahead, share);
}

// The windows themselves, (blocks of 8 output channels, channels, 9, 8), for tiles whose numbers are not finite; most calls need none.
class PlainWindows {
 public:
  PlainWindows(const ConvGeometry& g, const Layout& l, const float* packed) : g_(g), l_(l), packed_(packed) {}
  const float* block(int64_t b) {
    std::call_once(once_, [&] { restore(); });
    return windows_.data() + b * g_.in_channels * kWindow;
  }
  static constexpr int64_t kWindow = 9 * kChannelBlock;

 private:
  void restore() {
    constexpr int64_t kBlocks = kTileColumns / kChannelBlock;
    windows_.resize(static_cast<size_t>(l_.out_blocks * g_.in_channels * kWindow));
    float* to = windows_.data();
    for (int64_t b = 0; b < l_.out_blocks; ++b)
      for (int64_t c = 0; c < g_.in_channels; ++c, to += kWindow)
        l_.transforms().restored_weight(
            packed_ + b / kBlocks * l_.points * l_.weight_step() + c * kTileColumns + b % kBlocks * kChannelBlock, l_.weight_step(), to);
  }
  const ConvGeometry& g_;
  const Layout& l_;
  const float* packed_;
  std::once_flag once_;
  std::vector<float> windows_;
};

// Sums of products, one by one: the outputs of one tile in 8 channels.
void store_directly(const ConvGeometry& g, const Layout& l, const Place& at, const float* data, const float* windows,
                    const WinogradStore& how, float* to) {
  const int64_t rows = std::min(l.m, how.rows), columns = std::min(l.m, how.columns);
  float sums[4][4][kChannelBlock];
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < columns; ++x) std::copy_n(how.bias, kChannelBlock, sums[y][x]);
  for (int64_t c = 0; c < g.in_channels; ++c, windows += PlainWindows::kWindow)
    with_patch(data + (at.image * l.in_blocks + c / kChannelBlock) * g.in_area() * kChannelBlock, g.in, at.y - g.pad[0], at.x - g.pad[1],
               l.edge, [&](const float* patch, int64_t row_step) {
                 for (int64_t y = 0; y < rows; ++y)
                   for (int64_t x = 0; x < columns; ++x)
                     for (int64_t tap = 0; tap < 9; ++tap) {
                       const float value = patch[(y + tap / 3) * row_step + (x + tap % 3) * kChannelBlock + c % kChannelBlock];
                       for (int64_t i = 0; i < kChannelBlock; ++i) sums[y][x][i] += value * windows[tap * kChannelBlock + i];
                     }
               });
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < columns; ++x)
      for (int64_t i = 0; i < kChannelBlock; ++i) {
        float& out = to[y * how.row_step + x * kChannelBlock + i];
        const float sum = how.accumulate ? sums[y][x][i] + out : sums[y][x][i];
        out = !how.relu ? sum : sum <= 0 ? 0 : sum > how.limit ? how.limit : sum;
      }
}

void store_panel(const ConvGeometry& g, const Layout& l, int64_t first, int64_t count, int64_t panel, const float* products,
                 const float* data, PlainWindows& windows, const ConvEpilogue& epilogue, float* out) {
  constexpr int64_t kBlocks = kTileColumns / kChannelBlock;
  const int64_t row = g.out[1] * kChannelBlock;
  for (int64_t b = panel * kBlocks; b < std::min((panel + 1) * kBlocks, l.out_blocks); ++b) {
    const int64_t channels = std::min(kChannelBlock, g.out_channels - b * kChannelBlock);
    float bias[kChannelBlock] = {};
    if (epilogue.bias) std::copy_n(epilogue.bias + b * kChannelBlock, channels, bias);
    for (int64_t t = 0; t < count; ++t) {
      const Place at = place_of(l, first + t);
      const WinogradStore how{bias, epilogue.accumulate, epilogue.relu, epilogue.limit, row, g.out[0] - at.y, g.out[1] - at.x};
      float* to = out + ((at.image * l.out_blocks + b) * g.out[0] + at.y) * row + at.x * kChannelBlock;
      if (!l.transforms().output(products + t * kTileColumns + b % kBlocks * kChannelBlock, l.product_step(), to, how))
        store_directly(g, l, at, data, windows.block(b), how, to);
    }
  }
}

}  // namespace

bool can_run_winograd(const ConvGeometry& g) {
  return g.rank == 2 && !g.channels_last && g.groups == 1 && g.kernel[0] == 3 && g.kernel[1] == 3 && g.stride[0] == 1 && g.stride[1] == 1 &&
         g.dilate[0] == 1 && g.dilate[1] == 1;
}

double winograd_cost(const ConvGeometry& g, int64_t m) {
  const Layout l(g, m);
  const auto channels = static_cast<double>(l.in_channels), panels = static_cast<double>(l.panels * kTileColumns);
  const auto points = static_cast<double>(l.points), tiles = static_cast<double>(l.tiles);
  // A point costs about 5 vector operations on each side. The weight is read once a strip, but beyond the caches' size a
  // number of it takes as long as 12 multiplications.
  const double products = points * tiles * channels * panels, transforms = 5 * points * tiles * (channels + panels);
  const double weights = points * channels * panels;
  return std::max(products, 12 * weights) + transforms;
}

int64_t winograd_weight_elements(const ConvGeometry& g, int64_t m) {
  const Layout l(g, m);
  return l.panels * l.points * l.weight_step();
}

// (panels, points, channels, 16). Blocks of 8 output channels are brought side by side first: (channels, 3, 3, 8).
void pack_winograd_weight(const ConvGeometry& g, int64_t m, const float* weight, bool is_turned, float* packed, const Scratch& scratch) {
  const Layout l(g, m);
  const int64_t terms = g.in_channels * 9, panel = l.points * l.weight_step(), last = is_turned ? 8 * kChannelBlock : 0;
  const auto bring = [&](int64_t first, int64_t count, float* block) {
    if (!is_turned) return block_table().to_block(count, terms, weight + first * terms, block);
    constexpr int64_t kAhead = 8;  // rows; far apart, they are fetched by nobody else
    for (int64_t c = 0; c < g.in_channels; ++c) {
      const float* row = weight + (c * g.out_channels + first) * 9;
      for (int64_t i = 0; i < count * 9 && c + kAhead < g.in_channels; i += kLine)
        __builtin_prefetch(row + kAhead * g.out_channels * 9 + i);
      block_table().to_block(count, 9, row, block + c * 9 * kChannelBlock);
    }
  };
  ScratchBuffers buffers(num_threads(), 2 * terms * kChannelBlock, scratch);
  parallel_for(l.panels, kGrain / (5 * panel), [&](int64_t begin, int64_t end) {
    buffers.use([&](float* blocks) {
      for (int64_t o = begin; o < end; ++o) {
        float* to = packed + o * panel;
        for (int64_t h = 0; h < 2; ++h) {
          const int64_t first = std::min(o * kTileColumns + h * kChannelBlock, g.out_channels);
          bring(first, std::min(g.out_channels - first, kChannelBlock), blocks + h * terms * kChannelBlock);
        }
        for (int64_t c = 0; c < g.in_channels; ++c)
          for (int64_t h = 0; h < 2; ++h)
            l.transforms().weight(blocks + (h * terms + c * 9) * kChannelBlock + last, is_turned ? -kChannelBlock : kChannelBlock,
                                  to + c * kTileColumns + h * kChannelBlock, l.weight_step());
        for (int64_t p = 0; p < l.points; ++p)  // channels of the padding, and what keeps points apart
          std::fill(to + p * l.weight_step() + g.in_channels * kTileColumns, to + (p + 1) * l.weight_step(), 0.0f);
      }
    });
  });
}

void convolution_winograd(const ConvGeometry& g, int64_t m, const float* data, const float* packed, const ConvEpilogue& epilogue,
                          float* out, const Scratch& scratch) {
  const Layout l(g, m);
  // Threads take strips where there are enough of them, else they share every strip: first its tiles, then the panels.
  const int64_t threads = num_threads(), together = l.strips >= 2 * threads ? 1 : l.strips;
  ScratchBuffers data_buffers(std::min(threads, l.strips), l.points * l.data_step(), scratch);
  ScratchBuffers product_buffers(threads, l.points * l.product_step(), scratch);
  PlainWindows windows(g, l, packed);
  parallel_for(l.strips, together, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s)
      data_buffers.use([&](float* transformed) {
        const int64_t first = s * l.strip, count = std::min(l.strip, l.tiles - first);
        parallel_for(count, kGrain / (8 * l.points * l.in_channels), [&](int64_t from, int64_t to) {
          for (int64_t t = from; t < to; ++t) transform_data(g, l, first + t, data, transformed + t * l.in_channels);
        });
        parallel_for(l.panels, kGrain / (l.points * count * l.in_channels * kTileColumns), [&](int64_t from, int64_t to) {
          product_buffers.use([&](float* products) {
            for (int64_t p = from; p < to; ++p) {
              multiply(l, count, transformed, packed + p * l.points * l.weight_step(), products);
              store_panel(g, l, first, count, p, products, data, windows, epilogue, out);
            }
          });
        });
      });
  });
}

void convolution_winograd_plain(const ConvGeometry& g, int64_t m, const float* data, const float* weight, bool is_turned, const float* bias,
                                float* out, const Scratch& scratch) {
  float* packed = floats(winograd_weight_elements(g, m), scratch);
  float* blocked = floats(g.batch * blocks_of(g.in_channels) * kChannelBlock * g.in_area(), scratch);
  float* blocked_out = floats(g.batch * blocks_of(g.out_channels) * kChannelBlock * g.out_area(), scratch);
  pack_winograd_weight(g, m, weight, is_turned, packed, scratch);
  to_blocked(g.batch, g.in_channels, g.in_area(), data, blocked);
  convolution_winograd(g, m, blocked, packed, {.bias = bias}, blocked_out, scratch);
  from_blocked(g.batch, g.out_channels, g.out_area(), blocked_out, out);
}

}  // namespace gluino::kernels
