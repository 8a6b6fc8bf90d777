// Reading images at places between pixels: grids, samplers, resizing and adaptive pooling.
#include <cmath>
#include <cstring>

#include "base/parallel.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

static void check_images(const Shape& s) {
  if (s.ndim() != 4) raise<ShapeError>("data has shape {}, but (batch, channels, height, width) is needed", s);
}
static int64_t plane_grain(int64_t area) { return kParallelGrain / std::max<int64_t>(area, 1) + 1; }

// ---- GridGenerator
struct GridGeneratorAttrs {
  enum class Type : uint8_t { affine, warp } transform_type = Type::affine;
  Shape target_shape;
  static void fields(AttrFields<GridGeneratorAttrs>& f) {
    f.choice("transform_type", &GridGeneratorAttrs::transform_type, {"affine", "warp"}, "six numbers per image, or a shift per pixel")
        .field("target_shape", &GridGeneratorAttrs::target_shape, "height and width of the grid of affine");
  }
  bool is_affine() const { return transform_type == Type::affine; }
};
// Pixel i of n as a coordinate from -1 to 1.
static double coordinate(int64_t i, int64_t n) { return n > 1 ? -1 + 2 * static_cast<double>(i) / static_cast<double>(n - 1) : 0; }

static Shape grid_shape(const GridGeneratorAttrs& a, const Shape& data) {
  if (!a.is_affine()) {
    check_images(data);
    if (data[1] != 2) raise<ShapeError>("warp needs 2 channels, but data has shape {}", data);
    return data;
  }
  if (data.ndim() != 2 || data[1] != 6) raise<ShapeError>("affine needs data of shape (batch, 6), but it is {}", data);
  if (a.target_shape.ndim() != 2 || a.target_shape[0] < 1 || a.target_shape[1] < 1)
    raise<AttrError>("target_shape = {}, but a height and a width are needed", a.target_shape);
  return {data[0], 2, a.target_shape[0], a.target_shape[1]};
}
// theta: (batch, 6), grid: (batch, 2, height, width) with x first.
template <class T>
static void affine_grid(const T* theta, const Shape& grid, T* out) {
  const int64_t height = grid[2], width = grid[3];
  for (int64_t r = 0; r < grid[0] * 2 * height; ++r) {
    const T* t = theta + r / height * 3;
    const T y = static_cast<T>(coordinate(r % height, height));
    for (int64_t j = 0; j < width; ++j) out[r * width + j] = t[0] * static_cast<T>(coordinate(j, width)) + t[1] * y + t[2];
  }
}
// What one pixel of shift is worth in coordinates of the axis of channel c.
static double pixel(const Shape& grid, int64_t c) { return 2 / std::max(static_cast<double>(grid[c == 0 ? 3 : 2] - 1), 1.0); }

GLUINO_OP(GridGenerator, GridGeneratorAttrs) {
  op.doc("Coordinates, from -1 to 1, at which BilinearSampler reads.")
      .input("data")
      .kernel_dtypes(real_dtypes())
      .shape([](const GridGeneratorAttrs& a, std::span<const Shape> in) { return grid_shape(a, in[0]); })
      .kernel([](const GridGeneratorAttrs& a, KernelContext& k) {
        const Shape& s = k.out().shape();
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          if (a.is_affine()) return affine_grid(k.data<T>(0), s, k.out_data<T>());
          for (int64_t i = 0, elements = k.out().size(); i < elements; ++i) {
            const int64_t c = i / (s[2] * s[3]) % 2, at = c == 0 ? i % s[3] : i / s[3] % s[2];
            k.out_data<T>()[i] = (k.data<T>(0)[i] + static_cast<T>(at)) * static_cast<T>(pixel(s, c)) - 1;
          }
        });
      })
      .gradient({},
                [](const GridGeneratorAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_grid_generator_grad", {g.head(), g.like(0)}, a)};
                })
      .sample({{2, 6}}, {.target_shape = {3, 4}})
      .sample({{2, 2, 3, 4}}, {.transform_type = GridGeneratorAttrs::Type::warp});
}
GLUINO_OP(_grid_generator_grad, GridGeneratorAttrs) {
  op.doc("The gradient of GridGenerator.")
      .input("head")
      .input("data")
      .shape_only()
      .kernel_dtypes(real_dtypes())
      .shape([](const GridGeneratorAttrs& a, std::span<const Shape> in) { return check_head(in[0], grid_shape(a, in[1])), in[1]; })
      .kernel([](const GridGeneratorAttrs& a, KernelContext& k) {
        const Shape& s = k.in(0).shape();
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T* head = k.data<T>(0);
          T* out = k.out_data<T>();
          if (!a.is_affine()) {
            for (int64_t i = 0, elements = k.out().size(); i < elements; ++i)
              out[i] = head[i] * static_cast<T>(pixel(s, i / (s[2] * s[3]) % 2));
            return;
          }
          std::fill_n(out, k.out().size(), T(0));
          for (int64_t i = 0, elements = k.in(0).size(); i < elements; ++i) {
            T* t = out + i / (s[2] * s[3]) * 3;
            t[0] += head[i] * static_cast<T>(coordinate(i % s[3], s[3]));
            t[1] += head[i] * static_cast<T>(coordinate(i / s[3] % s[2], s[2]));
            t[2] += head[i];
          }
        });
      })
      .not_differentiable("the second derivative of GridGenerator is not implemented")
      .sample({{2, 2, 3, 4}, {2, 6}}, {.target_shape = {3, 4}});
}

// ---- BilinearSampler
// The four pixels around a place with their weights; pixels outside of the image have none.
template <class T>
struct Corners {
  int64_t offset[4];
  T weight[4], dx[4], dy[4];  // weight and its derivatives by the place, in pixels
  Corners(T x, T y, int64_t height, int64_t width) {
    const T left = std::floor(x), top = std::floor(y), fx = x - left, fy = y - top;
    for (int c = 0; c < 4; ++c) {
      const bool right = c & 1, low = c & 2;
      const T column = left + static_cast<T>(right), row = top + static_cast<T>(low);
      const bool inside = column >= 0 && column < static_cast<T>(width) && row >= 0 && row < static_cast<T>(height);
      const T wx = right ? fx : 1 - fx, wy = low ? fy : 1 - fy;
      offset[c] = inside ? static_cast<int64_t>(row) * width + static_cast<int64_t>(column) : 0;
      weight[c] = inside ? wx * wy : T(0);
      dx[c] = inside ? (right ? wy : -wy) : T(0);
      dy[c] = inside ? (low ? wx : -wx) : T(0);
    }
  }
};

// Calls f(image, position in the output plane, corners) for every place of the grid, images in parallel.
template <class T, class F>
static void for_each_place(const Shape& data, const Shape& grid_shape, const T* grid, F&& f) {
  const int64_t area = grid_shape[2] * grid_shape[3];
  parallel_for(data[0], plane_grain(area * data[1]), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      for (int64_t p = 0; p < area; ++p) {
        const T x = (grid[n * 2 * area + p] + 1) * static_cast<T>(data[3] - 1) / 2,
                y = (grid[(n * 2 + 1) * area + p] + 1) * static_cast<T>(data[2] - 1) / 2;
        f(n, p, Corners<T>(x, y, data[2], data[3]));
      }
  });
}
template <class T>
static void sample_images(const Shape& data_shape, const T* data, const Shape& grid_shape, const T* grid, T* out) {
  const int64_t channels = data_shape[1], area = data_shape[2] * data_shape[3], out_area = grid_shape[2] * grid_shape[3];
  for_each_place(data_shape, grid_shape, grid, [&](int64_t n, int64_t p, const Corners<T>& at) {
    for (int64_t c = 0; c < channels; ++c) {
      const T* image = data + (n * channels + c) * area;
      T sum = 0;
      for (int i = 0; i < 4; ++i) sum += at.weight[i] * image[at.offset[i]];
      out[(n * channels + c) * out_area + p] = sum;
    }
  });
}
static Shape sampled_shape(const Shape& data, const Shape& grid) {
  check_pixels(data);
  if (grid.ndim() != 4 || grid[1] != 2 || grid[0] != data[0])
    raise<ShapeError>("grid has shape {}, but ({}, 2, height, width) is needed", grid, data[0]);
  return {data[0], data[1], grid[2], grid[3]};
}

GLUINO_OP(BilinearSampler, NoAttrs) {
  op.doc("Reads images at the coordinates of a grid; outside is zero.")
      .ignores({"cudnn_off"})
      .input("data")
      .input("grid")
      .kernel_dtypes(real_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) { return sampled_shape(in[0], in[1]); })
      .kernel([](const NoAttrs&, KernelContext& k) {
        visit_real(k.out().dtype(),
                   [&]<class T>(T*) { sample_images(k.in(0).shape(), k.data<T>(0), k.in(1).shape(), k.data<T>(1), k.out_data<T>()); });
      })
      .gradient({{0, 1}, {}},
                [](const Gradient& g) {
                  const Tensor in[] = {g.head(), g.in(0), g.in(1)};
                  return call_all("_bilinear_sampler_grad", in);
                })
      .sample({{2, 2, 4, 5}, uniform_sample({2, 2, 3, 2}, -0.9, 0.9)});
}
GLUINO_OP(_bilinear_sampler_grad, NoAttrs) {
  op.doc("The gradients of BilinearSampler with respect to data and grid.")
      .input("head")
      .input("data")
      .input("grid")
      .outputs({"data_grad", "grid_grad"})
      .kernel_dtypes(real_dtypes())
      .shape([](const NoAttrs&, std::span<const Shape> in) {
        check_head(in[0], sampled_shape(in[1], in[2]));
        return std::vector<Shape>{in[1], in[2]};
      })
      .kernel([](const NoAttrs&, KernelContext& k) {
        const Shape &s = k.in(1).shape(), &grid = k.in(2).shape();
        const int64_t channels = s[1], area = s[2] * s[3], out_area = grid[2] * grid[3];
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T *head = k.data<T>(0), *data = k.data<T>(1);
          T *data_grad = k.out_data<T>(0), *grid_grad = k.out_data<T>(1);
          std::fill_n(data_grad, k.out(0).size(), T(0));
          for_each_place(s, grid, k.data<T>(2), [&](int64_t n, int64_t p, const Corners<T>& at) {
            T x = 0, y = 0;
            for (int64_t c = 0; c < channels; ++c) {
              const int64_t plane = (n * channels + c) * area;
              const T h = head[(n * channels + c) * out_area + p];
              for (int i = 0; i < 4; ++i) {
                data_grad[plane + at.offset[i]] += h * at.weight[i];
                x += h * at.dx[i] * data[plane + at.offset[i]];
                y += h * at.dy[i] * data[plane + at.offset[i]];
              }
            }
            grid_grad[n * 2 * out_area + p] = x * static_cast<T>(s[3] - 1) / 2;
            grid_grad[(n * 2 + 1) * out_area + p] = y * static_cast<T>(s[2] - 1) / 2;
          });
        });
      })
      .not_differentiable("the second derivative of BilinearSampler is not implemented")
      .sample({{2, 2, 3, 2}, {2, 2, 4, 5}, uniform_sample({2, 2, 3, 2}, -0.9, 0.9)});
}

struct SpatialTransformerAttrs {
  Shape target_shape;
  enum class Transform : uint8_t { affine } transform_type = Transform::affine;
  enum class Sampler : uint8_t { bilinear } sampler_type = Sampler::bilinear;
  static void fields(AttrFields<SpatialTransformerAttrs>& f) {
    f.field("target_shape", &SpatialTransformerAttrs::target_shape, "height and width of the output")
        .choice("transform_type", &SpatialTransformerAttrs::transform_type, {"affine"}, "the kind of transformation")
        .choice("sampler_type", &SpatialTransformerAttrs::sampler_type, {"bilinear"}, "the kind of sampling");
  }
  GridGeneratorAttrs grid() const { return {.target_shape = target_shape}; }
};
GLUINO_OP(SpatialTransformer, SpatialTransformerAttrs) {
  op.doc("Reads images through an affine transformation of the coordinates.")
      .ignores({"cudnn_off"})
      .input("data")
      .input("loc")
      .kernel_dtypes(real_dtypes())
      .outputs({"output", "grid"})
      .hidden_outputs(1)
      .shape([](const SpatialTransformerAttrs& a, std::span<const Shape> in) {
        const Shape grid = grid_shape(a.grid(), in[1]);
        return std::vector<Shape>{sampled_shape(in[0], grid), grid};
      })
      .complete([](const SpatialTransformerAttrs&, OptionalShapes& in, const OptionalShapes&) {
        if (in[0] && in[0]->ndim() == 4 && is_open(in[1])) in[1] = Shape{(*in[0])[0], 6};
      })
      .kernel([](const SpatialTransformerAttrs&, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          affine_grid(k.data<T>(1), k.out(1).shape(), k.out_data<T>(1));
          sample_images(k.in(0).shape(), k.data<T>(0), k.out(1).shape(), k.out(1).data<T>(), k.out_data<T>(0));
        });
      })
      .gradient({{0}, {1}},
                [](const SpatialTransformerAttrs& a, const Gradient& g) -> Tensors {
                  const Tensor in[] = {g.head(), g.in(0), g.out(1)};
                  const Tensors d = call_all("_bilinear_sampler_grad", in);
                  return {d[0], call_with("_grid_generator_grad", {d[1], g.like(1)}, a.grid())};
                })
      .sample({{2, 2, 4, 5}, uniform_sample({2, 6}, -0.4, 0.4)}, {.target_shape = {3, 2}});
}

// ---- weighted sums along height and width: resizing and adaptive pooling
// Output i of an axis is the weighted sum of inputs first .. first + weights.size() - 1.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};
using AxisTaps = std::vector<Taps>;

static AxisTaps adaptive_taps(int64_t in, int64_t out) {
  AxisTaps taps;
  for (int64_t i = 0; i < out; ++i) {
    const int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
    taps.push_back({begin, std::vector<double>(end - begin, 1.0 / static_cast<double>(end - begin))});
  }
  return taps;
}
static AxisTaps bilinear_taps(int64_t in, int64_t out, bool align_corners) {
  AxisTaps taps;
  for (int64_t i = 0; i < out; ++i) {
    double at = align_corners ? (out > 1 ? static_cast<double>(i * (in - 1)) / static_cast<double>(out - 1) : 0)
                              : std::max((static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5, 0.0);
    const int64_t first = std::min(static_cast<int64_t>(at), in - 1);
    const double rest = at - static_cast<double>(first);
    if (first + 1 < in)
      taps.push_back({first, {1 - rest, rest}});
    else
      taps.push_back({first, {1.0}});
  }
  return taps;
}
// The taps of an axis as plain arrays; the first `pairs` outputs have two each.
template <class T>
struct FlatTaps {
  std::vector<int64_t> first, begin{0};
  std::vector<T> weights;
  size_t pairs = 0;
  explicit FlatTaps(const AxisTaps& taps) {
    for (const Taps& t : taps) {
      if (t.weights.size() == 2 && pairs == first.size()) ++pairs;
      first.push_back(t.first);
      for (const double w : t.weights) weights.push_back(static_cast<T>(w));
      begin.push_back(static_cast<int64_t>(weights.size()));
    }
  }
  size_t outputs() const { return first.size(); }
  bool are_same(size_t i, size_t j) const {
    const auto of = [&](size_t o) { return std::span(weights).subspan(begin[o], begin[o + 1] - begin[o]); };
    return first[i] == first[j] && std::ranges::equal(of(i), of(j));
  }
  // f(input, weight) for every tap of output i.
  template <class F>
  void visit(size_t i, F&& f) const {
    for (int64_t c = begin[i]; c < begin[i + 1]; ++c) f(first[i] + c - begin[i], weights[c]);
  }
};
// Whole rows are combined first, then the elements of the combined row.
template <class T>
static void resample_plane(const FlatTaps<T>& rows, const FlatTaps<T>& columns, const T* in, int64_t in_width, T* combined, T* out) {
  for (size_t i = 0; i < rows.outputs(); ++i, out += columns.outputs()) {
    if (i > 0 && rows.are_same(i, i - 1)) {  // as where a mean is spread over its window
      std::copy_n(out - columns.outputs(), columns.outputs(), out);
      continue;
    }
    std::fill_n(combined, in_width, T(0));
    rows.visit(i, [&](int64_t y, T weight) {
      for (int64_t x = 0; x < in_width; ++x) combined[x] += weight * in[y * in_width + x];
    });
    for (size_t j = 0; j < columns.pairs; ++j) {
      const T* from = combined + columns.first[j];
      out[j] = columns.weights[2 * j] * from[0] + columns.weights[2 * j + 1] * from[1];
    }
    for (size_t j = columns.pairs; j < columns.outputs(); ++j) {
      T sum = 0;
      columns.visit(j, [&](int64_t x, T weight) { sum += weight * combined[x]; });
      out[j] = sum;
    }
  }
}
// The adjoint as such sums: input i of an axis gets from the outputs that read it, which are neighbours.
static AxisTaps adjoint_of(const AxisTaps& taps, int64_t inputs) {
  AxisTaps result(inputs);
  for (size_t o = 0; o < taps.size(); ++o)
    for (size_t c = 0; c < taps[o].weights.size(); ++c) {
      Taps& t = result[taps[o].first + static_cast<int64_t>(c)];
      if (t.weights.empty()) t.first = static_cast<int64_t>(o);
      t.weights.push_back(taps[o].weights[c]);
    }
  return result;
}
static void run_taps(KernelContext& k, const AxisTaps& row_taps, const AxisTaps& column_taps) {
  const Shape &in = k.in(0).shape(), &out = k.out().shape();
  const int64_t in_area = in[2] * in[3], out_area = out[2] * out[3];
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const T* from = k.data<T>(0);
    T* to = k.out_data<T>();
    const FlatTaps<T> rows(row_taps), columns(column_taps);
    parallel_for(in[0] * in[1], plane_grain(std::max(in_area, out_area)), [&](int64_t begin, int64_t end) {
      std::vector<T> combined(in[3]);
      for (int64_t plane = begin; plane < end; ++plane)
        resample_plane(rows, columns, from + plane * in_area, in[3], combined.data(), to + plane * out_area);
    });
  });
}

struct AdaptiveAttrs {
  Shape output_size;
  static void fields(AttrFields<AdaptiveAttrs>& f) {
    f.field("output_size", &AdaptiveAttrs::output_size, "height and width of the output, or one number for both; 1 when empty");
  }
};
static Shape adaptive_shape(const AdaptiveAttrs& a, const Shape& s) {
  check_pixels(s);
  if (a.output_size.ndim() > 2) raise<AttrError>("output_size = {} has more than two numbers", a.output_size);
  const int64_t height = a.output_size.empty() ? 1 : a.output_size[0], width = a.output_size.empty() ? 1 : a.output_size.back();
  return {s[0], s[1], height, width};
}
GLUINO_OP(_contrib_AdaptiveAvgPooling2D, AdaptiveAttrs) {
  op.doc("Averages of windows chosen so that the output has a given size.")
      .input("data")
      .kernel_dtypes(real_dtypes())
      .shape([](const AdaptiveAttrs& a, std::span<const Shape> in) { return adaptive_shape(a, in[0]); })
      .kernel([](const AdaptiveAttrs&, KernelContext& k) {
        run_taps(k, adaptive_taps(k.in(0).extent(2), k.out().extent(2)), adaptive_taps(k.in(0).extent(3), k.out().extent(3)));
      })
      .gradient({},
                [](const AdaptiveAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_adaptive_avg_pooling_grad", {g.head(), g.like(0)}, a)};
                })
      .sample({{2, 2, 5, 4}}, {.output_size = {3, 2}})
      .sample({{2, 2, 3, 4}});
}
GLUINO_OP(_adaptive_avg_pooling_grad, AdaptiveAttrs) {
  op.doc("The gradient of _contrib_AdaptiveAvgPooling2D.")
      .input("head")
      .input("data")
      .shape_only()
      .kernel_dtypes(real_dtypes())
      .shape([](const AdaptiveAttrs& a, std::span<const Shape> in) { return check_head(in[0], adaptive_shape(a, in[1])), in[1]; })
      .kernel([](const AdaptiveAttrs&, KernelContext& k) {
        const int64_t height = k.out().extent(2), width = k.out().extent(3);
        run_taps(k, adjoint_of(adaptive_taps(height, k.in(0).extent(2)), height),
                 adjoint_of(adaptive_taps(width, k.in(0).extent(3)), width));
      })
      .gradient({},
                [](const AdaptiveAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_contrib_AdaptiveAvgPooling2D", {g.head()}, a), Tensor()};
                })
      .sample({{2, 2, 3, 2}, {2, 2, 5, 4}}, {.output_size = {3, 2}});
}

struct BilinearResizeAttrs {
  int64_t height = 1, width = 1;
  std::optional<double> scale_height, scale_width;
  enum class Mode : uint8_t { size, odd_scale, like, to_even_down, to_even_up, to_odd_down, to_odd_up } mode = Mode::size;
  bool align_corners = true;
  static void fields(AttrFields<BilinearResizeAttrs>& f) {
    f.field("height", &BilinearResizeAttrs::height, "height of the output")
        .field("width", &BilinearResizeAttrs::width, "width of the output")
        .field("scale_height", &BilinearResizeAttrs::scale_height, "factor of the height, instead of height")
        .field("scale_width", &BilinearResizeAttrs::scale_width, "factor of the width, instead of width")
        .choice("mode", &BilinearResizeAttrs::mode, {"size", "odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"},
                "how the size of the output is found")
        .field("align_corners", &BilinearResizeAttrs::align_corners, "the corner pixels of input and output lie on each other");
  }
};
static int64_t resized_extent(const BilinearResizeAttrs& a, int64_t in, int64_t like, int64_t fixed, std::optional<double> scale) {
  using Mode = BilinearResizeAttrs::Mode;
  const double factor = scale.value_or(1);
  switch (a.mode) {
    case Mode::size: return scale ? static_cast<int64_t>(static_cast<double>(in) * factor) : fixed;
    case Mode::odd_scale:
      return in % 2 ? static_cast<int64_t>(static_cast<double>(in - 1) * factor) + 1
                    : static_cast<int64_t>(static_cast<double>(in) * factor);
    case Mode::like: return like;
    case Mode::to_even_down: return in - in % 2;
    case Mode::to_even_up: return in + in % 2;
    case Mode::to_odd_down: return in % 2 ? in : in - 1;
    case Mode::to_odd_up: break;
  }
  return in % 2 ? in : in + 1;
}
GLUINO_OP(_contrib_BilinearResize2D, BilinearResizeAttrs) {
  op.doc("Resizes images by bilinear interpolation.")
      .input("data")
      .input("like")
      .shape_only()
      .present_if([](const BilinearResizeAttrs& a) { return a.mode == BilinearResizeAttrs::Mode::like; })
      .kernel_dtypes(real_dtypes())
      .shape([](const BilinearResizeAttrs& a, std::span<const Shape> in) {
        for (const Shape& s : in) check_images(s);
        check_pixels(in[0]);
        return Shape{in[0][0], in[0][1], resized_extent(a, in[0][2], in.back()[2], a.height, a.scale_height),
                     resized_extent(a, in[0][3], in.back()[3], a.width, a.scale_width)};
      })
      .kernel([](const BilinearResizeAttrs& a, KernelContext& k) {
        run_taps(k, bilinear_taps(k.in(0).extent(2), k.out().extent(2), a.align_corners),
                 bilinear_taps(k.in(0).extent(3), k.out().extent(3), a.align_corners));
      })
      .gradient({},
                [](const BilinearResizeAttrs& a, const Gradient& g) -> Tensors {
                  Tensors out(g.num_inputs());
                  out[0] = call_with("_bilinear_resize_grad", {g.head(), g.like(0)}, a);
                  return out;
                })
      .sample({{2, 2, 3, 4}}, {.height = 5, .width = 3})
      .sample({{1, 2, 3, 4}}, {.scale_height = 2, .scale_width = 1.5, .align_corners = false});
}
GLUINO_OP(_bilinear_resize_grad, BilinearResizeAttrs) {
  op.doc("The gradient of _contrib_BilinearResize2D.")
      .input("head")
      .input("data")
      .shape_only()
      .kernel_dtypes(real_dtypes())
      .shape([](const BilinearResizeAttrs&, std::span<const Shape> in) {
        check_images(in[0]);
        check_pixels(in[1]);
        check_head(in[0], {in[1][0], in[1][1], in[0][2], in[0][3]});  // its extents may be those of a third image
        return in[1];
      })
      .kernel([](const BilinearResizeAttrs& a, KernelContext& k) {
        const int64_t height = k.out().extent(2), width = k.out().extent(3);
        run_taps(k, adjoint_of(bilinear_taps(height, k.in(0).extent(2), a.align_corners), height),
                 adjoint_of(bilinear_taps(width, k.in(0).extent(3), a.align_corners), width));
      })
      .not_differentiable("the second derivative of resizing is not implemented")
      .sample({{2, 2, 5, 3}, {2, 2, 3, 4}}, {.height = 5, .width = 3});
}

}  // namespace
}  // namespace gluino::ops
