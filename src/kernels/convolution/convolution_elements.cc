#include "kernels/convolution/convolution_elements.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/convolution/seen_outputs.h"
#include "kernels/gemm/costs.h"
#include "kernels/gemm/gemm_tiles.h"

namespace gluino::kernels {
namespace {

constexpr int64_t kNearWeights = 4096;  // of a tile's rows, over a block of terms and all elements: they stay in the first-level cache
constexpr int64_t kMostDepth = 256;     // terms of a block
constexpr int64_t kWideRows = 448;      // neighbouring numbers of the weight that are taken together

// Positions are numbered (y, x, image): what an element of the window sees are runs of them.
struct Run {
  int64_t out, in, length;
};
struct Element {
  std::vector<Run> runs;
  int64_t columns = 0;  // positions seen
  int64_t panels() const { return (columns + kTileColumns - 1) / kTileColumns; }
};
std::vector<Element> elements_of(const ConvGeometry& g) {
  std::vector<Element> elements;
  for (int64_t t = 0; t < g.kernel_area(); ++t) {
    const SeenOutputs down = seen_outputs(g, 0, t / g.kernel[1]), right = seen_outputs(g, 1, t % g.kernel[1]);
    Element e;
    const int64_t step = g.stride[1] == 1 ? std::max<int64_t>(right.count(), 1) : 1;  // outputs whose data are neighbours
    for (int64_t y = down.first; y < down.last; ++y)
      for (int64_t x = right.first; x < right.last; x += step) {
        const int64_t in = (y * g.stride[0] + down.offset) * g.in[1] + x * g.stride[1] + right.offset;
        e.runs.push_back({(y * g.out[1] + x) * g.batch, in * g.batch, step * g.batch});
        e.columns += step * g.batch;
      }
    elements.push_back(std::move(e));
  }
  return elements;
}

// (channels, positions) of (images, channels, area).
void to_positions(int64_t images, int64_t channels, int64_t area, const float* plain, float* positions) {
  for (int64_t n = 0; n < images; ++n)
    for (int64_t c = 0; c < channels; ++c, plain += area)
      for (int64_t p = 0; p < area; ++p) positions[(c * area + p) * images + n] = plain[p];
}

// A sum of products over all elements: result[row] gets weight[row, term, element] * factor[term] at the positions that the element
// connects.
struct Products {
  int64_t rows, terms, row_step, term_step;  // of the weight
  const float* weight;
  int64_t Run::*from;
  int64_t Run::*to;
  int64_t from_positions, to_positions;
};

// Brings what will be needed near, a little at a time: `lines` lines for each of `count` rows.
class Fetcher {
 public:
  Fetcher(const float* from, int64_t count, int64_t step, int64_t floats)
      : from_(from), step_(step), count_(count), lines_((floats + kLine - 1) / kLine) {}
  void advance(int64_t lines) {
    for (; lines > 0 && row_ < count_; --lines) {
      __builtin_prefetch(from_ + row_ * step_ + line_ * kLine, 0, 2);
      if (++line_ == lines_) line_ = 0, ++row_;
    }
  }

 private:
  const float* from_;
  int64_t step_, count_, lines_, row_ = 0, line_ = 0;
};

int64_t all_panels(const std::vector<Element>& elements) {
  int64_t panels = 0;
  for (const Element& e : elements) panels += e.panels();
  return panels;
}

// For each element (panels, terms, columns of a panel).
float* gather(const Products& s, const std::vector<Element>& elements, const float* factor, const Scratch& scratch) {
  const int64_t panels = all_panels(elements), panel = s.terms * kTileColumns;
  float* result = floats(panels * panel, scratch);
  parallel_for(s.terms, kParallelGrain / (panels * kTileColumns + 1), [&](int64_t begin, int64_t end) {
    std::vector<float> row(panels * kTileColumns, 0.0f);
    for (int64_t term = begin; term < end; ++term) {
      int64_t column = 0;
      for (const Element& e : elements) {
        float* to = row.data() + column;
        for (const Run& run : e.runs) to = std::copy_n(factor + term * s.from_positions + run.*s.from, run.length, to);
        column += e.panels() * kTileColumns;
      }
      for (int64_t p = 0; p < panels; ++p)
        std::memcpy(result + p * panel + term * kTileColumns, row.data() + p * kTileColumns, kTileColumns * sizeof(float));
    }
  });
  return result;
}

// How many terms and rows are taken at a time. Where a term's weights of neighbouring rows stand together, many rows are, and their
// weights are copied: so far apart from term to term they would share a few sets of the cache.
struct Blocks {
  int64_t depth, rows, width;  // width: of a row of sums, a panel for each of every element's
  bool is_copied;
  Blocks(const Products& s, const std::vector<Element>& elements)
      : width(all_panels(elements) * kTileColumns), is_copied(s.row_step < s.term_step) {
    const auto taps = static_cast<int64_t>(elements.size());
    depth = std::clamp<int64_t>(kNearWeights / (kTileRows * taps), 8, kMostDepth);
    rows = (is_copied ? std::clamp<int64_t>(kWideRows / (kTileRows * taps), 1, 16) : 1) * kTileRows;
    copied = is_copied ? depth * rows * taps : 0;
  }
  int64_t copied;
};

// result[rows, to_positions] for rows [first, first + count).
void multiply_rows(const Products& s, const Blocks& blocks, const std::vector<Element>& elements, const float* factors, int64_t first,
                   int64_t count, float* memory, float* result) {
  const auto taps = static_cast<int64_t>(elements.size());
  const int64_t tiles = (count + kTileRows - 1) / kTileRows, panel = s.terms * kTileColumns;
  float *copy = memory, *sums = memory + blocks.copied;
  for (int64_t term = 0; term < s.terms; term += blocks.depth) {
    const int64_t terms = std::min(blocks.depth, s.terms - term), next = std::min(blocks.depth, s.terms - term - terms);
    const float *weight = s.weight + first * s.row_step + term * s.term_step, *ahead = weight + terms * s.term_step;
    int64_t row_step = s.row_step, term_step = s.term_step;
    if (blocks.is_copied) {
      term_step = count * taps;
      for (int64_t i = 0; i < terms; ++i) std::copy_n(weight + i * s.term_step, term_step, copy + i * term_step);
      weight = copy;
    }
    Fetcher fetcher = blocks.is_copied ? Fetcher(ahead, next, s.term_step, count * taps) : Fetcher(ahead, count, s.row_step, next * taps);
    const int64_t fetched =
        1 + (count * terms * taps / kLine + count + terms) * kTileColumns / (tiles * std::max<int64_t>(blocks.width, 1));
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = count * t / tiles, rows = count * (t + 1) / tiles - row;
      const float* b = factors + term * kTileColumns;
      float* c = sums + row * blocks.width;
      for (int64_t e = 0; e < taps; ++e)
        for (int64_t p = 0; p < elements[e].panels(); ++p, b += panel, c += kTileColumns) {
          gemm_table().columns(rows, kTileColumns, terms, weight + row * row_step + e, row_step, term_step, b, kTileColumns, 0, nullptr, c,
                               blocks.width, {term ? TileStart::output : TileStart::zero, false});
          fetcher.advance(fetched);
        }
    }
  }
  std::fill_n(result + first * s.to_positions, count * s.to_positions, 0.0f);
  for (int64_t row = 0; row < count; ++row) {
    const float* c = sums + row * blocks.width;
    float* to = result + (first + row) * s.to_positions;
    for (const Element& e : elements) {
      const float* from = c;
      for (const Run& run : e.runs)
        for (int64_t i = 0; i < run.length; ++i) to[run.*s.to + i] += *from++;
      c += e.panels() * kTileColumns;
    }
  }
}

// (rows, positions) of the result.
float* multiply(const Products& s, const std::vector<Element>& elements, const float* factor, const Scratch& scratch) {
  const Blocks blocks(s, elements);
  const float* factors = gather(s, elements, factor, scratch);
  float* result = floats(s.rows * s.to_positions, scratch);
  ScratchBuffers buffers(num_threads(), blocks.copied + blocks.rows * blocks.width, scratch);
  const int64_t parts = (s.rows + blocks.rows - 1) / blocks.rows, work = blocks.rows * s.terms * std::max<int64_t>(blocks.width, 1);
  parallel_for(parts, kGrain / work, [&](int64_t begin, int64_t end) {
    buffers.use([&](float* memory) {
      for (int64_t i = begin; i < end; ++i)
        multiply_rows(s, blocks, elements, factors, i * blocks.rows, std::min(blocks.rows, s.rows - i * blocks.rows), memory, result);
    });
  });
  return result;
}

}  // namespace

void convolution_elements(const ConvGeometry& g, const float* data, const float* weight, const float* bias, float* out,
                          const Scratch& scratch) {
  const int64_t taps = g.kernel_area(), in = g.batch * g.in_area(), area = g.out_area();
  float* positions = floats(g.in_channels * in, scratch);
  to_positions(g.batch, g.in_channels, g.in_area(), data, positions);
  const Products s{g.out_channels, g.in_channels, g.in_channels * taps, taps, weight, &Run::in, &Run::out, in, g.batch * area};
  const float* sums = multiply(s, elements_of(g), positions, scratch);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t o = 0; o < g.out_channels; ++o) {
      const float shift = bias ? bias[o] : 0.0f;
      for (int64_t p = 0; p < area; ++p) *out++ = sums[(o * area + p) * g.batch + n] + shift;
    }
}

void elements_data_grad(const ConvGeometry& g, const float* head, const float* weight, float* data_grad, const Scratch& scratch) {
  const int64_t taps = g.kernel_area(), area = g.in_area(), out = g.batch * g.out_area();
  float* positions = floats(g.out_channels * out, scratch);
  to_positions(g.batch, g.out_channels, g.out_area(), head, positions);
  const Products s{g.in_channels, g.out_channels, taps, g.in_channels * taps, weight, &Run::out, &Run::in, out, g.batch * area};
  const float* sums = multiply(s, elements_of(g), positions, scratch);
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t c = 0; c < g.in_channels; ++c)
      for (int64_t p = 0; p < area; ++p) *data_grad++ = sums[(c * area + p) * g.batch + n];
}

}  // namespace gluino::kernels
