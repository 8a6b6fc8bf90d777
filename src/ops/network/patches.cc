// Windows of images as columns and back, and enlarging images.
#include <cstring>

#include "base/extents.h"
#include "base/parallel.h"
#include "kernels/convolution/convolution.h"
#include "ops/nets.h"

namespace gluino::ops {
namespace {

using kernels::ConvGeometry;

struct Im2colAttrs {
  Shape kernel, stride, dilate, pad;
  static void fields(AttrFields<Im2colAttrs>& f) {
    f.required("kernel", &Im2colAttrs::kernel, "window size per spatial axis")
        .field("stride", &Im2colAttrs::stride, "step of the window per axis; 1 when empty")
        .field("dilate", &Im2colAttrs::dilate, "distance of the window's elements per axis; 1 when empty")
        .field("pad", &Im2colAttrs::pad, "zeros added at both ends of each axis; 0 when empty");
  }
};
struct Col2imAttrs {
  Shape output_size, kernel, stride, dilate, pad;
  static void fields(AttrFields<Col2imAttrs>& f) {
    f.required("output_size", &Col2imAttrs::output_size, "spatial extents of the image")
        .required("kernel", &Col2imAttrs::kernel, "window size per spatial axis")
        .field("stride", &Col2imAttrs::stride, "step of the window per axis; 1 when empty")
        .field("dilate", &Col2imAttrs::dilate, "distance of the window's elements per axis; 1 when empty")
        .field("pad", &Col2imAttrs::pad, "zeros added at both ends of each axis; 0 when empty");
  }
  Im2colAttrs windows() const { return {kernel, stride, dilate, pad}; }
};

// image: (batch, channels, extents...), one window per position of `out`.
static ConvGeometry window_geometry(const Im2colAttrs& a, const Shape& image) {
  ConvGeometry g;
  g.rank = a.kernel.ndim();
  if (g.rank < 1 || g.rank > 3 || image.ndim() != g.rank + 2)
    raise<ShapeError>("an image of shape {} does not fit kernel = {}", image, a.kernel);
  g.batch = image[0];
  g.in_channels = image[1];
  g.kernel = spatial_tuple(a.kernel, g.rank, 1, "kernel");
  g.stride = spatial_tuple(a.stride, g.rank, 1, "stride");
  g.dilate = spatial_tuple(a.dilate, g.rank, 1, "dilate");
  g.pad = spatial_tuple(a.pad, g.rank, 0, "pad");
  for (int i = 0; i < g.rank; ++i) {
    const auto s = static_cast<size_t>(i);
    if (g.kernel[s] < 1 || g.stride[s] < 1 || g.dilate[s] < 1 || g.pad[s] < 0)
      raise<AttrError>("kernel {}, stride {} and dilate {} must be positive and pad {} not negative", a.kernel, a.stride, a.dilate, a.pad);
    g.in[s] = image[2 + i];
    check_extent(g.in[s], image);
    const int64_t room = g.in[s] + 2 * g.pad[s] - g.dilate[s] * (g.kernel[s] - 1) - 1;
    if (room < 0) raise<ShapeError>("kernel = {} does not fit into the padded image {}", a.kernel, image);
    g.out[s] = room / g.stride[s] + 1;
  }
  return g;
}
static Shape column_shape(const ConvGeometry& g) { return {g.batch, g.in_channels * g.kernel_area(), g.out_area()}; }

// Calls f(image offset or -1 in the padding, column offset) for every element of the columns, planes in parallel.
template <class F>
static void for_each_column(const ConvGeometry& g, F&& f) {
  const int64_t taps = g.kernel_area(), positions = g.out_area();
  parallel_for(g.batch * g.in_channels, kParallelGrain / std::max<int64_t>(taps * positions, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane)
      for (int64_t q = 0; q < taps; ++q)
        for (int64_t p = 0; p < positions; ++p) {
          const kernels::Spatial tap{q / (g.kernel[1] * g.kernel[2]), q / g.kernel[2] % g.kernel[1], q % g.kernel[2]};
          const kernels::Spatial at{p / (g.out[1] * g.out[2]), p / g.out[2] % g.out[1], p % g.out[2]};
          int64_t offset = 0;
          bool inside = true;
          for (size_t i = 0; i < 3; ++i) {
            const int64_t x = at[i] * g.stride[i] - g.pad[i] + tap[i] * g.dilate[i];
            inside &= x >= 0 && x < g.in[i];
            offset = offset * g.in[i] + x;
          }
          f(inside ? plane * g.in_area() + offset : -1, (plane * taps + q) * positions + p);
        }
  });
}
static void fold_columns(const ConvGeometry& g, KernelContext& k) {
  std::memset(bytes_of(k.out()), 0, k.out().nbytes());
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    const T* columns = k.data<T>(0);
    T* image = k.out_data<T>();
    for_each_column(g, [&](int64_t to, int64_t from) {
      if (to >= 0) image[to] += columns[from];
    });
  });
}

GLUINO_OP(im2col, Im2colAttrs) {
  op.doc("Every window of an image as a column.")
      .input("data")
      .kernel_dtypes(real_dtypes())
      .shape([](const Im2colAttrs& a, std::span<const Shape> in) { return column_shape(window_geometry(a, in[0])); })
      .kernel([](const Im2colAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T* image = k.data<T>(0);
          T* columns = k.out_data<T>();
          for_each_column(window_geometry(a, k.in(0).shape()),
                          [&](int64_t from, int64_t to) { columns[to] = from < 0 ? T(0) : image[from]; });
        });
      })
      .gradient({},
                [](const Im2colAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_im2col_grad", {g.head(), g.like(0)}, a)};
                })
      .sample({{2, 2, 4, 3}}, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}})
      .sample({{1, 2, 5}}, {.kernel = {2}, .dilate = {2}});
}
GLUINO_OP(_im2col_grad, Im2colAttrs) {
  op.doc("Adds columns up to an image of the shape of data.")
      .input("head")
      .input("data")
      .shape_only()
      .kernel_dtypes(real_dtypes())
      .shape([](const Im2colAttrs& a, std::span<const Shape> in) {
        const Shape columns = column_shape(window_geometry(a, in[1]));
        if (!(in[0] == columns)) raise<ShapeError>("head has shape {}, but {} is needed", in[0], columns);
        return in[1];
      })
      .kernel([](const Im2colAttrs& a, KernelContext& k) { fold_columns(window_geometry(a, k.out().shape()), k); })
      .gradient({},
                [](const Im2colAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("im2col", {g.head()}, a), Tensor()};
                })
      .sample({{1, 8, 4}, {1, 2, 3, 3}}, {.kernel = {2, 2}});
}
static Shape image_shape(const Col2imAttrs& a, const Shape& columns) {
  const int64_t taps = a.kernel.elements();
  if (columns.ndim() != 3 || taps < 1 || columns[1] % taps)
    raise<ShapeError>("data has shape {}, but (batch, channels * {}, windows) is needed", columns, taps);
  Shape s{columns[0], columns[1] / taps};
  for (int64_t extent : a.output_size) s.push_back(extent);
  return s;
}
GLUINO_OP(col2im, Col2imAttrs) {
  op.doc("Adds the columns of windows up to an image.")
      .input("data")
      .kernel_dtypes(real_dtypes())
      .shape([](const Col2imAttrs& a, std::span<const Shape> in) {
        const Shape image = image_shape(a, in[0]);
        const ConvGeometry g = window_geometry(a.windows(), image);
        if (in[0][2] != g.out_area())
          raise<ShapeError>("data has {} columns, but output_size = {} has {} windows", in[0][2], a.output_size, g.out_area());
        return image;
      })
      .kernel([](const Col2imAttrs& a, KernelContext& k) { fold_columns(window_geometry(a.windows(), k.out().shape()), k); })
      .gradient({}, [](const Col2imAttrs& a, const Gradient& g) -> Tensors { return {call_with("im2col", {g.head()}, a.windows())}; })
      .sample({{1, 8, 4}}, {.output_size = {3, 3}, .kernel = {2, 2}});
}

// ---- UpSampling
struct UpSamplingAttrs {
  int64_t scale = 1, num_filter = 0, num_args = 1;
  enum class Type : uint8_t { nearest, bilinear } sample_type = Type::nearest;
  enum class Mode : uint8_t { concat, sum } multi_input_mode = Mode::concat;
  static void fields(AttrFields<UpSamplingAttrs>& f) {
    f.required("scale", &UpSamplingAttrs::scale, "factor of the first input's height and width")
        .choice("sample_type", &UpSamplingAttrs::sample_type, {"nearest", "bilinear"},
                "repeat elements, or a deconvolution with the second input")
        .field("num_filter", &UpSamplingAttrs::num_filter, "number of channels for bilinear")
        .choice("multi_input_mode", &UpSamplingAttrs::multi_input_mode, {"concat", "sum"}, "what happens to several inputs of nearest")
        .field("num_args", &UpSamplingAttrs::num_args, "number of inputs");
  }
  bool is_bilinear() const { return sample_type == Type::bilinear; }
  bool is_sum() const { return multi_input_mode == Mode::sum; }
  void check_scale() const {
    constexpr int64_t kMost = int64_t{1} << 30;
    if (scale < 1 || scale > kMost) raise<AttrError>("scale = {}, but 1 to {} is possible", scale, kMost);
  }
  int64_t kernel() const { return check_scale(), 2 * scale - scale % 2; }
  int64_t pad() const { return scale / 2; }
};

static ConvGeometry bilinear_geometry(const UpSamplingAttrs& a, const Shape& data, const Shape& out) {
  ConvGeometry g;
  g.batch = data[0];
  g.in_channels = g.out_channels = g.groups = data[1];
  g.in = {out[2], out[3], 1};
  g.out = {data[2], data[3], 1};
  g.kernel = {a.kernel(), a.kernel(), 1};
  g.stride = {a.scale, a.scale, 1};
  g.pad = {a.pad(), a.pad(), 0};
  return g;
}

static Shape upsampling_shape(const UpSamplingAttrs& a, std::span<const Shape> in) {
  for (const Shape& s : in)
    if (s.ndim() != 4) raise<ShapeError>("an input has shape {}, but 4 axes are needed", s);
  a.check_scale();
  Shape out{in[0][0], in[0][1], saturated_product(in[0][2], a.scale), saturated_product(in[0][3], a.scale)};
  if (a.is_bilinear()) {
    const Shape weight{in[0][1], 1, a.kernel(), a.kernel()};
    if (in.size() != 2 || !(in[1] == weight)) raise<ShapeError>("bilinear needs a weight of shape {} as second input", weight);
    return out;
  }
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i][0] != out[0] || in[i][2] < 1 || in[i][3] < 1 || out[2] % in[i][2] || out[3] % in[i][3])
      raise<ShapeError>("input {} of shape {} cannot be repeated to {}", i, in[i], out);
    if (a.is_sum() && in[i][1] != out[1]) raise<ShapeError>("inputs to be added have {} and {} channels", out[1], in[i][1]);
    if (!a.is_sum()) out[1] += in[i][1];
  }
  return out;
}

// How often the rows and elements of a small image stand in a large one.
struct Repeats {
  int64_t rows, elements;
  Repeats(const Shape& small, const Shape& large)
      : rows(small[2] ? large[2] / small[2] : 1), elements(small[3] ? large[3] / small[3] : 1) {}
};
// Calls f(where a row of the small image begins, where the first of its rows in the large one does); the small image's channels start at
// `first` in the large one.
template <class F>
static void for_each_repeated_row(const Shape& small, const Shape& large, int64_t first, F&& f) {
  const int64_t rows = Repeats(small, large).rows, work = rows * large[3];
  parallel_for(small[0] * small[1] * small[2], kParallelGrain / std::max<int64_t>(work, 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t plane = r / small[2], to = plane / small[1] * large[1] + first + plane % small[1];
      f(r * small[3], (to * large[2] + r % small[2] * rows) * large[3]);
    }
  });
}
template <class T>
static void repeat_elements(const T* from, int64_t n, int64_t times, T* to) {
  if (times == 2)
    for (int64_t i = 0; i < n; ++i) to[2 * i] = to[2 * i + 1] = from[i];
  else
    for (int64_t i = 0; i < n; ++i) std::fill_n(to + i * times, times, from[i]);
}

static void upsampling_kernel(const UpSamplingAttrs& a, KernelContext& k) {
  if (k.out().size() == 0) return;
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    T* out = k.out_data<T>();
    if (a.is_bilinear()) {
      PoolScratch scratch(k.out().device());
      return kernels::convolution_data_grad(bilinear_geometry(a, k.in(0).shape(), k.out().shape()), k.data<T>(0), k.data<T>(1), out,
                                            std::ref(scratch));
    }
    int64_t first = 0;
    for (int n = 0; n < k.num_inputs(); ++n) {
      const T* data = k.data<T>(n);
      const bool add = a.is_sum() && n > 0;
      const Shape &small = k.in(n).shape(), &large = k.out().shape();
      const Repeats times(small, large);
      for_each_repeated_row(small, large, first, [&](int64_t from, int64_t to) {
        if (!add) repeat_elements(data + from, small[3], times.elements, out + to);
        for (int64_t i = add ? 0 : 1; i < times.rows; ++i) {
          T* row = out + to + i * large[3];
          if (!add) std::copy_n(out + to, large[3], row);
          for (int64_t j = 0; add && j < large[3]; ++j) row[j] += data[from + j / times.elements];
        }
      });
      if (!a.is_sum()) first += k.in(n).extent(1);
    }
  });
}

static Tensors upsampling_gradient(const UpSamplingAttrs& a, const Gradient& g) {
  Tensors out;
  if (a.is_bilinear()) {
    const Shape kernel{a.kernel(), a.kernel()}, stride{a.scale, a.scale}, pad{a.pad(), a.pad()};
    const int64_t channels = g.like(1).extent(0);
    const NamedAttrs attrs{{"kernel", kernel},       {"stride", stride},      {"pad", pad},
                           {"num_filter", channels}, {"num_group", channels}, {"no_bias", true}};
    return {call("Convolution", {g.head(), g.in(1)}, attrs), call("_convolution_weight_grad", {g.in(0), g.head(), g.like(1)}, attrs)};
  }
  int64_t first = 0;
  for (int i = 0; i < g.num_inputs(); ++i) {
    out.push_back(call("_upsampling_grad", {g.head(), g.like(i)}, {{"first", first}}));
    if (!a.is_sum()) first += g.like(i).extent(1);
  }
  return out;
}

GLUINO_OP(UpSampling, UpSamplingAttrs) {
  op.doc("Enlarges images by repeating elements or by a bilinear deconvolution.")
      .variadic("data")
      .ignores({"workspace"})
      .kernel_dtypes(real_dtypes())
      .shape(upsampling_shape)
      .complete([](const UpSamplingAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        if (a.is_bilinear() && in.size() == 2 && is_open(in[1]) && in[0] && in[0]->ndim() == 4 && (*in[0])[1] >= 0)
          in[1] = Shape{(*in[0])[1], 1, a.kernel(), a.kernel()};
      })
      .kernel(upsampling_kernel)
      .gradient({.all_inputs = true}, upsampling_gradient)
      .sample({{2, 3, 2, 2}}, {.scale = 2})
      .sample({{2, 3, 4, 2}, {2, 1, 2, 1}}, {.scale = 2, .num_args = 2})
      .sample({{2, 3, 2, 3}, {3, 1, 4, 4}}, {.scale = 2, .num_filter = 3, .num_args = 2, .sample_type = UpSamplingAttrs::Type::bilinear});
}

struct UpSamplingGradAttrs {
  int64_t first = 0;
  static void fields(AttrFields<UpSamplingGradAttrs>& f) {
    f.field("first", &UpSamplingGradAttrs::first, "the channel of head at which those of data start");
  }
};
GLUINO_OP(_upsampling_grad, UpSamplingGradAttrs) {
  op.doc("Sums the elements of head that nearest UpSampling made of each element of data.")
      .input("head")
      .input("data")
      .shape_only()
      .kernel_dtypes(real_dtypes())
      .shape([](const UpSamplingGradAttrs& a, std::span<const Shape> in) {
        const Shape &head = in[0], &data = in[1];
        const bool are_images = head.ndim() == 4 && data.ndim() == 4 && head[0] == data[0];
        const auto is_repeated = [&](int axis) { return data[axis] == 0 ? head[axis] == 0 : head[axis] % data[axis] == 0; };
        if (!are_images || !is_repeated(2) || !is_repeated(3) || a.first < 0 || a.first > head[1] - data[1])
          raise<ShapeError>("head of shape {} has not {} repeated from channel {} on", head, data, a.first);
        return data;
      })
      .kernel([](const UpSamplingGradAttrs& a, KernelContext& k) {
        const Shape &small = k.out().shape(), &large = k.in(0).shape();
        const Repeats times(small, large);
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          const T* head = k.data<T>(0);
          T* out = k.out_data<T>();
          for_each_repeated_row(small, large, a.first, [&](int64_t to, int64_t from) {
            T* sums = out + to;
            std::fill_n(sums, small[3], T(0));
            for (int64_t i = 0; i < times.rows; ++i) {
              const T* row = head + from + i * large[3];
              for (int64_t j = 0; times.elements == 2 && j < small[3]; ++j) sums[j] = sums[j] + row[2 * j] + row[2 * j + 1];
              for (int64_t j = 0; times.elements != 2 && j < large[3]; ++j) sums[j / times.elements] += row[j];
            }
          });
        });
      })
      .not_differentiable("the second derivative of UpSampling is not implemented")
      .sample({{2, 3, 4, 4}, {2, 2, 2, 2}}, {.first = 1});
}

}  // namespace
}  // namespace gluino::ops
