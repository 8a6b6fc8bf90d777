// Random changes of colours of images (height, width, 3), with or without a batch axis, as data pipelines use them. Whole numbers are kept
// within 0 and 255.
#include <array>
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "dispatch/random.h"
#include "ops/nets.h"
#include "ops/random/distributions.h"
#include "tensor/impl.h"

namespace gluino::ops {
namespace {

constexpr const char* kPreparesData = "it prepares data";
using Colour = std::array<float, 3>;

struct Pixels {
  int64_t images, area;
};
Pixels coloured(const Shape& s) {
  if ((s.ndim() != 3 && s.ndim() != 4) || s[s.ndim() - 1] != 3)
    raise<ShapeError>("data has shape {}, but (height, width, 3) with or without a batch axis is needed", s);
  const int64_t images = s.ndim() == 4 ? s[0] : 1;
  return {images, images ? s.elements() / 3 / images : 0};
}

float gray(const Colour& c) { return 0.299f * c[0] + 0.587f * c[1] + 0.114f * c[2]; }

template <class T>
T kept(float x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::min(std::max(x, 0.f), 255.f));
  else
    return element<T>(x);
}

// change(colour, image) of every pixel, from `source` to the output.
template <class F>
void change_pixels(const Tensor& source, Tensor& out, F&& change) {
  const Pixels p = coloured(out.shape());
  visit_dtype(out.dtype(), [&]<class T>(T*) {
    const T* from = source.data<T>();
    T* to = out.mutable_data<T>();
    parallel_for(p.images * p.area, kParallelGrain / 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Colour c = change(
            Colour{static_cast<float>(from[3 * i]), static_cast<float>(from[3 * i + 1]), static_cast<float>(from[3 * i + 2])}, i / p.area);
        for (int j = 0; j < 3; ++j) to[3 * i + j] = kept<T>(c[j]);
      }
    });
  });
}

Colour mixed(const Colour& c, float share, float other) {
  return {c[0] * share + other * (1 - share), c[1] * share + other * (1 - share), c[2] * share + other * (1 - share)};
}

void change_brightness(const Tensor& in, Tensor& out, float factor) {
  change_pixels(in, out, [&](const Colour& c, int64_t) { return Colour{c[0] * factor, c[1] * factor, c[2] * factor}; });
}
void change_contrast(const Tensor& in, Tensor& out, float factor) {
  const Pixels p = coloured(in.shape());
  std::vector<double> means(p.images);
  visit_dtype(in.dtype(), [&]<class T>(T*) {
    const T* x = in.data<T>();
    for (int64_t i = 0; i < p.images * p.area; ++i)
      means[i / p.area] += gray({static_cast<float>(x[3 * i]), static_cast<float>(x[3 * i + 1]), static_cast<float>(x[3 * i + 2])});
  });
  for (double& mean : means) mean /= static_cast<double>(p.area);
  change_pixels(in, out, [&](const Colour& c, int64_t image) { return mixed(c, factor, static_cast<float>(means[image])); });
}
void change_saturation(const Tensor& in, Tensor& out, float factor) {
  change_pixels(in, out, [&](const Colour& c, int64_t) { return mixed(c, factor, gray(c)); });
}

// Hue in turns, lightness and saturation; and back.
Colour to_hls(const Colour& c) {
  const float most = std::max({c[0], c[1], c[2]}), least = std::min({c[0], c[1], c[2]}), spread = most - least, light = (most + least) / 2;
  if (spread < 1e-12f) return {0, light, 0};
  const float saturation = spread / (light < 0.5f ? most + least : 2 - most - least);
  const float sector = most == c[0] ? (c[1] - c[2]) / spread : most == c[1] ? 2 + (c[2] - c[0]) / spread : 4 + (c[0] - c[1]) / spread;
  return {sector / 6, light, saturation};
}
Colour from_hls(const Colour& c) {
  const float light = c[1], high = light < 0.5f ? light * (1 + c[2]) : light + c[2] - light * c[2], low = 2 * light - high;
  auto channel = [&](float hue) {
    hue -= std::floor(hue);
    if (hue < 1.f / 6) return low + (high - low) * 6 * hue;
    if (hue < 0.5f) return high;
    return hue < 2.f / 3 ? low + (high - low) * 6 * (2.f / 3 - hue) : low;
  };
  return {channel(c[0] + 1.f / 3), channel(c[0]), channel(c[0] - 1.f / 3)};
}
void change_hue(const Tensor& in, Tensor& out, float turns) {
  change_pixels(in, out, [&](const Colour& c, int64_t) {
    Colour hls = to_hls({c[0] / 255, c[1] / 255, c[2] / 255});
    hls[0] += turns;
    const Colour rgb = from_hls(hls);
    return Colour{rgb[0] * 255, rgb[1] * 255, rgb[2] * 255};
  });
}

// The colours of ImageNet: directions of their spread, times its size (Krizhevsky et al., 2012).
constexpr float kLight[3][3] = {{55.46f * -0.5675f, 4.794f * 0.7192f, 1.148f * 0.4009f},
                                {55.46f * -0.5808f, 4.794f * -0.0045f, 1.148f * -0.8140f},
                                {55.46f * -0.5836f, 4.794f * -0.6948f, 1.148f * 0.4203f}};
void change_light(const Tensor& in, Tensor& out, const Colour& alpha) {
  Colour shift{};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) shift[i] += kLight[i][j] * alpha[j];
  change_pixels(in, out, [&](const Colour& c, int64_t) { return Colour{c[0] + shift[0], c[1] + shift[1], c[2] + shift[2]}; });
}

// ---- operators

struct FactorAttrs {
  double min_factor = 0, max_factor = 0;
  static void fields(AttrFields<FactorAttrs>& f) {
    f.required("min_factor", &FactorAttrs::min_factor, "the least factor")
        .required("max_factor", &FactorAttrs::max_factor, "the greatest factor");
  }
};

template <class A>
Shape same_coloured(const A&, std::span<const Shape> in) {
  coloured(in[0]);
  return in[0];
}

float drawn(const Tensor& out, double low, double high) {
  const RandomStream stream = next_random_stream(out.device());
  ElementRandom random(stream, 0);
  return static_cast<float>(Uniform::draw(low, high, random));
}

template <class F>
void define_random(OpBuilder<FactorAttrs>& op, F change) {
  op.input("data")
      .random()
      .dtypes(DTypeSet::any)
      .shape([](const FactorAttrs& a, std::span<const Shape> in) {
        if (a.min_factor > a.max_factor)
          raise<AttrError>("attribute 'min_factor' ({}) is above 'max_factor' ({})", a.min_factor, a.max_factor);
        return same_coloured(a, in);
      })
      .kernel([change](const FactorAttrs& a, KernelContext& k) { change(k.in(0), k.out(), drawn(k.out(), a.min_factor, a.max_factor)); })
      .not_differentiable(kPreparesData)
      .sample({index_sample({3, 4, 3}, 256)}, {.min_factor = 0.5, .max_factor = 1.5});
}
GLUINO_OP(_image_random_brightness, FactorAttrs) {
  define_random(op.doc("Lighter or darker by a random factor.").alias("_npx__image_random_brightness"), change_brightness);
}
GLUINO_OP(_image_random_contrast, FactorAttrs) {
  define_random(op.doc("More or less contrast by a random factor.").alias("_npx__image_random_contrast"), change_contrast);
}
GLUINO_OP(_image_random_saturation, FactorAttrs) {
  define_random(op.doc("More or less colour by a random factor.").alias("_npx__image_random_saturation"), change_saturation);
}
GLUINO_OP(_image_random_hue, FactorAttrs) {
  define_random(op.doc("Other colours, turned by a random factor; 1 is a whole turn.").alias("_npx__image_random_hue"), change_hue);
}

struct JitterAttrs {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  static void fields(AttrFields<JitterAttrs>& f) {
    f.required("brightness", &JitterAttrs::brightness, "how much the brightness changes at most")
        .required("contrast", &JitterAttrs::contrast, "how much the contrast changes at most")
        .required("saturation", &JitterAttrs::saturation, "how much the saturation changes at most")
        .required("hue", &JitterAttrs::hue, "how much the hue changes at most");
  }
};
GLUINO_OP(_image_random_color_jitter, JitterAttrs) {
  op.doc("Brightness, contrast, saturation and hue change randomly, in a random order.")
      .alias("_npx__image_random_color_jitter")
      .input("data")
      .random()
      .dtypes(DTypeSet::any)
      .shape(same_coloured<JitterAttrs>)
      .kernel([](const JitterAttrs& a, KernelContext& k) {
        using Change = void (*)(const Tensor&, Tensor&, float);
        const std::array<std::pair<Change, double>, 4> changes{
            {{change_brightness, a.brightness}, {change_contrast, a.contrast}, {change_saturation, a.saturation}, {change_hue, a.hue}}};
        std::array<int, 4> order{0, 1, 2, 3};
        const RandomStream stream = next_random_stream(k.out().device());
        for (int i = 3; i > 0; --i) {
          ElementRandom random(stream, i);
          std::swap(order[i], order[static_cast<int>(random.uniform() * (i + 1))]);
        }
        change_brightness(k.in(0), k.out(), 1);
        for (int i : order)
          if (changes[i].second > 0)
            changes[i].first(k.out(), k.out(), drawn(k.out(), std::max(0.0, 1 - changes[i].second), 1 + changes[i].second));
      })
      .not_differentiable(kPreparesData)
      .sample({index_sample({2, 3, 4, 3}, 256)}, {.brightness = 0.3, .contrast = 0.3, .saturation = 0.3, .hue = 0.1});
}

struct LightAttrs {
  Floats alpha{0, 0, 0};
  static void fields(AttrFields<LightAttrs>& f) {
    f.required("alpha", &LightAttrs::alpha, "three weights of the directions of ImageNet's colours");
  }
};
GLUINO_OP(_image_adjust_lighting, LightAttrs) {
  op.doc("Another light: colours move along the directions in which those of ImageNet spread.")
      .alias("_npx__image_adjust_lighting")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape([](const LightAttrs& a, std::span<const Shape> in) {
        if (a.alpha.size() != 3) raise<AttrError>("attribute 'alpha' has {} numbers, but 3 are needed", a.alpha.size());
        return same_coloured(a, in);
      })
      .kernel([](const LightAttrs& a, KernelContext& k) {
        change_light(k.in(0), k.out(), {static_cast<float>(a.alpha[0]), static_cast<float>(a.alpha[1]), static_cast<float>(a.alpha[2])});
      })
      .not_differentiable(kPreparesData)
      .sample({index_sample({3, 4, 3}, 256)}, {.alpha = {0.1, -0.1, 0.2}});
}

struct HlsAttrs {
  double hue = 0, lightness = 0, saturation = 0;
  static void fields(AttrFields<HlsAttrs>& f) {
    f.field("hue", &HlsAttrs::hue, "what is added to the hue; 180 is a whole turn")
        .field("lightness", &HlsAttrs::lightness, "what is added to the lightness, which is 0 to 255")
        .field("saturation", &HlsAttrs::saturation, "what is added to the saturation, which is 0 to 255");
  }
};
GLUINO_OP(_image_adjust_hls, HlsAttrs) {
  op.doc("Images with other hue, lightness and saturation, each kept within its bounds.")
      .input("data")
      .dtypes(DTypeSet::any)
      .shape(same_coloured<HlsAttrs>)
      .kernel([](const HlsAttrs& a, KernelContext& k) {
        const auto moved = [](float x, double by, double whole) {
          return std::min(std::max(x + static_cast<float>(by / whole), 0.f), 1.f);
        };
        const float half = is_floating(k.out().dtype()) ? 0.f : 0.5f;  // whole numbers are cut off
        change_pixels(k.in(0), k.out(), [&](const Colour& c, int64_t) {
          const Colour hls = to_hls({c[0] / 255, c[1] / 255, c[2] / 255});
          const Colour rgb =
              from_hls({moved(hls[0] - std::floor(hls[0]), a.hue, 180), moved(hls[1], a.lightness, 255), moved(hls[2], a.saturation, 255)});
          return Colour{rgb[0] * 255 + half, rgb[1] * 255 + half, rgb[2] * 255 + half};
        });
      })
      .not_differentiable(kPreparesData)
      .sample({index_sample({3, 4, 3}, 256)}, {.hue = 20, .lightness = -30, .saturation = 40});
}

struct RandomLightAttrs {
  double alpha_std = 0.05;
  static void fields(AttrFields<RandomLightAttrs>& f) {
    f.field("alpha_std", &RandomLightAttrs::alpha_std, "standard deviation of the weights");
  }
};
GLUINO_OP(_image_random_lighting, RandomLightAttrs) {
  op.doc("Another light, by random weights.")
      .alias("_npx__image_random_lighting")
      .input("data")
      .random()
      .dtypes(DTypeSet::any)
      .shape(same_coloured<RandomLightAttrs>)
      .kernel([](const RandomLightAttrs& a, KernelContext& k) {
        const RandomStream stream = next_random_stream(k.out().device());
        Colour alpha;
        for (int i = 0; i < 3; ++i) {
          ElementRandom random(stream, i);
          alpha[i] = static_cast<float>(Normal::draw(0, a.alpha_std, random));
        }
        change_light(k.in(0), k.out(), alpha);
      })
      .not_differentiable(kPreparesData)
      .sample({index_sample({3, 4, 3}, 256)});
}

struct ChanceAttrs {
  double p = 0.5;
  static void fields(AttrFields<ChanceAttrs>& f) { f.field("p", &ChanceAttrs::p, "how often images are mirrored"); }
};
void define_random_flip(OpBuilder<ChanceAttrs>& op, const char* flip) {
  op.input("data")
      .random()
      .dtypes(DTypeSet::any)
      .shape([](const ChanceAttrs&, std::span<const Shape> in) -> Shape {
        if (in[0].ndim() != 3 && in[0].ndim() != 4)
          raise<ShapeError>("data has shape {}, but (height, width, channels) with or without a batch axis is needed", in[0]);
        return in[0];
      })
      .kernel([flip](const ChanceAttrs& a, KernelContext& k) {
        const bool flips = drawn(k.out(), 0, 1) < a.p;
        const OpDef& op = OpRegistry::global().get(flip);
        if (flips)
          apply_into(op, {&k.in(0), 1}, op.default_attrs, {&k.out(), 1});
        else
          std::memcpy(bytes_of(k.out()), bytes_of(k.in(0)), k.out().size() * dtype_bytes(k.out().dtype()));
      })
      .not_differentiable(kPreparesData)
      .sample({{3, 4, 2}});
}
GLUINO_OP(_image_random_flip_left_right, ChanceAttrs) {
  define_random_flip(op.doc("Mirrors images left to right, sometimes.").alias("_npx__image_random_flip_left_right"),
                     "_image_flip_left_right");
}
GLUINO_OP(_image_random_flip_top_bottom, ChanceAttrs) {
  define_random_flip(op.doc("Mirrors images top to bottom, sometimes.").alias("_npx__image_random_flip_top_bottom"),
                     "_image_flip_top_bottom");
}

}  // namespace
}  // namespace gluino::ops
