// Pooling of regions whose cells read channels of their own (Dai et al., 2016), at shifted places (Dai et al., 2017), and of rotated
// regions.
#include <cmath>
#include <numbers>

#include "base/extents.h"
#include "base/parallel.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

// A coordinate that indices can be computed from; NaN is none.
template <class T>
T kept_finite(T v) {
  constexpr T kFar = T(int64_t{1} << 30);
  return std::isnan(v) ? T(0) : std::clamp(v, -kFar, kFar);
}
int64_t image_of(double value, int64_t batch, int64_t region) {
  if (!(value >= 0 && value < static_cast<double>(batch)))
    raise<IndexError>("region {} is of image {}, but there are {}", region, value, batch);
  return static_cast<int64_t>(value);
}

// ---- one place between pixels

// The four pixels around a place, with their weights. Beyond the border the nearest pixels are read, so that nothing changes with the
// place.
template <class T>
struct Corners {
  int64_t at[4];
  T weight[4];
  T slope_y[4], slope_x[4];  // how the weights change with the place
};
template <class T>
Corners<T> corners_of(T y, T x, int64_t height, int64_t width) {
  const T moves_y = y >= 0 && y <= static_cast<T>(height - 1), moves_x = x >= 0 && x <= static_cast<T>(width - 1);
  y = std::clamp(y, T(0), static_cast<T>(height - 1));
  x = std::clamp(x, T(0), static_cast<T>(width - 1));
  const auto y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x);
  const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
  const T dy = y - static_cast<T>(y0), dx = x - static_cast<T>(x0);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx},
          {-(1 - dx) * moves_y, -dx * moves_y, (1 - dx) * moves_y, dx * moves_y},
          {-(1 - dy) * moves_x, (1 - dy) * moves_x, -dy * moves_x, dy * moves_x}};
}
template <class T>
T dot(const T* plane, const Corners<T>& c, const T* weights) {
  T sum = 0;
  for (int i = 0; i < 4; ++i) sum += weights[i] * plane[c.at[i]];
  return sum;
}

// ---- PSROIPooling and DeformablePSROIPooling: one walk over what each cell reads

struct PositionAttrs {
  double spatial_scale = 1, trans_std = 0;
  int64_t output_dim = 0, pooled_size = 0, group_size = 0, part_size = 0, sample_per_part = 1;
  bool no_trans = false;
  int64_t groups() const { return group_size > 0 ? group_size : pooled_size; }
  int64_t parts() const { return part_size > 0 ? part_size : pooled_size; }
};
struct PositionPoolingAttrs : PositionAttrs {
  static void fields(AttrFields<PositionPoolingAttrs>& f) {
    f.required("spatial_scale", static_cast<double PositionPoolingAttrs::*>(&PositionAttrs::spatial_scale),
               "size of the feature map by size of the image")
        .required("output_dim", static_cast<int64_t PositionPoolingAttrs::*>(&PositionAttrs::output_dim), "number of output channels")
        .required("pooled_size", static_cast<int64_t PositionPoolingAttrs::*>(&PositionAttrs::pooled_size),
                  "height and width of a pooled region")
        .field("group_size", static_cast<int64_t PositionPoolingAttrs::*>(&PositionAttrs::group_size),
               "cells per axis with channels of their own; 0 for pooled_size");
  }
};
struct DeformablePoolingAttrs : PositionAttrs {
  static void fields(AttrFields<DeformablePoolingAttrs>& f) {
    f.required("spatial_scale", static_cast<double DeformablePoolingAttrs::*>(&PositionAttrs::spatial_scale),
               "size of the feature map by size of the image")
        .required("output_dim", static_cast<int64_t DeformablePoolingAttrs::*>(&PositionAttrs::output_dim), "number of output channels")
        .required("group_size", static_cast<int64_t DeformablePoolingAttrs::*>(&PositionAttrs::group_size),
                  "cells per axis with channels of their own")
        .required("pooled_size", static_cast<int64_t DeformablePoolingAttrs::*>(&PositionAttrs::pooled_size),
                  "height and width of a pooled region")
        .field("part_size", static_cast<int64_t DeformablePoolingAttrs::*>(&PositionAttrs::part_size),
               "parts per axis with shifts of their own; 0 for pooled_size")
        .field("sample_per_part", static_cast<int64_t DeformablePoolingAttrs::*>(&PositionAttrs::sample_per_part),
               "places per axis that a cell reads")
        .field("trans_std", static_cast<double DeformablePoolingAttrs::*>(&PositionAttrs::trans_std), "factor of the shifts")
        .field("no_trans", static_cast<bool DeformablePoolingAttrs::*>(&PositionAttrs::no_trans), "without shifts");
  }
};

Shape pooled_shape(const PositionAttrs& a, const Shape& data, const Shape& rois) {
  check_pixels(data);
  if (rois.ndim() != 2 || rois[1] != 5) raise<ShapeError>("rois have shape {}, but (regions, 5) is needed: image, x0, y0, x1, y1", rois);
  constexpr int64_t most = 1 << 12, most_samples = 64;
  for (int64_t n : {a.pooled_size, a.output_dim, a.groups(), a.parts()})
    if (n < 1 || n > most) raise<AttrError>("sizes and counts are 1 to {}, but one is {}", most, n);
  if (a.sample_per_part < 1 || a.sample_per_part > most_samples)  // its square is read for every cell
    raise<AttrError>("sample_per_part is 1 to {}, but it is {}", most_samples, a.sample_per_part);
  const int64_t channels = a.output_dim * a.groups() * a.groups();
  if (data[1] != channels)
    raise<ShapeError>("data has shape {}, but {} channels are needed: output_dim * group_size * group_size", data, channels);
  return {rois[0], a.output_dim, a.pooled_size, a.pooled_size};
}
// Which channel of data the cell (row, column) of an output channel reads.
int64_t source_channel(const PositionAttrs& a, int64_t channel, int64_t row, int64_t column) {
  const auto group = [&](int64_t i) { return std::clamp<int64_t>(i * a.groups() / a.pooled_size, 0, a.groups() - 1); };
  return (channel * a.groups() + group(row)) * a.groups() + group(column);
}

struct Span {
  int64_t begin, end;
};
template <class T>
Span cell_span(T from, T to, double scale, int64_t i, int64_t cells, int64_t limit) {
  const T start = std::round(kept_finite(from)) * static_cast<T>(scale), stop = (std::round(kept_finite(to)) + 1) * static_cast<T>(scale);
  const T step = std::max(stop - start, T(0.1)) / static_cast<T>(cells);
  const auto keep = [&](T v) { return std::clamp<int64_t>(static_cast<int64_t>(kept_finite(v)), 0, limit); };
  return {keep(std::floor(static_cast<T>(i) * step + start)), keep(std::ceil(static_cast<T>(i + 1) * step + start))};
}
// f(element of the output, offset of the plane that it reads, rows, columns)
template <class T, class F>
void for_cells(const PositionAttrs& a, const Shape& data, const T* rois, int64_t regions, F&& f) {
  const int64_t size = a.pooled_size, height = data[2], width = data[3];
  for (int64_t n = 0; n < regions; ++n) {
    const T* roi = rois + n * 5;
    const int64_t image = image_of(static_cast<double>(roi[0]), data[0], n);
    for (int64_t cell = 0; cell < a.output_dim * size * size; ++cell) {
      const int64_t row = cell / size % size, column = cell % size;
      const Span rows = cell_span(roi[2], roi[4], a.spatial_scale, row, size, height),
                 columns = cell_span(roi[1], roi[3], a.spatial_scale, column, size, width);
      const int64_t plane = image * data[1] + source_channel(a, cell / (size * size), row, column);
      f(n * a.output_dim * size * size + cell, plane * height * width, rows, columns);
    }
  }
}
int64_t area_of(Span rows, Span columns) {
  return std::max<int64_t>(rows.end - rows.begin, 0) * std::max<int64_t>(columns.end - columns.begin, 0);
}

GLUINO_OP(_contrib_PSROIPooling, PositionPoolingAttrs) {
  op.doc("The average of every cell of a region, each cell from channels of its own.")
      .input("data")
      .input("rois")
      .kernel_dtypes(real_dtypes())
      .shape([](const PositionPoolingAttrs& a, std::span<const Shape> in) { return pooled_shape(a, in[0], in[1]); })
      .refuses_values()
      .kernel([](const PositionPoolingAttrs& a, KernelContext& k) {
        const int64_t width = k.in(0).extent(3);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for_cells(a, k.in(0).shape(), k.data<T>(1), k.in(1).extent(0), [&](int64_t element, int64_t plane, Span rows, Span columns) {
            T sum = 0;
            for (int64_t y = rows.begin; y < rows.end; ++y)
              for (int64_t x = columns.begin; x < columns.end; ++x) sum += k.data<T>(0)[plane + y * width + x];
            const int64_t area = area_of(rows, columns);
            k.out_data<T>()[element] = area ? sum / static_cast<T>(area) : T(0);
          });
        });
      })
      .gradient({.inputs = {1}},
                [](const PositionPoolingAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_psroi_pooling_grad", {g.head(), g.in(1), g.like(0)}, a), Tensor()};
                })
      .sample({{2, 8, 6, 6}, uniform_sample({3, 5}, 0, 2)}, [] {
        PositionPoolingAttrs a;
        a.output_dim = 2, a.pooled_size = 2;
        return a;
      }());
}
GLUINO_OP(_psroi_pooling_grad, PositionPoolingAttrs) {
  op.doc("The gradient of PSROIPooling with respect to data.")
      .input("head")
      .input("rois")
      .input("like")
      .shape_only()
      .kernel_dtypes(real_dtypes())
      .shape([](const PositionPoolingAttrs& a, std::span<const Shape> in) {
        check_head(in[0], pooled_shape(a, in[2], in[1]));
        return in[2];
      })
      .refuses_values()
      .kernel([](const PositionPoolingAttrs& a, KernelContext& k) {
        const int64_t width = k.out().extent(3);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          std::fill_n(k.out_data<T>(), k.out().size(), T(0));
          for_cells(a, k.out().shape(), k.data<T>(1), k.in(1).extent(0), [&](int64_t element, int64_t plane, Span rows, Span columns) {
            const int64_t area = area_of(rows, columns);
            for (int64_t y = rows.begin; y < rows.end; ++y)
              for (int64_t x = columns.begin; x < columns.end; ++x)
                k.out_data<T>()[plane + y * width + x] += k.data<T>(0)[element] / static_cast<T>(area);
          });
        });
      })
      .not_differentiable("the second derivative is 0")
      .sample({{3, 2, 2, 2}, uniform_sample({3, 5}, 0, 2), {2, 8, 6, 6}}, [] {
        PositionPoolingAttrs a;
        a.output_dim = 2, a.pooled_size = 2;
        return a;
      }());
}

// Shapes of data, rois and, where there are shifts, trans.
int64_t shift_classes(const PositionAttrs& a, std::span<const Shape> in) {
  if (a.no_trans) return 1;
  const Shape& trans = in[2];
  if (trans.ndim() != 4 || trans[0] != in[1][0] || trans[1] < 2 || trans[1] % 2 || trans[2] != a.parts() || trans[3] != a.parts() ||
      a.output_dim % (trans[1] / 2))
    raise<ShapeError>("trans has shape {}, but ({}, 2 * classes, {}, {}) is needed, where the classes divide output_dim = {}", trans,
                      in[1][0], a.parts(), a.parts(), a.output_dim);
  return trans[1] / 2;
}
// f(element, plane, element of trans for x or -1, distance to that for y, size of the region, corners) for every place that is read, after
// count(element, places) was told how many a cell reads.
template <class T, class Count, class F>
void for_places(const PositionAttrs& a, const Shape& data, const T* rois, int64_t regions, const T* trans, int64_t classes, Count&& count,
                F&& f) {
  const int64_t size = a.pooled_size, height = data[2], width = data[3], parts = a.parts(), cells = a.output_dim * size * size;
  const T scale = static_cast<T>(a.spatial_scale);
  for (int64_t n = 0; n < regions; ++n) {
    const T* roi = rois + n * 5;
    const int64_t image = image_of(static_cast<double>(roi[0]), data[0], n);
    const auto start = [&](int i) { return std::round(kept_finite(roi[i])) * scale - T(0.5); };
    const auto extent = [&](int i) { return std::max((std::round(kept_finite(roi[i + 2])) + 1) * scale - T(0.5) - start(i), T(0.1)); };
    const T x0 = start(1), y0 = start(2), roi_w = extent(1), roi_h = extent(2);
    const T bin_w = roi_w / static_cast<T>(size), bin_h = roi_h / static_cast<T>(size);
    for (int64_t cell = 0; cell < cells; ++cell) {
      const int64_t channel = cell / (size * size), row = cell / size % size, column = cell % size;
      const int64_t place = (row * parts / size) * parts + column * parts / size;
      const int64_t shift_x = trans ? ((n * classes + channel / (a.output_dim / classes)) * 2) * parts * parts + place : -1;
      const T dx = trans ? trans[shift_x] * static_cast<T>(a.trans_std) : T(0);
      const T dy = trans ? trans[shift_x + parts * parts] * static_cast<T>(a.trans_std) : T(0);
      const T left = kept_finite(static_cast<T>(column) * bin_w + x0 + dx * roi_w),
              top = kept_finite(static_cast<T>(row) * bin_h + y0 + dy * roi_h);
      const int64_t plane = (image * data[1] + source_channel(a, channel, row, column)) * height * width;
      std::vector<Corners<T>> read;
      for (int64_t i = 0; i < a.sample_per_part * a.sample_per_part; ++i) {
        const T y = top + static_cast<T>(i / a.sample_per_part) * bin_h / static_cast<T>(a.sample_per_part),
                x = left + static_cast<T>(i % a.sample_per_part) * bin_w / static_cast<T>(a.sample_per_part);
        if (x < T(-0.5) || x > static_cast<T>(width) - T(0.5) || y < T(-0.5) || y > static_cast<T>(height) - T(0.5)) continue;
        read.push_back(corners_of(y, x, height, width));
      }
      count(n * cells + cell, static_cast<int64_t>(read.size()));
      for (const Corners<T>& c : read) f(n * cells + cell, plane, shift_x, roi_h, roi_w, static_cast<T>(read.size()), c);
    }
  }
}
DeformablePoolingAttrs deformable_sample() {
  DeformablePoolingAttrs a;
  a.output_dim = 2, a.pooled_size = 2, a.group_size = 2, a.sample_per_part = 2, a.trans_std = 0.1;
  return a;
}

GLUINO_OP(_contrib_DeformablePSROIPooling, DeformablePoolingAttrs) {
  op.doc("PSROIPooling whose cells read at shifted places between pixels.")
      .input("data")
      .input("rois")
      .input("trans")
      .present_if([](const DeformablePoolingAttrs& a) { return !a.no_trans; })
      .outputs({"output", "top_count"})
      .hidden_outputs(1)
      .kernel_dtypes(real_dtypes())
      .shape([](const DeformablePoolingAttrs& a, std::span<const Shape> in) {
        const Shape out = pooled_shape(a, in[0], in[1]);
        shift_classes(a, in);
        return std::vector<Shape>{out, out};
      })
      .refuses_values()
      .kernel([](const DeformablePoolingAttrs& a, KernelContext& k) {
        const Shape shapes[] = {k.in(0).shape(), k.in(1).shape(), a.no_trans ? Shape{} : k.in(2).shape()};
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          T *out = k.out_data<T>(0), *places = k.out_data<T>(1);
          for_places<T>(
              a, shapes[0], k.data<T>(1), shapes[1][0], a.no_trans ? nullptr : k.data<T>(2), shift_classes(a, shapes),
              [&](int64_t element, int64_t read) {
                out[element] = 0;
                places[element] = static_cast<T>(read);
              },
              [&](int64_t element, int64_t plane, int64_t, T, T, T read, const Corners<T>& c) {
                out[element] += dot(k.data<T>(0) + plane, c, c.weight) / read;
              });
        });
      })
      .gradient({.all_inputs = true},
                [](const DeformablePoolingAttrs& a, const Gradient& g) -> Tensors {
                  Tensors in{g.head(), g.in(0), g.in(1)};
                  if (!a.no_trans) in.push_back(g.in(2));
                  Tensors d = apply(OpRegistry::global().get("_deformable_psroi_pooling_grad"), in,
                                    std::make_shared<const DeformablePoolingAttrs>(a));
                  return a.no_trans ? Tensors{d[0], Tensor()} : Tensors{d[0], Tensor(), d[1]};
                })
      .sample({{2, 8, 6, 6}, uniform_sample({3, 5}, 0, 2), {3, 2, 2, 2}}, deformable_sample())
      .sample({{2, 8, 6, 6}, uniform_sample({3, 5}, 0, 2)}, [] {
        DeformablePoolingAttrs a = deformable_sample();
        a.no_trans = true;
        return a;
      }());
}
GLUINO_OP(_deformable_psroi_pooling_grad, DeformablePoolingAttrs) {
  op.doc("The gradients of DeformablePSROIPooling with respect to data and shifts.")
      .input("head")
      .input("data")
      .input("rois")
      .input("trans")
      .present_if([](const DeformablePoolingAttrs& a) { return !a.no_trans; })
      .num_outputs([](const DeformablePoolingAttrs& a) { return a.no_trans ? 1 : 2; })
      .kernel_dtypes(real_dtypes())
      .shape([](const DeformablePoolingAttrs& a, std::span<const Shape> in) {
        check_head(in[0], pooled_shape(a, in[1], in[2]));
        shift_classes(a, in.subspan(1));
        std::vector<Shape> out{in[1]};
        if (!a.no_trans) out.push_back(in[3]);
        return out;
      })
      .refuses_values()
      .kernel([](const DeformablePoolingAttrs& a, KernelContext& k) {
        const Shape shapes[] = {k.in(1).shape(), k.in(2).shape(), a.no_trans ? Shape{} : k.in(3).shape()};
        const int64_t parts = a.parts() * a.parts();
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for (int i = 0; i < k.num_outputs(); ++i) std::fill_n(k.out_data<T>(i), k.out(i).size(), T(0));
          for_places<T>(
              a, shapes[0], k.data<T>(2), shapes[1][0], a.no_trans ? nullptr : k.data<T>(3), shift_classes(a, shapes),
              [](int64_t, int64_t) {},
              [&](int64_t element, int64_t plane, int64_t shift_x, T roi_h, T roi_w, T read, const Corners<T>& c) {
                const T head = k.data<T>(0)[element] / read;
                for (int i = 0; i < 4; ++i) k.out_data<T>(0)[plane + c.at[i]] += head * c.weight[i];
                if (shift_x < 0) return;
                const T* data = k.data<T>(1) + plane;
                k.out_data<T>(1)[shift_x] += head * dot(data, c, c.slope_x) * static_cast<T>(a.trans_std) * roi_w;
                k.out_data<T>(1)[shift_x + parts] += head * dot(data, c, c.slope_y) * static_cast<T>(a.trans_std) * roi_h;
              });
        });
      })
      .not_differentiable("second derivatives of places are not written")
      .sample({{3, 2, 2, 2}, {2, 8, 6, 6}, uniform_sample({3, 5}, 0, 2), {3, 2, 2, 2}}, deformable_sample());
}

// ---- rotated regions

struct RotatedAttrs {
  Shape pooled_size;
  double spatial_scale = 1;
  int64_t sampling_ratio = -1;
  static void fields(AttrFields<RotatedAttrs>& f) {
    f.required("pooled_size", &RotatedAttrs::pooled_size, "height and width of a pooled region")
        .required("spatial_scale", &RotatedAttrs::spatial_scale, "size of the feature map by size of the image")
        .field("sampling_ratio", &RotatedAttrs::sampling_ratio,
               "places per axis that a cell reads; as many as it has pixels where negative");
  }
};
template <class T>
void pool_rotated(const RotatedAttrs& a, const Shape& s, const T* data, const T* roi, int64_t image, T* out) {
  const int64_t rows = a.pooled_size[0], columns = a.pooled_size[1], height = s[2], width = s[3];
  const T scale = static_cast<T>(a.spatial_scale);
  const T w = std::max(kept_finite(roi[3] * scale), T(1)), h = std::max(kept_finite(roi[4] * scale), T(1));
  const T angle = kept_finite(roi[5]) * std::numbers::pi_v<T> / 180, c = std::cos(angle), sn = std::sin(angle);
  const T bin_w = w / static_cast<T>(columns), bin_h = h / static_cast<T>(rows);
  constexpr T kMost = 64;  // places per axis of a cell: a region far larger than the picture is read coarsely
  const auto places = [&](T bin) {
    return a.sampling_ratio > 0 ? a.sampling_ratio : static_cast<int64_t>(std::min(std::ceil(bin), kMost));
  };
  const int64_t grid_h = places(bin_h), grid_w = places(bin_w);
  for (int64_t cell = 0; cell < rows * columns; ++cell) {
    for (int64_t channel = 0; channel < s[1]; ++channel) out[channel * rows * columns + cell] = 0;
    for (int64_t i = 0; i < grid_h * grid_w; ++i) {
      const T yy = -h / 2 + (static_cast<T>(cell / columns) + (static_cast<T>(i / grid_w) + T(0.5)) / static_cast<T>(grid_h)) * bin_h,
              xx = -w / 2 + (static_cast<T>(cell % columns) + (static_cast<T>(i % grid_w) + T(0.5)) / static_cast<T>(grid_w)) * bin_w;
      const T x = kept_finite(xx * c + yy * sn + roi[1] * scale), y = kept_finite(yy * c - xx * sn + roi[2] * scale);
      if (y < -1 || y > static_cast<T>(height) || x < -1 || x > static_cast<T>(width)) continue;
      const Corners<T> read = corners_of(y, x, height, width);
      for (int64_t channel = 0; channel < s[1]; ++channel)
        out[channel * rows * columns + cell] +=
            dot(data + (image * s[1] + channel) * height * width, read, read.weight) / static_cast<T>(grid_h * grid_w);
    }
  }
}
GLUINO_OP(_contrib_RROIAlign, RotatedAttrs) {
  op.doc("The averages of the cells of rotated regions: rows of (image, centre x, centre y, width, height, angle in degrees).")
      .input("data")
      .input("rois")
      .kernel_dtypes(real_dtypes())
      .shape([](const RotatedAttrs& a, std::span<const Shape> in) {
        check_pixels(in[0]);
        if (in[1].ndim() != 2 || in[1][1] != 6)
          raise<ShapeError>("rois have shape {}, but (regions, 6) is needed: image, x, y, width, height, angle", in[1]);
        if (a.pooled_size.ndim() != 2 || a.pooled_size[0] < 1 || a.pooled_size[1] < 1)
          raise<AttrError>("pooled_size = {}, but a height and a width are needed", a.pooled_size);
        if (a.sampling_ratio > 1024) raise<AttrError>("sampling_ratio = {} is absurd", a.sampling_ratio);
        return Shape{in[1][0], in[0][1], a.pooled_size[0], a.pooled_size[1]};
      })
      .refuses_values()
      .kernel([](const RotatedAttrs& a, KernelContext& k) {
        const int64_t regions = k.in(1).extent(0), each = regions ? k.out().size() / regions : 0;
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          for (int64_t n = 0; n < regions; ++n) {
            const T* roi = k.data<T>(1) + n * 6;
            pool_rotated(a, k.in(0).shape(), k.data<T>(0), roi, image_of(static_cast<double>(roi[0]), k.in(0).extent(0), n),
                         k.out_data<T>() + n * each);
          }
        });
      })
      .not_differentiable("regions are rotated when predicting only")
      .sample({{2, 3, 6, 6}, uniform_sample({2, 6}, 0.5, 1.5)}, {.pooled_size = {2, 2}, .spatial_scale = 1.0, .sampling_ratio = 2});
}

}  // namespace
}  // namespace gluino::ops
