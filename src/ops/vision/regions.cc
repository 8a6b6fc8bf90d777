// Pooling of regions of interest, and correlation of two feature maps.
#include <cmath>
#include <cstring>
#include <limits>

#include "base/parallel.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

static void check_regions(const Shape& data, const Shape& rois, const Shape& pooled) {
  check_pixels(data);
  if (rois.ndim() != 2 || rois[1] != 5) raise<ShapeError>("rois have shape {}, but (regions, 5) is needed: image, x0, y0, x1, y1", rois);
  if (pooled.ndim() != 2 || pooled[0] < 1 || pooled[1] < 1)
    raise<AttrError>("pooled_size = {}, but a height and a width are needed", pooled);
}

// ---- ROIPooling
struct ROIPoolingAttrs {
  Shape pooled_size;
  double spatial_scale = 1;
  static void fields(AttrFields<ROIPoolingAttrs>& f) {
    f.required("pooled_size", &ROIPoolingAttrs::pooled_size, "height and width of a pooled region")
        .required("spatial_scale", &ROIPoolingAttrs::spatial_scale, "size of the feature map by size of the image");
  }
};

// A coordinate as a whole number, far enough from the ends to compute with; NaN is none.
template <class T>
static int64_t whole(T coordinate) {
  constexpr T kFar = T(int64_t{1} << 30);
  return std::isnan(coordinate) ? 0 : static_cast<int64_t>(std::clamp(coordinate, -kFar, kFar));
}

// The rows or columns [begin, end) of cell i out of `cells` of a region from `from` to `to`, both rounded and included.
struct Range {
  int64_t begin, end;
};
template <class T>
static Range cell_range(T from, T to, double scale, int64_t i, int64_t cells, int64_t limit) {
  const int64_t start = whole(std::round(from * static_cast<T>(scale))), stop = whole(std::round(to * static_cast<T>(scale)));
  const T step = static_cast<T>(std::max<int64_t>(stop - start + 1, 1)) / static_cast<T>(cells);
  const auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v, 0, limit); };
  return {clamp(start + static_cast<int64_t>(std::floor(static_cast<T>(i) * step))),
          clamp(start + static_cast<int64_t>(std::ceil(static_cast<T>(i + 1) * step)))};
}

static int64_t image_of(double value, int64_t batch, int64_t region) {
  if (value < 0) return -1;  // a region that stands for nothing
  if (!(value < static_cast<double>(batch))) raise<IndexError>("region {} is of image {}, but there are {}", region, value, batch);
  return static_cast<int64_t>(value);
}

static void roi_pooling_kernel(const ROIPoolingAttrs& a, KernelContext& k) {
  const Shape& s = k.in(0).shape();
  const int64_t rows = a.pooled_size[0], columns = a.pooled_size[1], cells = rows * columns, regions = k.in(1).extent(0);
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    T *out = k.out_data<T>(0), *chosen = k.out_data<T>(1);
    parallel_for(regions * s[1], kParallelGrain / (16 * cells) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * cells; i < end * cells; ++i) {
        const int64_t region = i / cells / s[1], channel = i / cells % s[1];
        const T* roi = k.data<T>(1) + region * 5;
        const int64_t image = image_of(roi[0], s[0], region);
        const Range y = cell_range(roi[2], roi[4], a.spatial_scale, i % cells / columns, rows, s[2]),
                    x = cell_range(roi[1], roi[3], a.spatial_scale, i % columns, columns, s[3]);
        int64_t best = -1;
        const T* plane = k.data<T>(0) + (image * s[1] + channel) * s[2] * s[3];
        for (int64_t r = y.begin; r < y.end && image >= 0; ++r)
          for (int64_t c = x.begin; c < x.end; ++c)
            if (best < 0 || plane[r * s[3] + c] > plane[best]) best = r * s[3] + c;
        out[i] = best < 0 ? T(0) : plane[best];
        chosen[i] = static_cast<T>(best);
      }
    });
  });
}

static Shape pooled_shape(const ROIPoolingAttrs& a, const Shape& data, const Shape& rois) {
  check_regions(data, rois, a.pooled_size);
  return {rois[0], data[1], a.pooled_size[0], a.pooled_size[1]};
}
GLUINO_OP(ROIPooling, ROIPoolingAttrs) {
  op.doc("The maximum of each cell of a grid laid over regions of the images.")
      .input("data")
      .input("rois")
      .kernel_dtypes(real_dtypes())
      .outputs({"output", "chosen"})
      .hidden_outputs(1)
      .shape([](const ROIPoolingAttrs& a, std::span<const Shape> in) { return pooled_shape(a, in[0], in[1]); })
      .refuses_values()
      .kernel(roi_pooling_kernel)
      .gradient({{1}, {1}},
                [](const ROIPoolingAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_roi_pooling_grad", {g.head(), g.in(1), g.out(1), g.like(0)}, a), Tensor()};
                })
      .sample_without_gradient({{2, 2, 5, 6}, index_sample({3, 5}, 2)}, {.pooled_size = {2, 2}});
}
GLUINO_OP(_roi_pooling_grad, ROIPoolingAttrs) {
  op.doc("The gradient of ROIPooling with respect to data.")
      .input("head")
      .input("rois")
      .input("chosen")
      .input("data")
      .shape_only()
      .kernel_dtypes(real_dtypes())
      .shape([](const ROIPoolingAttrs& a, std::span<const Shape> in) {
        check_head(in[0], pooled_shape(a, in[3], in[1]));
        check_same_shape("chosen", in[2], in[0]);
        return in[3];
      })
      .refuses_values()
      .kernel([](const ROIPoolingAttrs&, KernelContext& k) {
        const Shape &s = k.out().shape(), &h = k.in(0).shape();
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          std::fill_n(k.out_data<T>(), k.out().size(), T(0));
          for (int64_t i = 0, elements = k.in(0).size(); i < elements; ++i) {
            const int64_t plane = i / (h[2] * h[3]), chosen = static_cast<int64_t>(k.data<T>(2)[i]);
            const int64_t image = image_of(k.data<T>(1)[plane / h[1] * 5], s[0], plane / h[1]);
            if (chosen >= s[2] * s[3]) raise<IndexError>("pixel {} was chosen, but an image has {}", chosen, s[2] * s[3]);
            if (chosen >= 0 && image >= 0) k.out_data<T>()[(image * s[1] + plane % h[1]) * s[2] * s[3] + chosen] += k.data<T>(0)[i];
          }
        });
      })
      .not_differentiable("the second derivative of ROIPooling is not implemented")
      .sample({{3, 2, 2, 2}, index_sample({3, 5}, 2), index_sample({3, 2, 2, 2}, 30), {2, 2, 5, 6}}, {.pooled_size = {2, 2}});
}

// ---- ROIAlign (He et al., "Mask R-CNN"): averages of bilinear samples
struct ROIAlignAttrs {
  Shape pooled_size;
  double spatial_scale = 1;
  int64_t sample_ratio = -1;
  bool position_sensitive = false, aligned = false;
  static void fields(AttrFields<ROIAlignAttrs>& f) {
    f.required("pooled_size", &ROIAlignAttrs::pooled_size, "height and width of a pooled region")
        .required("spatial_scale", &ROIAlignAttrs::spatial_scale, "size of the feature map by size of the image")
        .field("sample_ratio", &ROIAlignAttrs::sample_ratio, "samples per cell and axis; not positive: as many as the cell has pixels")
        .field("position_sensitive", &ROIAlignAttrs::position_sensitive, "every cell reads channels of its own")
        .field("aligned", &ROIAlignAttrs::aligned, "shift the regions by half a pixel");
  }
};

// Of the samples [0, count) of a cell along one axis, those that may lie in [-1, extent]: the others add nothing, and a cell may be
// far larger than the image.
template <class T>
static Range samples_inside(T cell_start, T cell_extent, int64_t count, int64_t extent) {
  if (count == 1 || !(cell_extent > 0)) return {0, count};
  const T step = cell_extent / static_cast<T>(count);
  return {std::clamp<int64_t>(whole((-1 - cell_start) / step) - 2, 0, count),
          std::clamp<int64_t>(whole((static_cast<T>(extent) - cell_start) / step) + 2, 0, count)};
}

// Calls f(position in the output, position in the data, weight) for everything that region pooling adds up.
template <class T, class F>
static void for_each_sample(const ROIAlignAttrs& a, const Shape& data, const Shape& out, const T* rois, int64_t begin, int64_t end, F&& f) {
  const int64_t rows = out[2], columns = out[3], cells = rows * columns;
  for (int64_t i = begin; i < end; ++i) {  // a cell of a channel of a region
    const int64_t region = i / cells / out[1], channel = i / cells % out[1], row = i % cells / columns, column = i % columns;
    const T *roi = rois + region * 5, shift = a.aligned ? T(0.5) : T(0), scale = static_cast<T>(a.spatial_scale);
    const int64_t image = image_of(roi[0], data[0], region), source = a.position_sensitive ? channel * cells + i % cells : channel;
    if (image < 0) continue;
    const T x0 = roi[1] * scale - shift, y0 = roi[2] * scale - shift;
    T width = roi[3] * scale - shift - x0, height = roi[4] * scale - shift - y0;
    if (!a.aligned) width = std::max(width, T(1)), height = std::max(height, T(1));
    const T cell_width = width / static_cast<T>(columns), cell_height = height / static_cast<T>(rows);
    const int64_t nx = std::max<int64_t>(a.sample_ratio > 0 ? a.sample_ratio : whole(std::ceil(cell_width)), 1);
    const int64_t ny = std::max<int64_t>(a.sample_ratio > 0 ? a.sample_ratio : whole(std::ceil(cell_height)), 1);
    const Range columns_inside = samples_inside(x0 + cell_width * static_cast<T>(column), cell_width, nx, data[3]),
                rows_inside = samples_inside(y0 + cell_height * static_cast<T>(row), cell_height, ny, data[2]);
    const int64_t width_inside = columns_inside.end - columns_inside.begin;
    for (int64_t p = 0; p < width_inside * (rows_inside.end - rows_inside.begin); ++p) {
      const int64_t px = columns_inside.begin + p % width_inside, py = rows_inside.begin + p / width_inside;
      T x = x0 + cell_width * (static_cast<T>(column) + (static_cast<T>(px) + T(0.5)) / static_cast<T>(nx));
      T y = y0 + cell_height * (static_cast<T>(row) + (static_cast<T>(py) + T(0.5)) / static_cast<T>(ny));
      if (!(x >= -1 && x <= static_cast<T>(data[3]) && y >= -1 && y <= static_cast<T>(data[2]))) continue;
      x = std::clamp(x, T(0), static_cast<T>(data[3] - 1));
      y = std::clamp(y, T(0), static_cast<T>(data[2] - 1));
      const auto left = static_cast<int64_t>(x), top = static_cast<int64_t>(y), right = std::min(left + 1, data[3] - 1),
                 low = std::min(top + 1, data[2] - 1);
      const T fx = x - static_cast<T>(left), fy = y - static_cast<T>(top), share = 1 / static_cast<T>(nx * ny);
      const int64_t plane = (image * data[1] + source) * data[2];
      f(i, (plane + top) * data[3] + left, (1 - fx) * (1 - fy) * share);
      f(i, (plane + top) * data[3] + right, fx * (1 - fy) * share);
      f(i, (plane + low) * data[3] + left, (1 - fx) * fy * share);
      f(i, (plane + low) * data[3] + right, fx * fy * share);
    }
  }
}

static Shape aligned_shape(const ROIAlignAttrs& a, const Shape& data, const Shape& rois) {
  constexpr int64_t kMostSamples = 128;
  check_regions(data, rois, a.pooled_size);
  if (a.sample_ratio > kMostSamples) raise<AttrError>("sample_ratio = {}, but at most {} is supported", a.sample_ratio, kMostSamples);
  const int64_t cells = a.pooled_size.elements();
  if (a.position_sensitive && data[1] % cells)
    raise<ShapeError>("position_sensitive needs a multiple of {} channels, but data has shape {}", cells, data);
  return {rois[0], a.position_sensitive ? data[1] / cells : data[1], a.pooled_size[0], a.pooled_size[1]};
}
GLUINO_OP(_contrib_ROIAlign, ROIAlignAttrs) {
  op.doc("The average of bilinear samples in each cell of a grid laid over regions of the images.")
      .input("data")
      .input("rois")
      .kernel_dtypes(real_dtypes())
      .shape([](const ROIAlignAttrs& a, std::span<const Shape> in) { return aligned_shape(a, in[0], in[1]); })
      .refuses_values()
      .kernel([](const ROIAlignAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T *data = k.data<T>(0), *rois = k.data<T>(1);
          T* out = k.out_data<T>();
          parallel_for(k.out().size(), kParallelGrain / 64, [&](int64_t begin, int64_t end) {
            std::fill(out + begin, out + end, T(0));
            for_each_sample(a, k.in(0).shape(), k.out().shape(), rois, begin, end,
                            [&](int64_t to, int64_t from, T w) { out[to] += w * data[from]; });
          });
        });
      })
      .gradient({{1}, {}},
                [](const ROIAlignAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_roi_align_grad", {g.head(), g.in(1), g.like(0)}, a), Tensor()};
                })
      .sample_without_gradient({{2, 2, 5, 6}, index_sample({3, 5}, 2)}, {.pooled_size = {2, 2}})
      .sample_without_gradient({{2, 4, 5, 6}, index_sample({3, 5}, 2)},
                               {.pooled_size = {2, 2}, .sample_ratio = 2, .position_sensitive = true, .aligned = true});
}
GLUINO_OP(_roi_align_grad, ROIAlignAttrs) {
  op.doc("The gradient of _contrib_ROIAlign with respect to data.")
      .input("head")
      .input("rois")
      .input("data")
      .shape_only()
      .kernel_dtypes(real_dtypes())
      .shape([](const ROIAlignAttrs& a, std::span<const Shape> in) { return check_head(in[0], aligned_shape(a, in[2], in[1])), in[2]; })
      .refuses_values()
      .kernel([](const ROIAlignAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T* head = k.data<T>(0);
          T* out = k.out_data<T>();
          std::fill_n(out, k.out().size(), T(0));
          for_each_sample(a, k.out().shape(), k.in(0).shape(), k.data<T>(1), 0, k.in(0).size(),
                          [&](int64_t from, int64_t to, T w) { out[to] += w * head[from]; });
        });
      })
      .not_differentiable("the second derivative of ROIAlign is not implemented")
      .sample({{3, 2, 2, 2}, index_sample({3, 5}, 2), {2, 2, 5, 6}}, {.pooled_size = {2, 2}});
}

// ---- Correlation (Dosovitskiy et al., "FlowNet")
struct CorrelationAttrs {
  int64_t kernel_size = 1, max_displacement = 1, stride1 = 1, stride2 = 1, pad_size = 0;
  bool is_multiply = true;
  static void fields(AttrFields<CorrelationAttrs>& f) {
    f.field("kernel_size", &CorrelationAttrs::kernel_size, "extent of the patches, an odd number")
        .field("max_displacement", &CorrelationAttrs::max_displacement, "largest displacement")
        .field("stride1", &CorrelationAttrs::stride1, "step in the first map")
        .field("stride2", &CorrelationAttrs::stride2, "step of the displacements")
        .field("pad_size", &CorrelationAttrs::pad_size, "zeros around the maps")
        .field("is_multiply", &CorrelationAttrs::is_multiply, "products, or else absolute differences");
  }
  int64_t radius() const { return max_displacement / stride2; }
  int64_t border() const { return max_displacement + (kernel_size - 1) / 2; }
};
static Shape correlation_shape(const CorrelationAttrs& a, std::span<const Shape> in) {
  if (in[0].ndim() != 4 || !(in[0] == in[1]))
    raise<ShapeError>("two maps of the same shape (batch, channels, height, width) are needed, but they are {} and {}", in[0], in[1]);
  if (a.kernel_size < 1 || a.kernel_size % 2 == 0 || a.stride1 < 1 || a.stride2 < 1)
    raise<AttrError>("kernel_size = {} must be odd and the strides {} and {} positive", a.kernel_size, a.stride1, a.stride2);
  constexpr int64_t kMost = int64_t{1} << 24;  // sums and products of these numbers do not overflow
  if (a.max_displacement < 0 || a.pad_size < 0 || std::max({a.kernel_size, a.max_displacement, a.stride1, a.stride2, a.pad_size}) > kMost)
    raise<AttrError>("max_displacement = {} and pad_size = {} must not be negative, and no attribute above {}", a.max_displacement,
                     a.pad_size, kMost);
  const auto extent = [&](int64_t n) { return (n + 2 * a.pad_size - 2 * a.border() + a.stride1 - 1) / a.stride1; };
  const int64_t side = 2 * a.radius() + 1, height = extent(in[0][2]), width = extent(in[0][3]);
  if (height < 1 || width < 1) raise<ShapeError>("maps of shape {} are too small for max_displacement = {}", in[0], a.max_displacement);
  return {in[0][0], side * side, height, width};
}
// The offsets of a patch, from -half to half, at which `at` or `at + shift` lies in a map of the given extent.
struct Overlap {
  Range ranges[2];
  Overlap(int64_t at, int64_t shift, int64_t half, int64_t extent) {
    const auto inside = [&](int64_t from) { return Range{std::max(-half, -from), std::min(half + 1, extent - from)}; };
    ranges[0] = inside(std::max(at, at + shift));
    ranges[1] = inside(std::min(at, at + shift));
    ranges[1].begin = std::max(ranges[1].begin, ranges[0].end);  // those of the first range once only
  }
  template <class F>
  void visit(F&& f) const {
    for (const Range& r : ranges)
      for (int64_t i = r.begin; i < r.end; ++i) f(i);
  }
};
// Calls f(output position, position in map 1 or -1, position in map 2 or -1) for every pair that is compared; -1 is padding.
template <class F>
static void for_each_pair(const CorrelationAttrs& a, const Shape& in, const Shape& out, F&& f) {
  const int64_t side = 2 * a.radius() + 1, half = a.kernel_size / 2;
  const auto position = [&](int64_t plane, int64_t y, int64_t x) {
    return y < 0 || x < 0 || y >= in[2] || x >= in[3] ? -1 : (plane * in[2] + y) * in[3] + x;
  };
  parallel_for(in[0], 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin * out.elements(1, 4); o < end * out.elements(1, 4); ++o) {
      const int64_t n = o / out.elements(1, 4), d = o / (out[2] * out[3]) % out[1];
      const int64_t y = o / out[3] % out[2] * a.stride1 + a.border() - a.pad_size, x = o % out[3] * a.stride1 + a.border() - a.pad_size;
      const int64_t dy = (d / side - a.radius()) * a.stride2, dx = (d % side - a.radius()) * a.stride2;
      // A pair of which both lie in the padding adds nothing. Patches may be far larger than the maps.
      const Overlap rows(y, dy, half, in[2]), columns(x, dx, half, in[3]);
      for (int64_t c = 0; c < in[1]; ++c)
        rows.visit([&](int64_t ky) {
          columns.visit(
              [&](int64_t kx) { f(o, position(n * in[1] + c, y + ky, x + kx), position(n * in[1] + c, y + dy + ky, x + dx + kx)); });
        });
    }
  });
}
static double pair_share(const CorrelationAttrs& a, const Shape& in) {
  return 1 / static_cast<double>(a.kernel_size * a.kernel_size * std::max<int64_t>(in[1], 1));
}

GLUINO_OP(Correlation, CorrelationAttrs) {
  op.doc("Compares patches of two feature maps at all displacements.")
      .input("data1")
      .input("data2")
      .kernel_dtypes(real_dtypes())
      .shape(correlation_shape)
      .kernel([](const CorrelationAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T *first = k.data<T>(0), *second = k.data<T>(1), share = static_cast<T>(pair_share(a, k.in(0).shape()));
          T* out = k.out_data<T>();
          std::fill_n(out, k.out().size(), T(0));
          for_each_pair(a, k.in(0).shape(), k.out().shape(), [&](int64_t o, int64_t i, int64_t j) {
            const T x = i < 0 ? T(0) : first[i], y = j < 0 ? T(0) : second[j];
            out[o] += share * (a.is_multiply ? x * y : std::abs(x - y));
          });
        });
      })
      .gradient({{0, 1}, {}},
                [](const CorrelationAttrs& a, const Gradient& g) {
                  return call_all_with("_correlation_grad", {g.head(), g.in(0), g.in(1)}, a);
                })
      .sample({{1, 2, 4, 5}, {1, 2, 4, 5}}, {.max_displacement = 1, .pad_size = 1})
      .sample({{1, 2, 6, 5}, {1, 2, 6, 5}}, {.kernel_size = 3, .max_displacement = 2, .stride2 = 2, .pad_size = 3, .is_multiply = false});
}
GLUINO_OP(_correlation_grad, CorrelationAttrs) {
  op.doc("The gradients of Correlation.")
      .input("head")
      .input("data1")
      .input("data2")
      .outputs({"data1_grad", "data2_grad"})
      .kernel_dtypes(real_dtypes())
      .shape([](const CorrelationAttrs& a, std::span<const Shape> in) {
        check_head(in[0], correlation_shape(a, in.subspan(1)));
        return std::vector<Shape>{in[1], in[2]};
      })
      .kernel([](const CorrelationAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T *head = k.data<T>(0), *first = k.data<T>(1), *second = k.data<T>(2),
                  share = static_cast<T>(pair_share(a, k.in(1).shape()));
          T *d1 = k.out_data<T>(0), *d2 = k.out_data<T>(1);
          std::fill_n(d1, k.out(0).size(), T(0));
          std::fill_n(d2, k.out(1).size(), T(0));
          for_each_pair(a, k.in(1).shape(), k.in(0).shape(), [&](int64_t o, int64_t i, int64_t j) {
            const T x = i < 0 ? T(0) : first[i], y = j < 0 ? T(0) : second[j], h = head[o] * share,
                    sign = static_cast<T>((x > y) - (x < y));
            if (i >= 0) d1[i] += h * (a.is_multiply ? y : sign);
            if (j >= 0) d2[j] += h * (a.is_multiply ? x : -sign);
          });
        });
      })
      .not_differentiable("the second derivative of Correlation is not implemented")
      .sample({{1, 9, 4, 5}, {1, 2, 4, 5}, {1, 2, 4, 5}}, {.max_displacement = 1, .pad_size = 1});
}

}  // namespace
}  // namespace gluino::ops
