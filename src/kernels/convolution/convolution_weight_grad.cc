#include "kernels/convolution/convolution_weight_grad.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/convolution/blocked_layout.h"
#include "kernels/convolution/blocked_patches.h"
#include "kernels/convolution/seen_outputs.h"
#include "kernels/convolution/weight_grad_tiles.h"
#include "kernels/convolution/winograd_transforms.h"
#include "kernels/gemm/costs.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(WeightGradTable, kWeightGradTable, weight_grad_table)

namespace {

constexpr int64_t kTileRows = 6;           // what WeightGradTable::multiply takes at once
constexpr int64_t kStripFloats = 1 << 16;  // factors that are prepared at a time,
constexpr int64_t kStripTerms = 32;        // or so many terms: with fewer, the way into the weight takes too long
constexpr int64_t kNearFloats = 1 << 13;   // factors that stay in the first-level cache
constexpr int64_t kBlocksInRows = kGradRows / kChannelBlock, kBlocksInPanel = kGradColumns / kChannelBlock;

// Places of the outputs are taken in units: tiles, or whole lines where there are no tiles. The images are taken in chunks, and a strip
// of units is prepared at a time: all of a chunk's, or a part of those of one image.
struct Layout {
  int64_t tile, points, taps, tile_rows, tile_columns, image_units, in_blocks, out_blocks, row_blocks, panels, unit_terms, images, strip;
  Layout(const ConvGeometry& g, int64_t edge)
      : tile(edge),
        points(edge ? (edge + 2) * (edge + 2) : g.kernel_area()),
        taps(g.kernel_area()),
        tile_rows(edge ? (g.out[0] + edge - 1) / edge : g.out[0]),
        tile_columns(edge ? (g.out[1] + edge - 1) / edge : 1),
        image_units(tile_rows * tile_columns),
        in_blocks(blocks_of(g.in_channels)),
        out_blocks(blocks_of(g.out_channels)),
        row_blocks((g.in_channels + kGradRows - 1) / kGradRows),
        panels((g.out_channels + kGradColumns - 1) / kGradColumns),
        unit_terms(edge ? 1 : g.out[1]) {
    const int64_t terms = std::max(kStripTerms, kStripFloats / (points * (row_blocks * kGradRows + panels * kGradColumns)));
    const int64_t most = (terms + unit_terms - 1) / unit_terms;  // units
    images = std::clamp<int64_t>(most / image_units, 1, g.batch);
    const int64_t strips = images > 1 ? 1 : (image_units + most - 1) / most;
    strip = images > 1 ? images * image_units : (image_units + strips - 1) / strips;
  }
  int64_t data_step() const { return strip * unit_terms * row_blocks * kGradRows + kLine; }
  int64_t head_step() const { return strip * unit_terms * panels * kGradColumns + kLine; }
  // Sums are (points, rows) where they are transformed, else (rows, points) as in the weight; each is a panel wide.
  int64_t row_step() const { return (tile ? 1 : points) * kGradColumns; }
  int64_t sum_step() const { return tile ? kGradRows * kGradColumns + kLine : kGradColumns; }
  int64_t sums() const { return std::max(points * sum_step(), kGradRows * row_step()); }
  const WinogradTransforms& transforms() const { return tile == 2 ? winograd_table().tiles_of_2 : winograd_table().tiles_of_4; }
};

// Where the vector of a block of channels stands among the factors of a product over so many terms.
int64_t data_place(int64_t block, int64_t term, int64_t terms) {
  return (block / kBlocksInRows * terms + term) * kGradRows + block % kBlocksInRows * kChannelBlock;
}
int64_t head_place(int64_t block, int64_t term, int64_t terms) {
  return (block / kBlocksInPanel * terms + term) * kGradColumns + block % kBlocksInPanel * kChannelBlock;
}

void copy_vectors(int64_t count, const float* from, int64_t from_step, float* to, int64_t to_step) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, kChannelBlock * sizeof(float));
}

// The factors of one strip, from blocked data and head.
class Strip {
 public:
  Strip(const ConvGeometry& g, const Layout& l, const Scratch& scratch)
      : g_(g),
        l_(l),
        data_(floats(l.points * l.data_step(), scratch)),
        head_(floats(l.points * l.head_step(), scratch)),
        factors_(static_cast<size_t>(l.points)) {
    if (l.out_blocks % kBlocksInPanel) std::fill_n(head_, l.points * l.head_step(), 0.0f);  // the half of a panel that no channel has
  }
  void fill(int64_t first, int64_t count, const float* data, const float* head) {
    const int64_t work = l_.unit_terms * (l_.in_blocks + l_.out_blocks) * kChannelBlock * 5;
    for (int64_t p = 0; p < l_.points; ++p) factors_[p] = {data_ + p * l_.data_step(), head_ + p * l_.head_step(), count};
    if (l_.tile)
      parallel_for(count, kGrain / (l_.points * work), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) transform_tile(first + t, t, count, data, head);
      });
    else
      parallel_for(l_.points, kGrain / (count * work), [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) gather_element(p, first, count, data, head);
      });
  }
  const GradFactors* factors() const { return factors_.data(); }

 private:
  void transform_tile(int64_t unit, int64_t term, int64_t terms, const float* data, const float* head) {
    const int64_t image = unit / l_.image_units, y = unit / l_.tile_columns % l_.tile_rows * l_.tile, x = unit % l_.tile_columns * l_.tile;
    for (int64_t b = 0; b < l_.in_blocks; ++b)
      with_patch(data + (image * l_.in_blocks + b) * g_.in_area() * kChannelBlock, g_.in, y - g_.pad[0], x - g_.pad[1], l_.tile + 2,
                 [&](const float* patch, int64_t row_step) {
                   l_.transforms().input(patch, row_step, data_ + data_place(b, term, terms), l_.data_step());
                 });
    for (int64_t b = 0; b < l_.out_blocks; ++b)
      with_patch(head + (image * l_.out_blocks + b) * g_.out_area() * kChannelBlock, g_.out, y, x, l_.tile,
                 [&](const float* patch, int64_t row_step) {
                   l_.transforms().head(patch, row_step, head_ + head_place(b, term, terms), l_.head_step());
                 });
  }

  // What the outputs of lines [first, first + count) see under one element of the window. Those that see padding are left out.
  void gather_element(int64_t point, int64_t first, int64_t count, const float* data, const float* head) {
    const SeenOutputs down = seen_outputs(g_, 0, point / g_.kernel[1]), right = seen_outputs(g_, 1, point % g_.kernel[1]);
    const auto is_seen = [&](int64_t line) { return line % g_.out[0] >= down.first && line % g_.out[0] < down.last; };
    const int64_t columns = right.count();
    GradFactors& f = factors_[point];
    f.terms = 0;
    for (int64_t line = first; line < first + count; ++line) f.terms += is_seen(line) ? columns : 0;
    int64_t term = 0;
    for (int64_t line = first; line < first + count; ++line) {
      if (!is_seen(line)) continue;
      const int64_t image = line / g_.out[0], y = line % g_.out[0], in_row = y * g_.stride[0] + down.offset;
      for (int64_t b = 0; b < l_.in_blocks; ++b) {
        const int64_t row = ((image * l_.in_blocks + b) * g_.in[0] + in_row) * g_.in[1];
        copy_vectors(columns, data + (row + right.first * g_.stride[1] + right.offset) * kChannelBlock, g_.stride[1] * kChannelBlock,
                     data_ + point * l_.data_step() + data_place(b, term, f.terms), kGradRows);
      }
      for (int64_t b = 0; b < l_.out_blocks; ++b) {
        const int64_t row = ((image * l_.out_blocks + b) * g_.out[0] + y) * g_.out[1];
        copy_vectors(columns, head + (row + right.first) * kChannelBlock, kChannelBlock,
                     head_ + point * l_.head_step() + head_place(b, term, f.terms), kGradColumns);
      }
      term += columns;
    }
  }

  const ConvGeometry& g_;
  const Layout& l_;
  float *data_, *head_;
  std::vector<GradFactors> factors_;
};

// All points of one block of input channels and one panel of output channels.
void multiply(const Layout& l, const GradFactors* factors, int64_t block, int64_t rows, int64_t panel, float* sums) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows, most = l.strip * l.unit_terms * (kGradRows + kGradColumns);
  const int64_t together = std::clamp<int64_t>(kNearFloats / most, 1, l.points);
  for (int64_t p = 0; p < l.points; p += together)
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = rows * t / tiles;
      weight_grad_table().multiply(rows * (t + 1) / tiles - row, std::min(together, l.points - p), factors + p, block, row, panel,
                                   sums + p * l.sum_step() + row * l.row_step(), l.row_step(), l.sum_step());
    }
}

// `windows` is for the block's windows.
void store_sums(const ConvGeometry& g, const Layout& l, int64_t block, int64_t panel, const float* sums, float* windows, bool add,
                float* weight_grad) {
  const auto store = add ? block_table().add_block : block_table().from_block;
  const int64_t row = block * kGradRows, rows = std::min(kGradRows, g.in_channels - row), column = panel * kGradColumns;
  for (int64_t c = 0; c < std::min(kGradColumns, g.out_channels - column); c += kChannelBlock) {
    for (int64_t r = 0; l.tile && r < rows; ++r)
      l.transforms().window(sums + r * l.row_step() + c, l.sum_step(), windows + r * l.taps * kChannelBlock);
    store(std::min(kChannelBlock, g.out_channels - column - c), rows * l.taps, l.tile ? windows : sums + c,
          l.tile ? kChannelBlock : kGradColumns, weight_grad + ((column + c) * g.in_channels + row) * l.taps, g.in_channels * l.taps);
  }
}

}  // namespace

bool can_run_grad_products(const ConvGeometry& g) { return g.rank == 2 && !g.channels_last && g.groups == 1; }

double grad_products_cost(const ConvGeometry& g, int64_t tile) {
  const Layout l(g, tile);
  const double terms = tile ? static_cast<double>(l.points * g.batch * l.image_units)
                            : static_cast<double>(l.points * g.batch * g.out_area()) * seen_share(g);
  // What it takes to prepare a number of a factor, and to bring a strip's sum into the weight.
  const double prepare = tile ? 5 : 3, finish = 5;
  const int64_t strips = (g.batch + l.images - 1) / l.images * ((l.images * l.image_units + l.strip - 1) / l.strip);
  const auto rows = static_cast<double>(g.in_channels), columns = static_cast<double>(l.panels * kGradColumns);
  return terms * (rows * columns + prepare * (rows + columns)) + finish * static_cast<double>(l.points * strips) * rows * columns;
}

void products_weight_grad(const ConvGeometry& g, int64_t tile, const float* head, const float* data, float* weight_grad,
                          const Scratch& scratch) {
  const Layout l(g, tile);
  const int64_t data_image = g.in_channels * g.in_area(), head_image = g.out_channels * g.out_area();
  float* blocked_data = floats(l.images * l.in_blocks * kChannelBlock * g.in_area(), scratch);
  float* blocked_head = floats(l.images * l.out_blocks * kChannelBlock * g.out_area(), scratch);
  Strip strip(g, l, scratch);
  ScratchBuffers buffers(num_threads(), l.sums() + kGradRows * l.taps * kChannelBlock, scratch);
  for (int64_t image = 0; image < g.batch; image += l.images) {
    const int64_t images = std::min(l.images, g.batch - image);
    to_blocked(images, g.in_channels, g.in_area(), data + image * data_image, blocked_data);
    to_blocked(images, g.out_channels, g.out_area(), head + image * head_image, blocked_head);
    for (int64_t first = 0; first < images * l.image_units; first += l.strip) {
      const int64_t count = std::min(l.strip, images * l.image_units - first);
      strip.fill(first, count, blocked_data, blocked_head);
      const int64_t work = l.points * count * l.unit_terms * kGradRows * kGradColumns;
      parallel_for(l.panels * l.row_blocks, kGrain / work, [&](int64_t begin, int64_t end) {
        buffers.use([&](float* sums) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t panel = i / l.row_blocks, block = i % l.row_blocks;
            multiply(l, strip.factors(), block, std::min(kGradRows, g.in_channels - block * kGradRows), panel, sums);
            store_sums(g, l, block, panel, sums, sums + l.sums(), image + first > 0, weight_grad);
          }
        });
      });
    }
  }
}

}  // namespace gluino::kernels
