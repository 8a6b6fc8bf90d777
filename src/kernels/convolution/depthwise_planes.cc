#include "kernels/convolution/depthwise_planes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "kernels/convolution/separable_tiles.h"

namespace gluino::kernels {
namespace {

// Two spatial axes, the first of which may have one row.
ConvGeometry in_rows(ConvGeometry g) {
  if (g.rank == 2) return g;
  for (Spatial* s : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilate}) *s = {1, (*s)[0], 1};
  g.pad = {0, g.pad[0], 0};
  g.rank = 2;
  return g;
}

// A plane in the order in which windows read it: rows with their padding, and every stride-th number side by side, so that what
// neighbouring outputs see under an element of the window are neighbours.
class Rows {
 public:
  // columns: of the plane; seen: outputs of a row; offset of an element of the window: t * dilate.
  Rows(int64_t rows, int64_t columns, int64_t pad, int64_t stride, int64_t seen, int64_t last_offset)
      : rows_(rows),
        columns_(columns),
        pad_(pad),
        stride_(stride),
        phase_(seen + last_offset / stride + kPlaneLanes),
        values_(static_cast<size_t>(rows * stride * phase_), 0.0f) {}
  float* at(int64_t y) { return values_.data() + y * stride_ * phase_; }
  int64_t row_step() const { return stride_ * phase_; }
  // Where what output 0 sees under an element at this offset stands in a row.
  int64_t place(int64_t offset) const { return offset % stride_ * phase_ + offset / stride_; }
  // Numbers outside of the plane stay 0.
  void take(const float* plane) {
    visit(
        [&](float* row, const float* from, int64_t n) {
          if (stride_ == 1) return static_cast<void>(std::copy_n(from, n, row));
          for (int64_t i = 0; i < n; ++i) row[i] = from[i * stride_];
        },
        plane);
  }
  void give(float* plane) {
    visit(
        [&](const float* row, float* to, int64_t n) {
          for (int64_t i = 0; i < n; ++i) to[i * stride_] = row[i];
        },
        plane);
  }
  void clear() { std::ranges::fill(values_, 0.0f); }

 private:
  template <class F, class T>
  void visit(F f, T* plane) {
    for (int64_t p = 0; p < stride_; ++p) {
      // Place i of the phase is column i * stride + p - pad.
      const int64_t first = std::max<int64_t>(0, (pad_ - p + stride_ - 1) / stride_);
      const int64_t last = std::min(phase_, (columns_ + pad_ - p + stride_ - 1) / stride_);
      if (first >= last) continue;
      float* row = values_.data() + p * phase_ + first;
      T* from = plane + first * stride_ + p - pad_;
      for (int64_t y = 0; y < rows_; ++y, row += row_step(), from += columns_) f(row, from, last - first);
    }
  }
  int64_t rows_, columns_, pad_, stride_, phase_;
  std::vector<float> values_;
};

Rows rows_of(const ConvGeometry& g) { return Rows(g.in[0], g.in[1], g.pad[1], g.stride[1], g.out[1], (g.kernel[1] - 1) * g.dilate[1]); }

// What each row of outputs sees.
struct Windows {
  const ConvGeometry& g;
  std::vector<int64_t> taps;
  Windows(const ConvGeometry& geometry, const Rows& rows) : g(geometry) {
    for (int64_t j = 0; j < g.kernel[1]; ++j) taps.push_back(rows.place(j * g.dilate[1]));
  }
  // With the number of rows of the window that lie in the padding before it.
  std::pair<PlaneRow, int64_t> at(Rows& rows, int64_t y) const {
    const int64_t top = y * g.stride[0] - g.pad[0], step = g.dilate[0];
    const int64_t first = top < 0 ? std::min((-top + step - 1) / step, g.kernel[0]) : 0;
    const int64_t last = top >= g.in[0] ? 0 : std::min((g.in[0] - 1 - top) / step + 1, g.kernel[0]);
    const int64_t seen = std::max<int64_t>(0, last - first);
    return {{g.out[1], seen, g.kernel[1], rows.at(seen ? top + first * step : 0), step * rows.row_step(), taps.data()}, first};
  }
};

// f(plane number, ...) for all planes of outputs, with memory that each thread keeps.
template <class F>
void for_planes(const ConvGeometry& g, int64_t planes, F&& f) {
  const int64_t work = std::max<int64_t>(1, g.out[0] * g.out[1] * g.kernel[0] * g.kernel[1]);
  parallel_for(planes, std::max<int64_t>(1, kParallelGrain / work), [&](int64_t begin, int64_t end) {
    Rows rows = rows_of(g);
    for (int64_t p = begin; p < end; ++p) f(p, rows);
  });
}

void run_forward(const ConvGeometry& g, const float* data, const float* weight, bool is_turned, const float* bias, float* out) {
  const int64_t taps = g.kernel[0] * g.kernel[1], each = g.out_channels / g.in_channels;
  for_planes(g, g.batch * g.in_channels, [&](int64_t p, Rows& rows) {
    rows.take(data + p * g.in[0] * g.in[1]);
    const Windows windows(g, rows);
    std::vector<float> window(static_cast<size_t>(taps));
    for (int64_t k = 0; k < each; ++k) {
      const int64_t plane = p * each + k, channel = plane % g.out_channels;
      std::copy_n(weight + channel * taps, taps, window.begin());
      if (is_turned) std::ranges::reverse(window);
      for (int64_t y = 0; y < g.out[0]; ++y) {
        const auto [row, first] = windows.at(rows, y);
        separable_table().plane_row(row, window.data() + first * g.kernel[1], bias ? bias[channel] : 0.0f,
                                    out + (plane * g.out[0] + y) * g.out[1]);
      }
    }
  });
}

}  // namespace

bool can_run_planes(const ConvGeometry& g) {
  return g.rank <= 2 && !g.channels_last && g.groups > 1 && g.groups == g.in_channels && g.out_channels % g.groups == 0;
}

void convolution_planes(const ConvGeometry& geometry, const float* data, const float* weight, const float* bias, float* out) {
  run_forward(in_rows(geometry), data, weight, false, bias, out);
}

void planes_data_grad(const ConvGeometry& geometry, const float* head, const float* weight, float* data_grad) {
  const ConvGeometry g = in_rows(geometry);
  const int64_t taps = g.kernel[0] * g.kernel[1], each = g.out_channels / g.in_channels;
  ConvGeometry t = g;
  std::swap(t.in, t.out);
  bool is_turned = each == 1;
  for (size_t i = 0; i < 2; ++i) {
    t.pad[i] = (g.kernel[i] - 1) * g.dilate[i] - g.pad[i];
    is_turned &= g.stride[i] == 1 && t.pad[i] >= 0;
  }
  if (is_turned) return run_forward(t, head, weight, true, nullptr, data_grad);
  // Every row of outputs is added to what it sees.
  for_planes(g, g.batch * g.in_channels, [&](int64_t p, Rows& rows) {
    rows.clear();
    const Windows windows(g, rows);
    for (int64_t k = 0; k < each; ++k) {
      const int64_t plane = p * each + k;
      const float* factors = weight + plane % g.out_channels * taps;
      for (int64_t y = 0; y < g.out[0]; ++y) {
        const auto [row, first] = windows.at(rows, y);
        float* seen = rows.at(0) + (row.data - rows.at(0));
        for (int64_t i = 0; i < row.rows; ++i)
          for (int64_t j = 0; j < row.width; ++j)
            separable_table().add_row(g.out[1], factors[(first + i) * row.width + j], head + (plane * g.out[0] + y) * g.out[1],
                                      seen + i * row.row_step + row.taps[j]);
      }
    }
    std::fill_n(data_grad + p * g.in[0] * g.in[1], g.in[0] * g.in[1], 0.0f);  // what no window sees
    rows.give(data_grad + p * g.in[0] * g.in[1]);
  });
}

void planes_weight_grad(const ConvGeometry& geometry, const float* head, const float* data, float* weight_grad) {
  const ConvGeometry g = in_rows(geometry);
  const int64_t taps = g.kernel[0] * g.kernel[1], each = g.out_channels / g.in_channels;
  for_planes(g, g.in_channels, [&](int64_t c, Rows& rows) {
    std::vector<double> totals(static_cast<size_t>(each * taps), 0.0);
    std::vector<float> sums(static_cast<size_t>(taps * kPlaneLanes));
    const Windows windows(g, rows);
    for (int64_t n = 0; n < g.batch; ++n) {
      rows.take(data + (n * g.in_channels + c) * g.in[0] * g.in[1]);
      for (int64_t k = 0; k < each; ++k) {
        const float* plane = head + (n * g.out_channels + c * each + k) * g.out[0] * g.out[1];
        // Sums of one image, row by row, so that long sums lose little.
        std::ranges::fill(sums, 0.0f);
        for (int64_t y = 0; y < g.out[0]; ++y) {
          const auto [row, first] = windows.at(rows, y);
          separable_table().plane_grad(row, plane + y * g.out[1], sums.data() + first * row.width * kPlaneLanes);
        }
        for (int64_t t = 0; t < taps; ++t)
          for (int64_t l = 0; l < kPlaneLanes; ++l) totals[k * taps + t] += sums[t * kPlaneLanes + l];
      }
    }
    std::ranges::copy(totals, weight_grad + c * each * taps);
  });
}

}  // namespace gluino::kernels
