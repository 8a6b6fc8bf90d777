// Transformations of images with channels last, as data pipelines use them.
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/extents.h"
#include "base/parallel.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

// A batch of images (height, width, channels); a single image is a batch of one.
struct ImageLayout {
  int64_t batch, height, width, channels;
};
static ImageLayout image_layout(const Shape& s) {
  if (s.ndim() == 3) return {1, s[0], s[1], s[2]};
  if (s.ndim() == 4) return {s[0], s[1], s[2], s[3]};
  raise<ShapeError>("data has shape {}, but (height, width, channels) with or without a batch axis is needed", s);
}
static Shape image_shape(const Shape& like, int64_t height, int64_t width, int64_t channels) {
  return like.ndim() == 3 ? Shape{height, width, channels} : Shape{like[0], height, width, channels};
}

GLUINO_OP(_image_to_tensor, NoAttrs) {
  op.doc("Images of 0 to 255 with channels last become floats of 0 to 1 with channels first.")
      .alias("_npx__image_to_tensor")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        const ImageLayout l = image_layout(in[0]);
        return in[0].ndim() == 3 ? Shape{l.channels, l.height, l.width} : Shape{l.batch, l.channels, l.height, l.width};
      })
      .dtype([](const NoAttrs&, std::span<const DType>, DType) { return DType::float32; })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const ImageLayout l = image_layout(k.in(0).shape());
        const int64_t area = l.height * l.width;
        float* out = k.out_data<float>();
        visit_dtype(k.in(0).dtype(), [&]<class T>(T*) {
          const T* data = k.data<T>(0);
          parallel_for(l.batch * l.channels, kParallelGrain / std::max<int64_t>(area, 1) + 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin * area; i < end * area; ++i) {
              const int64_t n = i / area / l.channels, c = i / area % l.channels;
              out[i] = static_cast<float>(data[(n * area + i % area) * l.channels + c]) / 255;
            }
          });
        });
      })
      .not_differentiable("it prepares data")
      .sample({index_sample({3, 4, 2}, 256)})
      .sample({index_sample({2, 3, 4, 3}, 256)});
}

struct ImageNormalizeAttrs {
  Floats mean{0.0}, std{1.0};
  static void fields(AttrFields<ImageNormalizeAttrs>& f) {
    f.field("mean", &ImageNormalizeAttrs::mean, "what is subtracted: one number, or one per channel")
        .field("std", &ImageNormalizeAttrs::std, "what is divided by: one number, or one per channel");
  }
};
static void normalize(const ImageNormalizeAttrs& a, KernelContext& k) {
  const Shape& s = k.out().shape();
  const int64_t channels = s[s.ndim() - 3], area = s[s.ndim() - 2] * s[s.ndim() - 1];
  const auto pick = [](const Floats& v, int64_t c) { return v[v.size() == 1 ? 0 : static_cast<size_t>(c)]; };
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const T* in = k.data<T>(0);
    T* out = k.out_data<T>();
    for (int64_t plane = 0; area > 0 && plane < k.out().size() / area; ++plane, in += area, out += area) {
      const T mean = static_cast<T>(pick(a.mean, plane % channels)), std = static_cast<T>(pick(a.std, plane % channels));
      for (int64_t i = 0; i < area; ++i) out[i] = (in[i] - mean) / std;
    }
  });
}
GLUINO_OP(_image_normalize, ImageNormalizeAttrs) {
  op.doc("Subtracts a mean and divides by a standard deviation per channel; channels are first.")
      .alias("_npx__image_normalize")
      .input("data")
      .kernel_dtypes(real_dtypes())
      .shape([](const ImageNormalizeAttrs& a, std::span<const Shape> in) {
        if (in[0].ndim() != 3 && in[0].ndim() != 4)
          raise<ShapeError>("data has shape {}, but (channels, height, width) with or without a batch axis is needed", in[0]);
        const auto channels = static_cast<size_t>(in[0][in[0].ndim() - 3]);
        for (const Floats* v : {&a.mean, &a.std})
          if (v->size() != 1 && v->size() != channels) raise<AttrError>("there are {} numbers for {} channels", v->size(), channels);
        return in[0];
      })
      .kernel([](const ImageNormalizeAttrs& a, KernelContext& k) { normalize(a, k); })
      .gradient({},
                [](const ImageNormalizeAttrs& a, const Gradient& g) -> Tensors {
                  return {call("_image_normalize", {g.head()}, {{"mean", Floats{0.0}}, {"std", a.std}})};
                })
      .sample({{2, 3, 2}}, {.mean = {0.1, 0.2}, .std = {0.5, 2}})
      .sample({{2, 3, 2, 2}}, {.mean = {0.1}, .std = {3}});
}

struct ImageCropAttrs {
  int64_t x = 0, y = 0, width = 1, height = 1;
  static void fields(AttrFields<ImageCropAttrs>& f) {
    f.required("x", &ImageCropAttrs::x, "left edge")
        .required("y", &ImageCropAttrs::y, "upper edge")
        .required("width", &ImageCropAttrs::width, "width of the part")
        .required("height", &ImageCropAttrs::height, "height of the part");
  }
};
GLUINO_OP(_image_crop, ImageCropAttrs) {
  op.doc("A rectangular part of images with channels last.")
      .alias("_npx__image_crop")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const ImageCropAttrs& a, std::span<const Shape> in) {
        const ImageLayout l = image_layout(in[0]);
        if (a.x < 0 || a.y < 0 || a.width < 1 || a.height < 1 || a.width > l.width - a.x || a.height > l.height - a.y)
          raise<AttrError>("the part x = {}, y = {}, width = {}, height = {} does not lie in images of shape {}", a.x, a.y, a.width,
                           a.height, in[0]);
        return image_shape(in[0], a.height, a.width, l.channels);
      })
      .kernel([](const ImageCropAttrs& a, KernelContext& k) {
        const ImageLayout l = image_layout(k.in(0).shape());
        const int64_t bytes = dtype_bytes(k.out().dtype()) * l.channels;
        for (int64_t r = 0; r < l.batch * a.height; ++r)
          std::copy_n(bytes_of(k.in(0)) + ((r / a.height * l.height + a.y + r % a.height) * l.width + a.x) * bytes, a.width * bytes,
                      bytes_of(k.out()) + r * a.width * bytes);
      })
      .not_differentiable("it prepares data")
      .sample({{4, 5, 2}}, {.x = 1, .y = 2, .width = 3, .height = 2});
}

static void flip(KernelContext& k, bool columns) {
  const ImageLayout l = image_layout(k.in(0).shape());
  const int64_t bytes = dtype_bytes(k.out().dtype()) * l.channels;
  for (int64_t i = 0; i < l.batch * l.height * l.width; ++i) {
    const int64_t x = i % l.width, y = i / l.width % l.height;
    const int64_t from = columns ? i - x + l.width - 1 - x : i + (l.height - 1 - 2 * y) * l.width;
    std::copy_n(bytes_of(k.in(0)) + from * bytes, bytes, bytes_of(k.out()) + i * bytes);
  }
}
static Shape same_images(const NoAttrs&, std::span<const Shape> in) {
  image_layout(in[0]);
  return in[0];
}
static void define_flip(OpBuilder<NoAttrs>& op, const char* name, bool left_right) {
  op.input("data")
      .dtypes(DTypeSet::any)
      .shape(same_images)
      .kernel([=](const NoAttrs&, KernelContext& k) { flip(k, left_right); })
      .gradient({}, [=](const Gradient& g) -> Tensors { return {call(name, {g.head()})}; })
      .sample({{3, 4, 2}});
}
GLUINO_OP(_image_flip_left_right, NoAttrs) {
  define_flip(op.doc("Mirrors images left to right; channels are last.").alias("_npx__image_flip_left_right"), "_image_flip_left_right",
              true);
}
GLUINO_OP(_image_flip_top_bottom, NoAttrs) {
  define_flip(op.doc("Mirrors images top to bottom; channels are last.").alias("_npx__image_flip_top_bottom"), "_image_flip_top_bottom",
              false);
}

struct ImageResizeAttrs {
  Shape size;
  bool keep_ratio = false;
  int64_t interp = 1;
  static void fields(AttrFields<ImageResizeAttrs>& f) {
    f.required("size", &ImageResizeAttrs::size, "width and height, or one number for both")
        .field("keep_ratio", &ImageResizeAttrs::keep_ratio, "with one number: that of the shorter edge")
        .field("interp", &ImageResizeAttrs::interp, "0: the nearest pixel, 1: between two, 2: cubic, 3: by area, 4: Lanczos' window");
  }
};
static Shape resized(const ImageResizeAttrs& a, const Shape& s) {
  const ImageLayout l = image_layout(s);
  if (a.size.ndim() < 1 || a.size.ndim() > 2 || a.size[0] < 1 || a.size.back() < 1)
    raise<AttrError>("size = {}, but one or two positive numbers are needed", a.size);
  if (l.height == 0 || l.width == 0) raise<ShapeError>("an image of shape {} has no pixels to resize", s);
  if (a.interp < 0 || a.interp > 4) raise<AttrError>("interp = {}, but 0 to 4 are known", a.interp);
  int64_t width = a.size[0], height = a.size.back();
  if (a.size.ndim() == 1 && a.keep_ratio && l.height < l.width)
    width = saturated_product(l.width, height) / std::max<int64_t>(l.height, 1);
  else if (a.size.ndim() == 1 && a.keep_ratio)
    height = saturated_product(l.height, width) / std::max<int64_t>(l.width, 1);
  return image_shape(s, height, width, l.channels);
}
// What each of `out` pixels along an axis is made of: `count` of the `in` pixels, with weights. Pixel centres are at halves, and pixels
// past an edge are those at the edge.
struct Taps {
  int64_t count;
  std::vector<int64_t> at;
  std::vector<float> weight;
};
// Keys' cubic with the parameter that OpenCV has, and Lanczos' window of four lobes.
double cubic_weight(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  if (x >= 2) return 0;
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}
double lanczos_weight(double x) {
  if (std::abs(x) < 1e-7) return 1;
  if (std::abs(x) >= 4) return 0;
  const double angle = std::numbers::pi * x;
  return 4 * std::sin(angle) * std::sin(angle / 4) / (angle * angle);
}
Taps window_taps(int64_t out, int64_t in, int64_t count, double (*weight)(double)) {
  Taps taps{count, {}, {}};
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  for (int64_t i = 0; i < out; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto first = static_cast<int64_t>(std::floor(at)) - count / 2 + 1;
    double sum = 0;
    for (int64_t t = 0; t < count; ++t) sum += weight(at - static_cast<double>(first + t));
    for (int64_t t = 0; t < count; ++t) {
      taps.at.push_back(std::clamp<int64_t>(first + t, 0, in - 1));
      taps.weight.push_back(static_cast<float>(weight(at - static_cast<double>(first + t)) / sum));
    }
  }
  return taps;
}
// Every pixel by the part of it that the new one covers.
Taps covered_taps(int64_t out, int64_t in) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  Taps taps{static_cast<int64_t>(std::ceil(scale)) + 1, {}, {}};
  for (int64_t i = 0; i < out; ++i) {
    const double begin = static_cast<double>(i) * scale, end = begin + scale;
    for (int64_t t = 0; t < taps.count; ++t) {
      const int64_t at = static_cast<int64_t>(begin) + t;
      const double covered = std::min(end, static_cast<double>(at + 1)) - std::max(begin, static_cast<double>(at));
      taps.at.push_back(std::min(at, in - 1));
      taps.weight.push_back(at < in ? static_cast<float>(std::max(covered, 0.0) / scale) : 0);
    }
  }
  return taps;
}
// Two pixels: between their centres, or with `by_area`, for areas that grow, only where the new pixel reaches over the border of two.
Taps linear_taps(int64_t out, int64_t in, bool by_area) {
  Taps taps{2, {}, {}};
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  for (int64_t i = 0; i < out; ++i) {
    double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0, static_cast<double>(in - 1));
    if (by_area) {
      const double first = std::floor(static_cast<double>(i) * scale), over = static_cast<double>(i + 1) - (first + 1) / scale;
      at = std::min(first + (over <= 0 ? 0 : over - std::floor(over)), static_cast<double>(in - 1));
    }
    const auto first = static_cast<int64_t>(at);
    const auto second = static_cast<float>(at - static_cast<double>(first));
    taps.at.insert(taps.at.end(), {first, std::min(first + 1, in - 1)});
    taps.weight.insert(taps.weight.end(), {1 - second, second});
  }
  return taps;
}
Taps taps_of(int64_t interp, int64_t out, int64_t in, bool shrinks) {
  switch (interp) {
    case 0: {
      Taps taps{1, {}, std::vector<float>(static_cast<size_t>(out), 1.0F)};
      const double scale = static_cast<double>(in) / static_cast<double>(out);
      for (int64_t i = 0; i < out; ++i) taps.at.push_back(std::min(static_cast<int64_t>(static_cast<double>(i) * scale), in - 1));
      return taps;
    }
    case 2: return window_taps(out, in, 4, cubic_weight);
    case 3: return shrinks ? covered_taps(out, in) : linear_taps(out, in, true);
    case 4: return window_taps(out, in, 8, lanczos_weight);
    default: return linear_taps(out, in, false);
  }
}
template <class T>
T to_pixel(float value) {
  if (is_floating(dtype_of<T>)) return static_cast<T>(value);
  const auto least = static_cast<double>(std::numeric_limits<T>::lowest()), most = static_cast<double>(std::numeric_limits<T>::max());
  const double rounded = std::round(static_cast<double>(value));
  return rounded <= least ? std::numeric_limits<T>::lowest() : rounded >= most ? std::numeric_limits<T>::max() : static_cast<T>(rounded);
}
GLUINO_OP(_image_resize, ImageResizeAttrs) {
  op.doc("Resizes images with channels last.")
      .alias("_npx__image_resize")
      .input("data")
      .dtypes(DTypeSet::numeric)
      .shape([](const ImageResizeAttrs& a, std::span<const Shape> in) { return resized(a, in[0]); })
      .kernel([](const ImageResizeAttrs& a, KernelContext& k) {
        const ImageLayout from = image_layout(k.in(0).shape()), to = image_layout(k.out().shape());
        const bool shrinks = to.height <= from.height && to.width <= from.width;
        const Taps down = taps_of(a.interp, to.height, from.height, shrinks), along = taps_of(a.interp, to.width, from.width, shrinks);
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* data = k.data<T>(0);
          T* out = k.out_data<T>();
          const auto resize_row = [&](int64_t r) {
            const int64_t y = r % to.height * down.count;
            const T* image = data + r / to.height * from.height * from.width * from.channels;
            for (int64_t j = 0; j < to.width * to.channels; ++j) {
              const int64_t x = j / to.channels * along.count, c = j % to.channels;
              float value = 0;
              for (int64_t v = 0; v < down.count; ++v) {
                const T* row = image + down.at[y + v] * from.width * from.channels + c;
                float part = 0;
                for (int64_t h = 0; h < along.count; ++h)
                  part += static_cast<float>(row[along.at[x + h] * from.channels]) * along.weight[x + h];
                value += part * down.weight[y + v];
              }
              out[r * to.width * to.channels + j] = to_pixel<T>(value);
            }
          };
          parallel_for(to.batch * to.height,
                       kParallelGrain / std::max<int64_t>(to.width * to.channels * down.count * along.count * 2, 1) + 1,
                       [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r) resize_row(r);
                       });
        });
      })
      .not_differentiable("it prepares data")
      .sample({index_sample({3, 4, 2}, 200)}, {.size = {2, 5}})
      .sample({index_sample({2, 4, 3, 3}, 200)}, {.size = {6}, .keep_ratio = true, .interp = 0})
      .sample({index_sample({5, 7, 3}, 200)}, {.size = {3, 9}, .interp = 2})
      .sample({index_sample({5, 7, 3}, 200)}, {.size = {3, 2}, .interp = 3})
      .sample({index_sample({5, 7, 3}, 200)}, {.size = {3, 9}, .interp = 4});
}

// ---- turned, sheared, stretched

struct WarpAttrs {
  Floats matrix;
  int64_t height = 1, width = 1;
  double fill_value = 0;
  static void fields(AttrFields<WarpAttrs>& f) {
    f.required("matrix", &WarpAttrs::matrix, "(a, b, c, d, e, f): what is at (x, y) comes to (a x + b y + c, d x + e y + f)")
        .required("height", &WarpAttrs::height, "height of the result")
        .required("width", &WarpAttrs::width, "width of the result")
        .field("fill_value", &WarpAttrs::fill_value, "what stands where nothing comes from");
  }
};
// Where a place of the result comes from: the inverse of the function that attributes describe.
struct Origin {
  explicit Origin(const Floats& m) {
    const double determinant = m[0] * m[4] - m[1] * m[3];
    xx = m[4] / determinant, xy = -m[1] / determinant, yx = -m[3] / determinant, yy = m[0] / determinant;
    x0 = -xx * m[2] - xy * m[5], y0 = -yx * m[2] - yy * m[5];
  }
  double xx, xy, yx, yy, x0, y0;
};
template <class T>
static float pixel_or(const T* image, const ImageLayout& l, int64_t y, int64_t x, int64_t c, double fill) {
  const bool inside = y >= 0 && y < l.height && x >= 0 && x < l.width;
  return inside ? static_cast<float>(image[(y * l.width + x) * l.channels + c]) : static_cast<float>(fill);
}
// Between the four pixels around (x, y).
template <class T>
static float blended(const T* image, const ImageLayout& l, double y, double x, int64_t c, double fill) {
  if (!(y > -1 && y < static_cast<double>(l.height) && x > -1 && x < static_cast<double>(l.width))) return static_cast<float>(fill);
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  const auto down = static_cast<float>(y - static_cast<double>(top)), along = static_cast<float>(x - static_cast<double>(left));
  const auto row = [&](int64_t at) {
    return pixel_or(image, l, at, left, c, fill) * (1 - along) + pixel_or(image, l, at, left + 1, c, fill) * along;
  };
  return row(top) * (1 - down) + row(top + 1) * down;
}
GLUINO_OP(_image_warp_affine, WarpAttrs) {
  op.doc("Images with channels last after a linear function of places, blended between pixels.")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const WarpAttrs& a, std::span<const Shape> in) {
        if (a.matrix.size() != 6) raise<AttrError>("attribute 'matrix' has {} numbers, but 6 are needed", a.matrix.size());
        const double determinant = a.matrix[0] * a.matrix[4] - a.matrix[1] * a.matrix[3];
        if (!std::isfinite(determinant) || determinant == 0) throw AttrError("attribute 'matrix' has no inverse");
        if (a.height < 1 || a.width < 1) raise<AttrError>("a result of {} x {} has no pixels", a.height, a.width);
        return image_shape(in[0], a.height, a.width, image_layout(in[0]).channels);
      })
      .kernel([](const WarpAttrs& a, KernelContext& k) {
        const ImageLayout from = image_layout(k.in(0).shape());
        const Origin origin(a.matrix);
        visit_dtype(k.out().dtype(), [&]<class T>(T*) {
          const T* data = k.data<T>(0);
          T* out = k.out_data<T>();
          const auto warp_row = [&](int64_t r) {
            const T* image = data + r / a.height * from.height * from.width * from.channels;
            const auto y = static_cast<double>(r % a.height);
            for (int64_t j = 0; j < a.width * from.channels; ++j) {
              const auto x = static_cast<double>(j / from.channels);
              out[r * a.width * from.channels + j] =
                  to_pixel<T>(blended(image, from, origin.yx * x + origin.yy * y + origin.y0, origin.xx * x + origin.xy * y + origin.x0,
                                      j % from.channels, a.fill_value));
            }
          };
          parallel_for(from.batch * a.height, kParallelGrain / std::max<int64_t>(a.width * from.channels * 16, 1) + 1,
                       [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r) warp_row(r);
                       });
        });
      })
      .not_differentiable("it prepares data")
      .sample({index_sample({3, 4, 2}, 200)}, {.matrix = {0.8, -0.6, 1, 0.6, 0.8, 0}, .height = 4, .width = 5, .fill_value = 7})
      .sample({index_sample({2, 4, 3, 3}, 200)}, {.matrix = {1, 0, 0.5, 0, 1, 0}, .height = 4, .width = 3});
}

}  // namespace
}  // namespace gluino::ops
