// Included by winograd_transforms_<isa>.cc (cmake/isa.cmake), each compiled with its own instruction set. The matrices are those of Toom
// and Cook for the points 0, 1, -1, infinity (tiles of 2) and 0, +-sqrt(2), +-sqrt(1/2), infinity (tiles of 4: a quarter of the rounding
// error of the usual 0, +-1, +-2).
#include "kernels/convolution/winograd_transforms.h"
#include "kernels/isa/lanes.h"

namespace gluino::kernels::GLUINO_ISA {
namespace {

constexpr float kRoot = 1.41421356237309504880f, kHalfRoot = 0.70710678118654752440f;

template <int kTile>
inline void transform_weight(const Lanes* w, Lanes* t) {
  const Lanes outer = w[0] + w[2];
  if constexpr (kTile == 2) {
    t[0] = -w[0];
    t[1] = 0.5f * (outer + w[1]);
    t[2] = 0.5f * (outer - w[1]);
    t[3] = w[2];
  } else {
    const Lanes even = (w[0] + 2.0f * w[2]) * (1 / 6.0f), odd = w[1] * (kRoot / 6);
    const Lanes wide_even = (2.0f * w[0] + w[2]) * (1 / 3.0f), wide_odd = w[1] * (kRoot / 3);
    t[0] = w[0];
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = -(wide_even + wide_odd);
    t[4] = wide_odd - wide_even;
    t[5] = w[2];
  }
}

// transform_weight undone. A zero becomes a zero again.
template <int kTile>
inline void restore_weight(const Lanes* t, Lanes* w) {
  w[0] = kTile == 2 ? -t[0] : t[0];
  w[1] = (t[1] - t[2]) * (kTile == 2 ? 1.0f : 3 / kRoot);
  w[2] = t[kTile + 1];
}

template <int kTile>
inline void transform_input(const Lanes* d, Lanes* t) {
  if constexpr (kTile == 2) {
    t[0] = d[2] - d[0];
    t[1] = d[2] + d[1];
    t[2] = d[2] - d[1];
    t[3] = d[3] - d[1];
  } else {
    const Lanes even = d[4] - 0.5f * d[2], odd = d[3] - 0.5f * d[1], wide_even = d[4] - 2.0f * d[2], wide_odd = d[3] - 2.0f * d[1];
    t[0] = (d[0] + d[4]) - 2.5f * d[2];
    t[1] = even + kRoot * odd;
    t[2] = even - kRoot * odd;
    t[3] = wide_even + kHalfRoot * wide_odd;
    t[4] = wide_even - kHalfRoot * wide_odd;
    t[5] = (d[1] + d[5]) - 2.5f * d[3];
  }
}

template <int kTile>
inline void transform_output(const Lanes* m, Lanes* y) {
  const Lanes sum = m[1] + m[2], difference = m[1] - m[2];
  if constexpr (kTile == 2) {
    y[0] = m[0] + sum;
    y[1] = difference + m[3];
  } else {
    const Lanes wide_sum = m[3] + m[4], wide_difference = m[3] - m[4];
    y[0] = (m[0] + sum) + wide_sum;
    y[1] = kRoot * (difference + 0.5f * wide_difference);
    y[2] = 2.0f * sum + 0.5f * wide_sum;
    y[3] = (2.0f * kRoot) * difference + ((0.5f * kHalfRoot) * wide_difference + m[5]);
  }
}

// transform_output transposed.
template <int kTile>
inline void transform_head(const Lanes* y, Lanes* t) {
  t[0] = y[0];
  if constexpr (kTile == 2) {
    t[1] = y[0] + y[1];
    t[2] = y[0] - y[1];
    t[3] = y[1];
  } else {
    const Lanes even = y[0] + 2.0f * y[2], odd = kRoot * (y[1] + 2.0f * y[3]);
    const Lanes wide_even = y[0] + 0.5f * y[2], wide_odd = kHalfRoot * (y[1] + 0.5f * y[3]);
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = wide_even + wide_odd;
    t[4] = wide_even - wide_odd;
    t[5] = y[3];
  }
}

// transform_weight transposed.
template <int kTile>
inline void transform_window(const Lanes* t, Lanes* w) {
  const Lanes sum = t[1] + t[2], difference = t[1] - t[2];
  if constexpr (kTile == 2) {
    w[0] = 0.5f * sum - t[0];
    w[1] = 0.5f * difference;
    w[2] = 0.5f * sum + t[3];
  } else {
    const Lanes wide_sum = t[3] + t[4], wide_difference = t[4] - t[3];
    w[0] = t[0] + ((1 / 6.0f) * sum - (2 / 3.0f) * wide_sum);
    w[1] = (kRoot / 6) * difference + (kRoot / 3) * wide_difference;
    w[2] = (1 / 3.0f) * (sum - wide_sum) + t[5];
  }
}

template <int kTile>
void weight(const float* from, int64_t from_step, float* to, int64_t to_step) {
  constexpr int kEdge = kTile + 2;
  Lanes columns[3][kEdge];  // [x][y]
  for (int x = 0; x < 3; ++x) {
    const Lanes w[3] = {load(from + x * from_step), load(from + (3 + x) * from_step), load(from + (6 + x) * from_step)};
    transform_weight<kTile>(w, columns[x]);
  }
  for (int y = 0; y < kEdge; ++y) {
    const Lanes w[3] = {columns[0][y], columns[1][y], columns[2][y]};
    Lanes t[kEdge];
    transform_weight<kTile>(w, t);
    for (int x = 0; x < kEdge; ++x) store(to + (y * kEdge + x) * to_step, t[x]);
  }
}

template <int kTile>
void restored_weight(const float* from, int64_t from_step, float* to) {
  constexpr int kEdge = kTile + 2;
  Lanes rows[3][kEdge];  // [x][y]
  for (int y = 0; y < kEdge; ++y) {
    Lanes t[kEdge], w[3];
    for (int x = 0; x < kEdge; ++x) t[x] = load(from + (y * kEdge + x) * from_step);
    restore_weight<kTile>(t, w);
    for (int x = 0; x < 3; ++x) rows[x][y] = w[x];
  }
  for (int x = 0; x < 3; ++x) {
    Lanes w[3];
    restore_weight<kTile>(rows[x], w);
    for (int y = 0; y < 3; ++y) store(to + (y * 3 + x) * kLanes, w[y]);
  }
}

template <int kTile>
void input(const float* from, int64_t row_step, float* to, int64_t to_step) {
  constexpr int kEdge = kTile + 2;
  Lanes columns[kEdge][kEdge];  // [x][y]: columns transformed
#pragma GCC unroll 6
  for (int x = 0; x < kEdge; ++x) {
    Lanes d[kEdge];
    for (int y = 0; y < kEdge; ++y) d[y] = load(from + y * row_step + x * kLanes);
    transform_input<kTile>(d, columns[x]);
  }
#pragma GCC unroll 6
  for (int y = 0; y < kEdge; ++y) {
    Lanes d[kEdge], t[kEdge];
    for (int x = 0; x < kEdge; ++x) d[x] = columns[x][y];
    transform_input<kTile>(d, t);
    for (int x = 0; x < kEdge; ++x) store(to + (y * kEdge + x) * to_step, t[x]);
  }
}

template <int kTile>
bool output(const float* from, int64_t from_step, float* to, const WinogradStore& how) {
  constexpr int kEdge = kTile + 2;
  Lanes columns[kEdge][kTile];  // [x][y]
  Lanes nothing = {};           // stays 0 where all are finite
#pragma GCC unroll 6
  for (int x = 0; x < kEdge; ++x) {
    Lanes m[kEdge];
    for (int y = 0; y < kEdge; ++y) m[y] = load(from + (y * kEdge + x) * from_step);
    transform_output<kTile>(m, columns[x]);
    Lanes sum = columns[x][0] + columns[x][1];
    if constexpr (kTile == 4) sum += columns[x][2] + columns[x][3];
    nothing += sum * 0.0f;
  }
  if (!is_zero(nothing)) return false;
  const Lanes bias = load(how.bias);
#pragma GCC unroll 4
  for (int y = 0; y < kTile; ++y) {
    if (y >= how.rows) break;
    Lanes m[kEdge], result[kTile];
    for (int x = 0; x < kEdge; ++x) m[x] = columns[x][y];
    transform_output<kTile>(m, result);
    float* row = to + y * how.row_step;
    for (int x = 0; x < kTile; ++x) {
      if (x >= how.columns) break;
      Lanes v = result[x] + bias;
      if (how.accumulate) v += load(row + x * kLanes);
      store(row + x * kLanes, how.relu ? relu(v, how.limit) : v);
    }
  }
  return true;
}

template <int kTile>
void head(const float* from, int64_t row_step, float* to, int64_t to_step) {
  constexpr int kEdge = kTile + 2;
  Lanes columns[kTile][kEdge];  // [x][y]
#pragma GCC unroll 4
  for (int x = 0; x < kTile; ++x) {
    Lanes y[kTile];
    for (int i = 0; i < kTile; ++i) y[i] = load(from + i * row_step + x * kLanes);
    transform_head<kTile>(y, columns[x]);
  }
#pragma GCC unroll 6
  for (int y = 0; y < kEdge; ++y) {
    Lanes row[kTile], t[kEdge];
    for (int x = 0; x < kTile; ++x) row[x] = columns[x][y];
    transform_head<kTile>(row, t);
    for (int x = 0; x < kEdge; ++x) store(to + (y * kEdge + x) * to_step, t[x]);
  }
}

template <int kTile>
void window(const float* from, int64_t from_step, float* to) {
  constexpr int kEdge = kTile + 2;
  Lanes columns[kEdge][3];  // [x][y]
#pragma GCC unroll 6
  for (int x = 0; x < kEdge; ++x) {
    Lanes t[kEdge];
    for (int y = 0; y < kEdge; ++y) t[y] = load(from + (y * kEdge + x) * from_step);
    transform_window<kTile>(t, columns[x]);
  }
#pragma GCC unroll 3
  for (int y = 0; y < 3; ++y) {
    Lanes t[kEdge], w[3];
    for (int x = 0; x < kEdge; ++x) t[x] = columns[x][y];
    transform_window<kTile>(t, w);
    for (int x = 0; x < 3; ++x) store(to + (y * 3 + x) * kLanes, w[x]);
  }
}

template <int kRows>
void multiply_rows(int64_t rows, int64_t channels, const float* data, const float* panel, float* products, const float* ahead,
                   int64_t ahead_step) {
  if constexpr (kRows > 1)
    if (rows < kRows) return multiply_rows<kRows - 1>(rows, channels, data, panel, products, ahead, ahead_step);
  Lanes low[kRows] = {}, high[kRows] = {};
#pragma GCC unroll 4
  for (int64_t c = 0; c < channels; ++c, panel += 2 * kLanes, ahead += ahead_step) {
    __builtin_prefetch(ahead, 0, 2);
    const Lanes left = load(panel), right = load(panel + kLanes);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      const Lanes x = spread(data[i * channels + c]);
      low[i] += x * left;
      high[i] += x * right;
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < kRows; ++i) {
    store(products + i * 2 * kLanes, low[i]);
    store(products + (i * 2 + 1) * kLanes, high[i]);
  }
}

}  // namespace

extern const WinogradTable kWinogradTable;
const WinogradTable kWinogradTable = {{weight<2>, restored_weight<2>, input<2>, output<2>, head<2>, window<2>},
                                      {weight<4>, restored_weight<4>, input<4>, output<4>, head<4>, window<4>},
                                      multiply_rows<6>};

}  // namespace gluino::kernels::GLUINO_ISA
