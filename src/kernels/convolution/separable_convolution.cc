#include "kernels/convolution/separable_convolution.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/parallel.h"
#include "kernels/convolution/blocked_layout.h"
#include "kernels/convolution/separable_tiles.h"
#include "kernels/isa/primitives.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(SeparableTable, kSeparableTable, separable_table)

namespace {

constexpr int64_t kMostRows = 16;      // of a window
constexpr int64_t kCached = 48 << 10;  // floats between the layers that stay in the second-level cache

// Rows of blocked data: row y of block b is data + b * block + y % slots * row.
struct RowRing {
  float* data;
  int64_t slots, row, block;
  float* at(int64_t b, int64_t y) const { return data + b * block + y % slots * row; }
};

class Bands {
 public:
  Bands(const SeparableCall& call, const float* data, float* out)
      : call_(call), g_(call.depthwise), data_(data), out_(out), blocks_(blocks_of(g_.out_channels)) {
    const int64_t in_row = g_.in[1] * kChannelBlock * blocks_, out_row = g_.out[1] * kChannelBlock * blocks_;
    // So many rows of outputs at a time that everything between the layers stays in the cache.
    const int64_t a_row = (call.expand.weight ? g_.stride[0] * in_row : 0) + (call.project.weight ? out_row : 0);
    const int64_t at_least = call.expand.weight ? (g_.kernel[0] - g_.stride[0]) * in_row : 0;
    rows_ = std::clamp<int64_t>((kCached - at_least) / std::max<int64_t>(a_row, 1), 1, g_.out[0]);
    slots_ = (rows_ - 1) * g_.stride[0] + g_.kernel[0];
    biases_ = {padded_bias(call.expand.bias, g_.out_channels), padded_bias(call.middle.bias, g_.out_channels),
               padded_bias(call.project.bias, call.out_channels)};
  }

  int64_t expanded_elements() const { return call_.expand.weight ? slots_ * g_.in[1] * kChannelBlock * blocks_ : 0; }
  int64_t buffer_elements() const { return expanded_elements() + (call_.project.weight ? rows_ * g_.out[1] * kChannelBlock * blocks_ : 0); }

  // Rows [begin, end) of the outputs of image n.
  void run(int64_t n, int64_t begin, int64_t end, float* buffer) const {
    const int64_t in_row = g_.in[1] * kChannelBlock, out_row = g_.out[1] * kChannelBlock;
    const float* image = data_ + n * blocks_of(call_.in_channels) * g_.in[0] * in_row;
    const bool expands = call_.expand.weight, projects = call_.project.weight;
    const RowRing seen = expands ? RowRing{buffer, slots_, in_row, slots_ * in_row}
                                 : RowRing{const_cast<float*>(image), g_.in[0], in_row, g_.in[0] * in_row};
    float* result = out_ + n * blocks_of(call_.out_channels) * g_.out[0] * out_row;
    for (int64_t y = begin, ready = 0; y < end; y += rows_) {
      const int64_t rows = std::min(rows_, end - y);
      if (expands) {
        const int64_t top = std::max<int64_t>(y * g_.stride[0] - g_.pad[0], 0);
        const int64_t bottom = std::min((y + rows - 1) * g_.stride[0] - g_.pad[0] + g_.kernel[0], g_.in[0]);
        expand(image, std::max(top, ready), bottom, seen);
        ready = std::max(ready, bottom);
      }
      const RowRing between = projects ? RowRing{buffer + expanded_elements(), rows_, out_row, rows_ * out_row}
                                       : RowRing{result + y * out_row, g_.out[0], out_row, g_.out[0] * out_row};
      for (int64_t b = 0; b < blocks_; ++b)
        for (int64_t r = 0; r < rows; ++r) depthwise_row(b, y + r, seen, between.at(b, r));
      if (projects) project(rows * g_.out[1], between, result + y * out_row);
    }
  }

 private:
  void expand(const float* image, int64_t begin, int64_t end, const RowRing& to) const {
    for (int64_t y = begin, here; y < end; y += here) {
      here = std::min(end - y, to.slots - y % to.slots);  // rows that follow each other in the ring
      separable_table().pointwise({.pixels = here * g_.in[1],
                                   .in_blocks = blocks_of(call_.in_channels),
                                   .out_blocks = blocks_,
                                   .data = image + y * to.row,
                                   .data_block = g_.in[0] * to.row,
                                   .weight = call_.expand.weight,
                                   .bias = biases_[0].data(),
                                   .added = nullptr,
                                   .out = to.at(0, y),
                                   .out_block = to.block,
                                   .relu = call_.expand.relu,
                                   .limit = call_.expand.limit});
    }
  }

  void depthwise_row(int64_t block, int64_t y, const RowRing& seen, float* to) const {
    const float* rows[kMostRows];
    const int64_t top = y * g_.stride[0] - g_.pad[0];
    const int64_t first = std::max<int64_t>(-top, 0), last = std::min(g_.kernel[0], g_.in[0] - top);
    for (int64_t k = first; k < last; ++k) rows[k - first] = seen.at(block, top + k);
    separable_table().depthwise({.columns = g_.out[1],
                                 .in_columns = g_.in[1],
                                 .kernel_width = g_.kernel[1],
                                 .stride = g_.stride[1],
                                 .pad = g_.pad[1],
                                 .rows = last - first,
                                 .data = rows,
                                 .weight = call_.middle.weight + (block * g_.kernel[0] + first) * g_.kernel[1] * kChannelBlock,
                                 .bias = biases_[1].data() + block * kChannelBlock,
                                 .out = to,
                                 .relu = call_.middle.relu,
                                 .limit = call_.middle.limit});
  }

  // `to` is a row of out_.
  void project(int64_t pixels, const RowRing& from, float* to) const {
    separable_table().pointwise({.pixels = pixels,
                                 .in_blocks = blocks_,
                                 .out_blocks = blocks_of(call_.out_channels),
                                 .data = from.data,
                                 .data_block = from.block,
                                 .weight = call_.project.weight,
                                 .bias = biases_[2].data(),
                                 .added = call_.added ? call_.added + (to - out_) : nullptr,
                                 .out = to,
                                 .out_block = g_.out_area() * kChannelBlock,
                                 .relu = call_.project.relu,
                                 .limit = call_.project.limit});
  }

  const SeparableCall& call_;
  const ConvGeometry& g_;
  const float* data_;
  float* out_;
  int64_t blocks_, rows_, slots_;
  std::array<std::vector<float>, 3> biases_;  // of the three layers
};

}  // namespace

bool is_pointwise(const ConvGeometry& g) {
  return g.rank == 2 && g.groups == 1 && g.kernel_area() == 1 && g.stride[0] == 1 && g.stride[1] == 1 && g.pad[0] == 0 && g.pad[1] == 0;
}

bool can_be_separable_middle(const ConvGeometry& g) {
  return g.rank == 2 && g.is_depthwise() && g.groups % kChannelBlock == 0 && g.dilate[0] == 1 && g.dilate[1] == 1 &&
         g.kernel[0] <= kMostRows && g.pad[0] < g.kernel[0] && g.pad[1] < g.kernel[1];
}

void convolution_separable(const SeparableCall& call, const float* data, float* out, const Scratch& scratch) {
  const ConvGeometry& g = call.depthwise;
  const Bands bands(call, data, out);
  // A band for each thread: at its edges rows are expanded twice.
  const int64_t threads = num_threads(), a_image = g.batch >= threads ? 1 : std::min(threads, g.out[0]), count = g.batch * a_image;
  ScratchBuffers buffers(std::min(threads, count), bands.buffer_elements(), scratch);
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    buffers.use([&](float* buffer) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t band = i % a_image;
        bands.run(i / a_image, g.out[0] * band / a_image, g.out[0] * (band + 1) / a_image, buffer);
      }
    });
  });
}

}  // namespace gluino::kernels
