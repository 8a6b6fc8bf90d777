#include "kernels/pooling/pooling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/convolution/blocked_layout.h"
#include "kernels/isa/primitives.h"
#include "kernels/pooling/pooling_rows.h"
#include "kernels/reduce/reduce.h"

namespace gluino::kernels {

GLUINO_TABLE_FOR_CPU(PoolTable, kPoolTable, pool_table)

namespace {

// The part of a window that lies inside the data, and how many elements avg divides by.
struct Window {
  Spatial begin, end;
  int64_t divisor;
};

// How many elements of a window that starts at `begin` avg counts along one axis.
int64_t counted(const PoolGeometry& g, size_t axis, int64_t begin) {
  const int64_t end = std::min(begin + g.kernel[axis], g.in[axis] + g.pad[axis]);
  return g.count_include_pad ? end - begin : std::max<int64_t>(std::min(end, g.in[axis]) - std::max<int64_t>(begin, 0), 0);
}

Window window_at(const PoolGeometry& g, const Spatial& at) {
  Window w{.begin = {}, .end = {}, .divisor = 1};
  for (size_t i = 0; i < 3; ++i) {
    const int64_t begin = at[i] * g.stride[i] - g.pad[i];
    w.begin[i] = std::max<int64_t>(begin, 0);
    w.end[i] = std::min(begin + g.kernel[i], g.in[i]);
    w.divisor *= counted(g, i, begin);
  }
  return w;
}
Window window_at(const PoolGeometry& g, int64_t position) {
  const Spatial at{position / (g.out[1] * g.out[2]), position / g.out[2] % g.out[1], position % g.out[2]};
  return window_at(g, at);
}

// Calls f(offset) for the elements of a window in row-major order; offsets are positions times `unit`.
template <class F>
inline void for_window(const PoolGeometry& g, const Window& w, int64_t unit, F&& f) {
  for (int64_t z = w.begin[0]; z < w.end[0]; ++z)
    for (int64_t y = w.begin[1]; y < w.end[1]; ++y)
      for (int64_t x = w.begin[2]; x < w.end[2]; ++x) f(((z * g.in[1] + y) * g.in[2] + x) * unit);
}

// Calls f(data offset, out offset) for every (image, channel) plane, in parallel; `unit` is the distance of neighbours.
template <class F>
void for_each_plane(const PoolGeometry& g, F&& f) {
  const int64_t work = std::max<int64_t>(g.out_area() * g.kernel[0] * g.kernel[1] * g.kernel[2], 1);
  parallel_for(g.batch * g.channels, kParallelGrain / work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / g.channels, c = i % g.channels;
      if (g.channels_last)
        f(n * g.channels * g.in_area() + c, n * g.channels * g.out_area() + c);
      else
        f(i * g.in_area(), i * g.out_area());
    }
  });
}

// Windows of 2 x 2 side by side in the plain layout, the most common ones; in rows that fill a vector, unless there is nothing else to
// fill it with.
bool are_squares(const PoolGeometry& g) {
  if (g.out[2] < kChannelBlock && g.channels >= kChannelBlock) return false;
  return !g.channels_last && g.kind == PoolKind::max && g.kernel == Spatial{1, 2, 2} && g.stride == Spatial{1, 2, 2} &&
         g.pad == Spatial{0, 0, 0} && 2 * g.out[1] <= g.in[1] && 2 * g.out[2] <= g.in[2];
}
// Calls f with the offsets of their two rows of data and of their outputs.
template <class F>
void for_each_square_row(const PoolGeometry& g, F&& f) {
  for_each_plane(g, [&](int64_t from, int64_t to) {
    for (int64_t y = 0; y < g.out[0] * g.out[1]; ++y) {
      const int64_t top = from + (y / g.out[1] * g.in[1] + y % g.out[1] * 2) * g.in[2];
      f(top, top + g.in[2], to + y * g.out[2]);
    }
  });
}

// One window that is the whole plane: a reduction of it.
bool is_reduction(const PoolGeometry& g) {
  return !g.channels_last && g.kind != PoolKind::lp && g.kernel == g.in && g.out_area() == 1 && g.pad == Spatial{0, 0, 0};
}
template <class T>
void reduce_planes(const PoolGeometry& g, const T* data, T* out) {
  constexpr bool kIsReduced[] = {false, true};
  reduce(g.kind == PoolKind::max ? ReduceOp::max : ReduceOp::sum, g.kind == PoolKind::avg ? ReduceFinish::divide : ReduceFinish::none, data,
         dtype_of<T>, {g.batch * g.channels, g.in_area()}, kIsReduced, out, dtype_of<T>);
}
template <class T>
void reduce_planes_grad(const PoolGeometry& g, const T* head, const T* data, const T* values, T* data_grad) {
  const int64_t area = g.in_area();
  parallel_for(g.batch * g.channels, kParallelGrain / std::max<int64_t>(area, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* x = data + i * area;
      std::fill_n(data_grad + i * area, area,
                  g.kind == PoolKind::max   ? T(0)
                  : g.kind == PoolKind::avg ? head[i] / static_cast<T>(area)
                                            : head[i]);
      if (g.kind != PoolKind::max) continue;
      // The first one is looked for in blocks, whose elements are compared side by side.
      constexpr int64_t kBlock = 64;
      int64_t first = 0;
      for (bool found = false; first + kBlock <= area && !found; first += found ? 0 : kBlock)
        for (int64_t j = first; j < first + kBlock; ++j) found |= x[j] == values[i];
      while (first < area && x[first] != values[i]) ++first;
      if (first < area) data_grad[i * area + first] = head[i];
    }
  });
}

int64_t unit_of(const PoolGeometry& g) { return g.channels_last ? g.channels : 1; }

template <class T>
T power(T x, int p) {
  T result = 1;
  for (int i = 0; i < p; ++i) result *= x;
  return result;
}
template <class T>
T root(T x, int p) {
  return p == 1 ? x : p == 2 ? std::sqrt(x) : p == 3 ? std::cbrt(x) : std::pow(x, T(1) / static_cast<T>(p));
}

template <class T>
T pool_window(const PoolGeometry& g, const Window& w, int64_t unit, const T* x) {
  T result = g.kind == PoolKind::max ? std::numeric_limits<T>::lowest() : T(0);
  if (g.kind == PoolKind::max) {
    for_window(g, w, unit, [&](int64_t i) { result = x[i] > result || x[i] != x[i] ? x[i] : result; });
  } else if (g.kind == PoolKind::lp) {
    for_window(g, w, unit, [&](int64_t i) { result += power(std::abs(x[i]), g.p); });
    result = root(result, g.p);
  } else {
    for_window(g, w, unit, [&](int64_t i) { result += x[i]; });
    if (g.kind == PoolKind::avg) result /= static_cast<T>(std::max<int64_t>(w.divisor, 1));
  }
  return result;
}

// The first element of the window that equals the pooled value; -1 for an empty window.
template <class T>
int64_t chosen(const PoolGeometry& g, const Window& w, int64_t unit, const T* x, T value) {
  int64_t found = -1;
  for_window(g, w, unit, [&](int64_t i) {
    if (found < 0 && x[i] == value) found = i;
  });
  return found;
}

// For one row of outputs whose windows start at plane z0 and row y0: calls f(first, last, source) for every tap of the window,
// where outputs first .. last - 1 read source[output * stride].
template <class T, class F>
void for_row_taps(const PoolGeometry& g, const T* x, int64_t z0, int64_t y0, F&& f) {
  const int64_t width = g.in[2], s = g.stride[2];
  for (int64_t z = std::max<int64_t>(z0, 0); z < std::min(z0 + g.kernel[0], g.in[0]); ++z)
    for (int64_t y = std::max<int64_t>(y0, 0); y < std::min(y0 + g.kernel[1], g.in[1]); ++y)
      for (int64_t tap = 0; tap < g.kernel[2]; ++tap) {
        const int64_t shift = tap - g.pad[2];
        const int64_t first = shift < 0 ? (-shift + s - 1) / s : 0,
                      last = shift >= width ? 0 : std::min(g.out[2], (width - 1 - shift) / s + 1);
        f(first, last, x + (z * g.in[1] + y) * width + shift);
      }
}

// One row of outputs of max, sum or avg at once.
template <class T>
void pool_row(const PoolGeometry& g, const T* x, T* out, int64_t z0, int64_t y0) {
  const int64_t s = g.stride[2];
  if (g.kind == PoolKind::max) {
    std::fill_n(out, g.out[2], std::numeric_limits<T>::lowest());
    return for_row_taps(g, x, z0, y0, [&](int64_t first, int64_t last, const T* row) {
      for (int64_t o = first; o < last; ++o) {
        const T v = row[o * s];
        out[o] = ((v > out[o]) | (v != v)) ? v : out[o];
      }
    });
  }
  std::fill_n(out, g.out[2], T(0));
  for_row_taps(g, x, z0, y0, [&](int64_t first, int64_t last, const T* row) {
    for (int64_t o = first; o < last; ++o) out[o] += row[o * s];
  });
  if (g.kind == PoolKind::sum) return;
  const int64_t outer = counted(g, 0, z0) * counted(g, 1, y0);
  for (int64_t o = 0; o < g.out[2]; ++o) out[o] /= static_cast<T>(std::max<int64_t>(outer * counted(g, 2, o * s - g.pad[2]), 1));
}

// Max, sum or avg of as many neighbouring channels as V holds: one number or a vector of them.
template <class V, class T>
void pool_lanes(const PoolGeometry& g, const Window& w, const T* x, T* out) {
  const bool is_max = g.kind == PoolKind::max;
  V acc = V{} + (is_max ? std::numeric_limits<T>::lowest() : T(0)), v;
  for (int64_t z = w.begin[0]; z < w.end[0]; ++z)
    for (int64_t y = w.begin[1]; y < w.end[1]; ++y) {
      const T* row = x + (z * g.in[1] + y) * g.in[2] * g.channels;
      for (int64_t i = w.begin[2]; i < w.end[2]; ++i) {
        std::memcpy(&v, row + i * g.channels, sizeof v);
        acc = is_max ? (((v > acc) | (v != v)) ? v : acc) : acc + v;
      }
    }
  if (g.kind == PoolKind::avg) acc /= static_cast<T>(std::max<int64_t>(w.divisor, 1));
  std::memcpy(out, &acc, sizeof acc);
}

// Outputs of one row whose windows are as wide as the kernel.
struct WholeWindows {
  int64_t first, last;
};
WholeWindows whole_windows(const PoolGeometry& g) {
  const int64_t s = g.stride[2], room = g.in[2] + g.pad[2] - g.kernel[2];
  const int64_t first = std::min((g.pad[2] + s - 1) / s, g.out[2]);
  return {first, std::clamp(room < 0 ? 0 : room / s + 1, first, g.out[2])};
}

// Cuts a row of outputs into parts whose windows have one size, for two spatial axes and channels that are neighbours: calls
// f(row, place of the first window in the image, place of the first output in the row).
template <class F>
void for_row_parts(const PoolGeometry& g, int64_t y, F&& f) {
  const WholeWindows whole = whole_windows(g);
  const auto part = [&](int64_t first, int64_t last) {
    if (first == last) return;
    const Window w = window_at(g, Spatial{0, y, first});
    const PoolRow row{.count = last - first,
                      .height = std::max<int64_t>(w.end[1] - w.begin[1], 0),
                      .width = std::max<int64_t>(w.end[2] - w.begin[2], 0),
                      .row_step = g.in[2] * g.channels,
                      .tap_step = g.channels,
                      .window_step = g.stride[2] * g.channels,
                      .out_step = g.channels,
                      .divisor = g.kind == PoolKind::avg ? static_cast<float>(std::max<int64_t>(w.divisor, 1)) : 1.0f};
    f(row, (w.begin[1] * g.in[2] + w.begin[2]) * g.channels, first * g.channels);
  };
  for (int64_t x = 0; x < whole.first; ++x) part(x, x + 1);
  part(whole.first, whole.last);
  for (int64_t x = whole.last; x < g.out[2]; ++x) part(x, x + 1);
}

// One row of outputs in vectors of 8 channels.
void pool_row_of_vectors(const PoolGeometry& g, int64_t y, const float* image, float* out) {
  const auto pool_vector = g.kind == PoolKind::max ? pool_table().max : pool_table().sum;
  for_row_parts(g, y, [&](const PoolRow& row, int64_t from, int64_t to) {
    for (int64_t c = 0; c < g.channels; c += kChannelBlock) pool_vector(row, image + from + c, out + to + c);
  });
}

bool has_one_plane(const PoolGeometry& g) { return g.in[0] == 1 && g.out[0] == 1 && g.pad[0] == 0; }

// In the plain layout, windows that do not start side by side: 8 channels are brought together first.
bool are_pooled_in_blocks(const PoolGeometry& g) {
  return !g.channels_last && g.kind != PoolKind::lp && g.stride[2] > 1 && g.channels >= kChannelBlock && has_one_plane(g);
}
// Calls f(geometry of a block, its number of channels, offset in the data, offset in the output, memory for `vectors` vectors).
template <class F>
void for_each_block(const PoolGeometry& g, int64_t vectors, F&& f) {
  PoolGeometry block = g;
  block.channels = kChannelBlock;
  block.channels_last = true;
  const int64_t blocks = blocks_of(g.channels), work = g.out[1] * g.out[2] * g.kernel[1] * g.kernel[2] * kChannelBlock;
  parallel_for(g.batch * blocks, kParallelGrain / std::max<int64_t>(work, 1) + 1, [&](int64_t begin, int64_t end) {
    const auto memory = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(vectors * kChannelBlock));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kChannelBlock, plane = i / blocks * g.channels + first;
      f(block, std::min(kChannelBlock, g.channels - first), plane * g.in_area(), plane * g.out_area(), memory.get());
    }
  });
}

void pool_in_blocks(const PoolGeometry& g, const float* data, float* out) {
  const int64_t in = g.in_area(), area = g.out_area();
  for_each_block(g, in + area, [&](const PoolGeometry& block, int64_t channels, int64_t from, int64_t to, float* x) {
    float* y = x + in * kChannelBlock;
    block_table().to_block(channels, in, data + from, x);
    for (int64_t r = 0; r < g.out[1]; ++r) pool_row_of_vectors(block, r, x, y + r * g.out[2] * kChannelBlock);
    block_table().from_block(channels, area, y, kChannelBlock, out + to, area);
  });
}

void max_grad_in_blocks(const PoolGeometry& g, const float* head, const float* data, const float* values, float* data_grad) {
  const int64_t in = g.in_area(), area = g.out_area();
  for_each_block(g, 2 * (in + area), [&](const PoolGeometry& block, int64_t channels, int64_t to, int64_t from, float* x) {
    float *dx = x + in * kChannelBlock, *y = dx + in * kChannelBlock, *dy = y + area * kChannelBlock;
    block_table().to_block(channels, in, data + to, x);
    block_table().to_block(channels, area, values + from, y);
    block_table().to_block(channels, area, head + from, dy);
    std::fill_n(dx, in * kChannelBlock, 0.0f);
    for (int64_t r = 0; r < g.out[1]; ++r)
      for_row_parts(block, r, [&](const PoolRow& row, int64_t window, int64_t output) {
        const int64_t at = r * g.out[2] * kChannelBlock + output;
        pool_table().max_grad(row, x + window, y + at, dy + at, dx + window);
      });
    block_table().from_block(channels, in, dx, kChannelBlock, data_grad + to, in);
  });
}

template <class T>
void pool_channels_last(const PoolGeometry& g, const T* data, T* out) {
  typedef T Lanes __attribute__((vector_size(16)));  // what every CPU has, or the compiler makes
  constexpr int64_t kLanes = 16 / sizeof(T);
  const int64_t rows = g.out[0] * g.out[1], work = g.out[2] * g.channels * g.kernel[0] * g.kernel[1] * g.kernel[2];
  parallel_for(g.batch * rows, kParallelGrain / std::max<int64_t>(work, 1) + 1, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T* image = data + r / rows * g.in_area() * g.channels;
      if constexpr (std::is_same_v<T, float>)
        if (g.channels % kChannelBlock == 0 && has_one_plane(g)) {
          pool_row_of_vectors(g, r % rows, image, out + r * g.out[2] * g.channels);
          continue;
        }
      for (Spatial at{r % rows / g.out[1], r % g.out[1], 0}; at[2] < g.out[2]; ++at[2]) {
        const Window w = window_at(g, at);
        T* to = out + (r * g.out[2] + at[2]) * g.channels;
        int64_t c = 0;
        for (; c + kLanes <= g.channels; c += kLanes) pool_lanes<Lanes>(g, w, image + c, to + c);
        for (; c < g.channels; ++c) pool_lanes<T>(g, w, image + c, to + c);
      }
    }
  });
}

// x, or zero; without a branch, which nobody could predict here.
template <class T>
T masked(T x, bool keep) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  return std::bit_cast<T>(std::bit_cast<Bits>(x) & (Bits(0) - Bits(keep)));
}

// The gradient through one row of outputs of max, sum or avg; `row` is for its numbers.
template <class T>
void pool_row_grad(const PoolGeometry& g, const T* x, const T* head, const T* values, T* dx, int64_t z0, int64_t y0, T* row) {
  const int64_t s = g.stride[2];
  std::copy_n(head, g.out[2], row);
  if (g.kind == PoolKind::max) {
    // What is left to give: nothing once the first largest element has got it.
    return for_row_taps(g, x, z0, y0, [&](int64_t first, int64_t last, const T* from) {
      T* to = dx + (from - x);
      for (int64_t o = first; o < last; ++o) {
        const T given = masked(row[o], from[o * s] == values[o]), left = masked(row[o], from[o * s] != values[o]);
        to[o * s] += given;
        row[o] = left;
      }
    });
  }
  const int64_t outer = counted(g, 0, z0) * counted(g, 1, y0);
  for (int64_t o = 0; g.kind == PoolKind::avg && o < g.out[2]; ++o)
    row[o] /= static_cast<T>(std::max<int64_t>(outer * counted(g, 2, o * s - g.pad[2]), 1));
  for_row_taps(g, x, z0, y0, [&](int64_t first, int64_t last, const T* from) {
    T* to = dx + (from - x);
    for (int64_t o = first; o < last; ++o) to[o * s] += row[o];
  });
}

}  // namespace

template <class T>
void pool(const PoolGeometry& g, const T* data, T* out) {
  if (is_reduction(g)) return reduce_planes(g, data, out);
  if constexpr (std::is_same_v<T, float>)
    if (are_squares(g))
      return for_each_square_row(
          g, [&](int64_t top, int64_t bottom, int64_t to) { pool_table().max_of_squares(g.out[2], data + top, data + bottom, out + to); });
  if constexpr (std::is_same_v<T, float>)
    if (are_pooled_in_blocks(g)) return pool_in_blocks(g, data, out);
  if (g.channels_last && g.kind != PoolKind::lp) return pool_channels_last(g, data, out);
  const int64_t unit = unit_of(g);
  for_each_plane(g, [&](int64_t from, int64_t to) {
    if (g.kind != PoolKind::lp && unit == 1 && g.out[2] > 1) {
      for (int64_t r = 0; r < g.out[0] * g.out[1]; ++r)
        pool_row(g, data + from, out + to + r * g.out[2], r / g.out[1] * g.stride[0] - g.pad[0], r % g.out[1] * g.stride[1] - g.pad[1]);
      return;
    }
    for (int64_t p = 0; p < g.out_area(); ++p) out[to + p * unit] = pool_window(g, window_at(g, p), unit, data + from);
  });
}

template <class T>
void pool_grad(const PoolGeometry& g, const T* head, const T* data, const T* values, T* data_grad) {
  if (is_reduction(g)) return reduce_planes_grad(g, head, data, values, data_grad);
  const int64_t unit = unit_of(g);
  if constexpr (std::is_same_v<T, float>)
    if (!are_squares(g) && g.kind == PoolKind::max && are_pooled_in_blocks(g)) return max_grad_in_blocks(g, head, data, values, data_grad);
  const bool squares = std::is_same_v<T, float> && are_squares(g), all_written = squares && 4 * g.out_area() == g.in_area();
  if (!all_written) std::fill_n(data_grad, g.batch * g.channels * g.in_area(), T(0));
  if constexpr (std::is_same_v<T, float>)
    if (squares)
      return for_each_square_row(g, [&](int64_t top, int64_t bottom, int64_t to) {
        pool_table().max_of_squares_grad(g.out[2], data + top, data + bottom, values + to, head + to, data_grad + top, data_grad + bottom);
      });
  for_each_plane(g, [&](int64_t from, int64_t to) {
    const T* x = data + from;
    T* dx = data_grad + from;
    if (g.kind != PoolKind::lp && unit == 1) {
      std::vector<T> row(g.out[2]);
      for (int64_t r = 0; r < g.out[0] * g.out[1]; ++r)
        pool_row_grad(g, x, head + to + r * g.out[2], values + to + r * g.out[2], dx, r / g.out[1] * g.stride[0] - g.pad[0],
                      r % g.out[1] * g.stride[1] - g.pad[1], row.data());
      return;
    }
    for (int64_t p = 0; p < g.out_area(); ++p) {
      const Window w = window_at(g, p);
      const T h = head[to + p * unit], y = values[to + p * unit];
      if (g.kind == PoolKind::max) {
        if (const int64_t i = chosen(g, w, unit, x, y); i >= 0) dx[i] += h;
      } else if (g.kind == PoolKind::lp) {
        const T scale = y == T(0) ? T(0) : h / power(y, g.p - 1);
        for_window(g, w, unit, [&](int64_t i) { dx[i] += scale * power(std::abs(x[i]), g.p - 1) * (x[i] < 0 ? T(-1) : T(1)); });
      } else {
        const T share = g.kind == PoolKind::avg ? h / static_cast<T>(std::max<int64_t>(w.divisor, 1)) : h;
        for_window(g, w, unit, [&](int64_t i) { dx[i] += share; });
      }
    }
  });
}

template <class T>
void pool_pick(const PoolGeometry& g, const T* source, const T* data, const T* values, T* out) {
  const int64_t unit = unit_of(g);
  for_each_plane(g, [&](int64_t from, int64_t to) {
    for (int64_t p = 0; p < g.out_area(); ++p) {
      const int64_t i = chosen(g, window_at(g, p), unit, data + from, values[to + p * unit]);
      out[to + p * unit] = i < 0 ? T(0) : source[from + i];
    }
  });
}

template void pool(const PoolGeometry&, const float*, float*);
template void pool(const PoolGeometry&, const double*, double*);
template void pool_grad(const PoolGeometry&, const float*, const float*, const float*, float*);
template void pool_grad(const PoolGeometry&, const double*, const double*, const double*, double*);
template void pool_pick(const PoolGeometry&, const float*, const float*, const float*, float*);
template void pool_pick(const PoolGeometry&, const double*, const double*, const double*, double*);

}  // namespace gluino::kernels
