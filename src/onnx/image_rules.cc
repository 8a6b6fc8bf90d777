// Resizing and sampling of images. Resize is separable: each axis is a choice of elements, or a product with a matrix of weights.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

struct Resizing {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, outside = 0;
  bool exclude_outside = false;
};

// Where element i of the result lies in the input.
double source_of(const Resizing& r, int64_t i, int64_t in, int64_t out, double scale, double start, double end) {
  const auto at = static_cast<double>(i), n = static_cast<double>(in), m = static_cast<double>(out);
  // The length before it was rounded down counts here, as ONNX's own tests have it.
  if (r.coordinates == "align_corners") return out == 1 ? 0 : at * (n - 1) / (n * scale - 1);
  if (r.coordinates == "asymmetric") return at / scale;
  if (r.coordinates == "tf_half_pixel_for_nn") return (at + 0.5) / scale;
  if (r.coordinates == "pytorch_half_pixel") return out > 1 ? (at + 0.5) / scale - 0.5 : 0;
  if (r.coordinates == "tf_crop_and_resize")
    return out > 1 ? start * (n - 1) + at * (end - start) * (n - 1) / (m - 1) : 0.5 * (start + end) * (n - 1);
  if (r.coordinates == "half_pixel_symmetric") {
    const double adjustment = m / (n * scale), offset = n / 2 * (1 - adjustment);
    return offset + (at + 0.5) / scale - 0.5;
  }
  if (r.coordinates != "half_pixel") raise<AttrError>("coordinate_transformation_mode '{}' is not known", r.coordinates);
  return (at + 0.5) / scale - 0.5;
}

int64_t nearest_to(const Resizing& r, double x, int64_t in) {
  double at = std::ceil(x - 0.5);
  if (r.nearest == "round_prefer_ceil") at = std::floor(x + 0.5);
  if (r.nearest == "floor") at = std::floor(x);
  if (r.nearest == "ceil") at = std::ceil(x);
  return std::clamp<int64_t>(static_cast<int64_t>(at), 0, in - 1);
}

double cubic_weight(double distance, double a) {
  const double x = std::abs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// A row of weights of the input's elements for one element of the result.
void add_weights(const Resizing& r, double x, int64_t in, double* row) {
  const auto first = static_cast<int64_t>(std::floor(x));
  const bool cubic = r.mode == "cubic";
  double total = 0;
  for (int64_t k = cubic ? first - 1 : first; k <= (cubic ? first + 2 : first + 1); ++k) {
    const double distance = x - static_cast<double>(k);
    const double weight = cubic ? cubic_weight(distance, r.cubic) : std::max(0.0, 1 - std::abs(distance));
    if (r.exclude_outside && (k < 0 || k >= in)) continue;
    row[std::clamp<int64_t>(k, 0, in - 1)] += weight;
    total += weight;
  }
  if (r.exclude_outside && total != 0)
    for (int64_t k = 0; k < in; ++k) row[k] /= total;
}

struct Axis {
  int64_t out;
  double scale, start = 0, end = 1;
};

Tensor resize_axis(const Resizing& r, const Tensor& x, int axis, const Axis& a) {
  const int64_t in = x.extent(axis);
  if (a.out == in && a.scale == 1 && r.coordinates != "tf_crop_and_resize") return x;
  if (in < 1 || a.out < 1) raise<ShapeError>("axis {} of {} elements cannot become {}", axis, in, a.out);
  std::vector<double> sources, inside;
  for (int64_t i = 0; i < a.out; ++i) {
    const double at = source_of(r, i, in, a.out, a.scale, a.start, a.end);
    inside.push_back(r.coordinates == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(in - 1)) ? 0 : 1);
    sources.push_back(at);
  }
  Tensor y;
  if (r.mode == "nearest") {
    std::vector<int64_t> places;
    for (const double at : sources) places.push_back(nearest_to(r, at, in));
    y = take(x, from_vector(places), {.axis = axis, .mode = "clip"});  // all are in range: no call has to find that out
  } else {
    std::vector<double> weights(static_cast<size_t>(a.out * in), 0.0);
    for (int64_t i = 0; i < a.out; ++i) add_weights(r, sources[static_cast<size_t>(i)], in, weights.data() + i * in);
    const Tensor matrix = from_vector(weights, Shape{a.out, in}, {.dtype = x.dtype()});
    Shape order;
    for (int i = 0; i < x.ndim(); ++i) order.push_back(i);
    std::swap(order[axis], order[x.ndim() - 1]);
    y = transpose(dot(transpose(x, {.axes = order}), matrix, {.transpose_b = true}), {.axes = order});
  }
  if (std::find(inside.begin(), inside.end(), 0.0) == inside.end()) return y;
  Shape shape = Shape::filled(x.ndim(), 1);
  shape[axis] = a.out;
  const Tensor mask = from_vector(inside, shape, {.dtype = DType::boolean});
  return where_broadcast(mask, y, constant_of(r.outside, x.dtype()));
}

Tensor resize_by(Call& c, const Resizing& r, int scales_input, int sizes_input, int roi_input) {
  Tensor x = c.in(0);
  const int rank = x.ndim();
  std::vector<int64_t> axes = c.integers("axes"), sizes;
  if (axes.empty())
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  std::vector<double> scales = c.numbers("scales"), region;
  if (c.has(scales_input)) scales = c.numbers(scales_input);
  if (c.has(sizes_input)) sizes = c.whole_numbers(sizes_input);
  if (c.has(roi_input)) region = c.numbers(roi_input);
  if (c.integer("antialias", 0)) c.refuse("antialias is not supported");
  if (c.text("keep_aspect_ratio_policy", "stretch") != "stretch") c.refuse("keep_aspect_ratio_policy is not supported");
  const size_t n = sizes.empty() ? scales.size() : sizes.size();
  if (n != axes.size()) raise<ShapeError>("{} scales or sizes were given for {} axes", n, axes.size());
  const bool crops = r.coordinates == "tf_crop_and_resize" && region.size() == 2 * n;
  for (size_t k = 0; k < n; ++k) {
    // The last axis first: then rows are chosen whole, as often as they are wanted.
    const size_t i = r.mode == "nearest" ? n - 1 - k : k;
    const int axis = c.axis(axes[i], rank);
    Axis a{};
    if (sizes.empty()) {
      if (scales[i] == 1 && !crops) continue;
      a = {static_cast<int64_t>(std::floor(static_cast<double>(x.extent(axis)) * scales[i])), scales[i]};
    } else {
      a = {sizes[i], static_cast<double>(sizes[i]) / static_cast<double>(x.extent(axis))};
    }
    if (crops) a.start = region[i], a.end = region[i + n];
    x = resize_axis(r, x, axis, a);
  }
  return x;
}

Tensor resize_image(Call& c) {
  Resizing r{.mode = c.text("mode", "nearest"),
             .coordinates = c.text("coordinate_transformation_mode", "half_pixel"),
             .nearest = c.text("nearest_mode", "round_prefer_floor"),
             .cubic = c.number("cubic_coeff_a", -0.75),
             .outside = c.number("extrapolation_value", 0),
             .exclude_outside = c.integer("exclude_outside", 0) != 0};
  if (c.version() >= 11) return resize_by(c, r, 2, 3, 1);
  r.coordinates = "asymmetric", r.nearest = "floor";
  return resize_by(c, r, 1, 99, 99);
}

Tensor upsample(Call& c) {
  Resizing r{.mode = c.text("mode", "nearest"), .coordinates = "asymmetric", .nearest = "floor"};
  return resize_by(c, r, 1, 99, 99);
}

// ---- GridSample

struct Sampling {
  std::string padding;
  bool align_corners;
};

// Coordinates beyond the edges mirrored back: at the border's centre, or at its outer edge.
Tensor reflected(const Tensor& x, int64_t n, bool align_corners) {
  const double low = align_corners ? 0 : -0.5, length = static_cast<double>(n) - (align_corners ? 1 : 0);
  if (length <= 0) return zeros_like(x);
  const Tensor folded = abs(x - low) % (2 * length);
  return broadcast_minimum(folded, folded * -1.0 + 2 * length) + low;
}

struct Taps {
  Tensor place, weight;  // whole numbers as floats, possibly outside; weight may be null
};

std::vector<Taps> taps_along(const std::string& mode, const Tensor& at) {
  if (mode == "nearest") return {{round_to_even(at), {}}};
  const Tensor first = floor(at), t = at - first;
  if (mode == "bilinear" || mode == "linear") return {{first, 1.0 - t}, {first + 1, t}};
  const auto cubic = [](const Tensor& d, bool near) {
    constexpr double a = -0.75;
    return near ? (d * (a + 2) - (a + 3)) * d * d + 1 : ((d * a - 5 * a) * d + 8 * a) * d - 4 * a;
  };
  return {{first - 1, cubic(t + 1, false)}, {first, cubic(t, true)}, {first + 1, cubic(1.0 - t, true)}, {first + 2, cubic(2.0 - t, false)}};
}

Tensor grid_sample(Call& c) {
  const Tensor x = c.in(0), grid = c.in(1);
  if (x.ndim() != 4) c.refuse("GridSample is supported for images, (batch, channels, height, width)");
  const Sampling s{c.text("padding_mode", "zeros"), c.integer("align_corners", 0) != 0};
  const std::string mode = c.text("mode", "bilinear");
  const int64_t channels = x.extent(1), height = x.extent(2), width = x.extent(3), rows = grid.extent(1), columns = grid.extent(2);
  const auto pixels = [&](int64_t which, int64_t n) {
    const Tensor g = squeeze(slice_axis(grid, {.axis = 3, .begin = which, .end = std::optional<int64_t>(which + 1)}), {.axis = Shape{3}});
    const auto extent = static_cast<double>(n);
    Tensor at = s.align_corners ? (g + 1) * ((extent - 1) / 2) : ((g + 1) * extent - 1) / 2;
    if (s.padding == "border" && mode != "bicubic" && mode != "cubic") at = clip(at, {.a_min = 0, .a_max = extent - 1});
    if (s.padding == "reflection" && mode != "bicubic" && mode != "cubic")
      at = clip(reflected(at, n, s.align_corners), {.a_min = 0, .a_max = extent - 1});
    return at;
  };
  // A whole place outside the image, brought inside as the padding says; and whether it counts.
  const auto settle = [&](const Tensor& place, int64_t n) -> std::pair<Tensor, Tensor> {
    const auto last = static_cast<double>(n - 1);
    const Tensor inside = broadcast_mul(place >= 0, place <= last).astype(x.dtype());
    const Tensor turned = s.padding == "reflection" ? reflected(place, n, s.align_corners) : place;
    return {clip(turned, {.a_min = 0, .a_max = last}), s.padding == "zeros" ? inside : Tensor()};
  };
  const Tensor flat = x.reshape({0, 0, -1});
  const auto xs = taps_along(mode, pixels(0, width)), ys = taps_along(mode, pixels(1, height));
  Tensor result;
  for (const Taps& v : ys)
    for (const Taps& h : xs) {
      const auto [row, row_counts] = settle(v.place, height);
      const auto [column, column_counts] = settle(h.place, width);
      const Tensor places = (row * static_cast<double>(width) + column).astype(DType::int64).reshape({0, 1, -1});
      const Tensor wide = broadcast_axis(places, {.axis = Shape{1}, .size = Shape{channels}});
      Tensor value = call("_take_along_axis", {flat, wide}, {{"axis", int64_t{2}}});
      for (const Tensor& factor : {v.weight, h.weight, row_counts, column_counts})
        if (factor.defined()) value = broadcast_mul(value, factor.reshape({0, 1, -1}));
      result = result.defined() ? result + value : value;
    }
  return result.reshape({0, 0, rows, columns});
}

Tensor aligned_regions(Call& c) {
  if (c.text("mode", "avg") != "avg") c.refuse("RoiAlign is supported with mode 'avg' only");
  const std::string transformation = c.text("coordinate_transformation_mode", c.version() >= 16 ? "half_pixel" : "output_half_pixel");
  const DType dtype = c.in(0).dtype();
  const Tensor regions = concat({c.in(2).astype(dtype).reshape({-1, 1}), c.in(1)}, {.dim = 1});
  return roi_align(c.in(0), regions,
                   {.pooled_size = Shape{c.integer("output_height", 1), c.integer("output_width", 1)},
                    .spatial_scale = c.number("spatial_scale", 1),
                    .sample_ratio = c.integer("sampling_ratio", 0),
                    .aligned = transformation == "half_pixel"});
}

}  // namespace

void add_image_rules(Rules& rules) {
  rules.add("Resize", resize_image);
  rules.add("Upsample", upsample);
  rules.add("GridSample", grid_sample);
  rules.add("RoiAlign", aligned_regions);
}

}  // namespace gluino::onnx
