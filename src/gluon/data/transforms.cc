#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/format.h"
#include "gluino/ops.h"
#include "gluino/vision.h"
#include "tensor/impl.h"

namespace gluino::vision {
namespace {

struct Size {
  int64_t width, height;
};
Size both(const Shape& size, const char* who) {
  if (size.ndim() < 1 || size.ndim() > 2 || size[0] < 1 || size.back() < 1)
    raise<UserError>("{}: size is {}, but one or two positive numbers are needed", who, size);
  return {size[0], size.back()};
}
Size size_of(const Tensor& image, const char* who) {
  const int axes = image.ndim();
  if (axes < 3 || axes > 4) raise<ShapeError>("{}: the image has shape {}, but (height, width, channels) is needed", who, image.shape());
  return {image.extent(axes - 2), image.extent(axes - 3)};
}
Tensor crop(const Tensor& image, int64_t x, int64_t y, Size size) {
  return image::crop(image, {.x = x, .y = y, .width = size.width, .height = size.height});
}
Tensor resize(const Tensor& image, Size size) { return image::resize(image, {.size = Shape{size.width, size.height}}); }
// At least as large as `needed`, with the same proportions.
Tensor enlarged(const Tensor& image, Size needed, const char* who) {
  const Size s = size_of(image, who);
  if (s.width >= needed.width && s.height >= needed.height) return image;
  const double scale = std::max(static_cast<double>(needed.width) / static_cast<double>(s.width),
                                static_cast<double>(needed.height) / static_cast<double>(s.height));
  return resize(image, {std::max(needed.width, std::lround(scale * static_cast<double>(s.width))),
                        std::max(needed.height, std::lround(scale * static_cast<double>(s.height)))});
}
int64_t random_below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(data::random_engine()); }

}  // namespace

Tensor ToTensor::forward(const Tensor& x) { return image::to_tensor(x); }
Tensor Normalize::forward(const Tensor& x) { return image::normalize(x, {.mean = Floats(mean_), .std = Floats(std_)}); }
Tensor Resize::forward(const Tensor& x) { return image::resize(x, {.size = size_, .keep_ratio = keep_ratio_, .interp = interpolation_}); }
Tensor CenterCrop::forward(const Tensor& in) {
  const Size want = both(size_, "CenterCrop");
  const Tensor x = enlarged(in, want, "CenterCrop");
  const Size have = size_of(x, "CenterCrop");
  return crop(x, (have.width - want.width) / 2, (have.height - want.height) / 2, want);
}

Tensor RandomCrop::forward(const Tensor& in) {
  const Size want = both(size_, "RandomCrop");
  Tensor x = in;
  if (pad_ > 0) {
    const Size s = size_of(in, "RandomCrop");
    if (in.ndim() != 3) raise<ShapeError>("RandomCrop: the image has shape {}, but (height, width, channels) is needed", in.shape());
    x = zeros({s.height + 2 * pad_, s.width + 2 * pad_, in.extent(2)}, {in.dtype(), in.device()});
    const int64_t pixel = in.extent(2) * dtype_bytes(in.dtype()), row = s.width * pixel;
    for (int64_t y = 0; y < s.height; ++y)
      std::memcpy(bytes_of(x) + ((y + pad_) * (s.width + 2 * pad_) + pad_) * pixel, bytes_of(in) + y * row, row);
  }
  x = enlarged(x, want, "RandomCrop");
  const Size have = size_of(x, "RandomCrop");
  return crop(x, random_below(have.width - want.width + 1), random_below(have.height - want.height + 1), want);
}

Tensor RandomResizedCrop::forward(const Tensor& x) {
  const Size want = both(size_, "RandomResizedCrop"), have = size_of(x, "RandomResizedCrop");
  const double area = static_cast<double>(have.width * have.height);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double part = area * data::random_uniform(scale_.first, scale_.second);
    const double ratio = std::exp(data::random_uniform(std::log(ratio_.first), std::log(ratio_.second)));
    const Size size{std::lround(std::sqrt(part * ratio)), std::lround(std::sqrt(part / ratio))};
    if (size.width < 1 || size.height < 1 || size.width > have.width || size.height > have.height) continue;
    return resize(crop(x, random_below(have.width - size.width + 1), random_below(have.height - size.height + 1), size), want);
  }
  return CenterCrop(size_).forward(x);
}

Tensor RandomFlipLeftRight::forward(const Tensor& x) { return data::random_uniform(0, 1) < p_ ? image::flip_left_right(x) : x; }
Tensor RandomFlipTopBottom::forward(const Tensor& x) { return data::random_uniform(0, 1) < p_ ? image::flip_top_bottom(x) : x; }

// ---- colours: brightness of a pixel by ITU-R BT.601; hue is turned in the YIQ space

namespace {

constexpr std::array<float, 3> kLuma{0.299f, 0.587f, 0.114f};
using Matrix = std::array<std::array<float, 3>, 3>;

float luma(const float* p) { return kLuma[0] * p[0] + kLuma[1] * p[1] + kLuma[2] * p[2]; }

// Out of each pixel p: towards * (1 - factor) + p * factor.
void blend(float* pixels, int64_t count, float factor, const std::function<float(const float*)>& towards) {
  for (int64_t i = 0; i < count; ++i, pixels += 3) {
    const float base = towards(pixels) * (1 - factor);
    for (int c = 0; c < 3; ++c) pixels[c] = base + pixels[c] * factor;
  }
}
void turn_hue(float* pixels, int64_t count, double turn) {
  constexpr Matrix to_yiq{{{0.299f, 0.587f, 0.114f}, {0.596f, -0.274f, -0.321f}, {0.211f, -0.523f, 0.311f}}},
      from_yiq{{{1, 0.956f, 0.621f}, {1, -0.272f, -0.647f}, {1, -1.107f, 1.705f}}};
  const auto u = static_cast<float>(std::cos(turn * 2 * std::numbers::pi)), w = static_cast<float>(std::sin(turn * 2 * std::numbers::pi));
  auto times = [](const Matrix& m, const std::array<float, 3>& v) {
    std::array<float, 3> out{};
    for (size_t r = 0; r < 3; ++r) out[r] = m[r][0] * v[0] + m[r][1] * v[1] + m[r][2] * v[2];
    return out;
  };
  for (int64_t i = 0; i < count; ++i, pixels += 3) {
    const std::array<float, 3> yiq = times(to_yiq, {pixels[0], pixels[1], pixels[2]});
    const std::array<float, 3> rgb = times(from_yiq, {yiq[0], u * yiq[1] - w * yiq[2], w * yiq[1] + u * yiq[2]});
    std::copy(rgb.begin(), rgb.end(), pixels);
  }
}

}  // namespace

Tensor RandomColorJitter::forward(const Tensor& in) {
  if (in.ndim() != 3 || in.extent(2) != 3)
    raise<ShapeError>("{}: the image has shape {}, but (height, width, 3) is needed", kind(), in.shape());
  Tensor out = in.dtype() == DType::float32 ? in.copy() : in.astype(DType::float32);
  float* pixels = out.mutable_data<float>();
  const int64_t count = out.size() / 3;
  auto factor = [](double range) { return static_cast<float>(1 + data::random_uniform(-range, range)); };
  std::vector<std::function<void()>> steps;
  if (brightness_ > 0) steps.push_back([&] { blend(pixels, count, factor(brightness_), [](const float*) { return 0.0f; }); });
  if (contrast_ > 0)
    steps.push_back([&] {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) sum += luma(pixels + 3 * i);
      const auto mean = static_cast<float>(sum / static_cast<double>(count));
      blend(pixels, count, factor(contrast_), [mean](const float*) { return mean; });
    });
  if (saturation_ > 0) steps.push_back([&] { blend(pixels, count, factor(saturation_), luma); });
  if (hue_ > 0) steps.push_back([&] { turn_hue(pixels, count, data::random_uniform(-hue_, hue_)); });
  std::shuffle(steps.begin(), steps.end(), data::random_engine());
  for (const auto& step : steps) step();
  return out;
}

}  // namespace gluino::vision
