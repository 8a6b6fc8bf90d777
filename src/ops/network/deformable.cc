// Convolutions that read their input at shifted places (Dai et al., 2017), and with weighted ones (Zhu et al., 2018).
#include <cmath>

#include "base/extents.h"
#include "base/parallel.h"
#include "kernels/gemm/gemm.h"
#include "ops/network/convolution_attrs.h"

namespace gluino::ops {
namespace {

struct DeformableAttrs {
  Shape kernel, stride, dilate, pad;
  int64_t num_filter = 0, num_group = 1, num_deformable_group = 1;
  bool no_bias = false;
  static void fields(AttrFields<DeformableAttrs>& f) {
    f.required("kernel", &DeformableAttrs::kernel, "window size: (h, w)")
        .field("stride", &DeformableAttrs::stride, "step of the window; 1 when empty")
        .field("dilate", &DeformableAttrs::dilate, "distance of the window's elements; 1 when empty")
        .field("pad", &DeformableAttrs::pad, "zeros added at both ends of each axis; 0 when empty")
        .required("num_filter", &DeformableAttrs::num_filter, "number of output channels")
        .field("num_group", &DeformableAttrs::num_group, "number of groups the channels are split into")
        .field("num_deformable_group", &DeformableAttrs::num_deformable_group, "number of groups of channels with places of their own")
        .field("no_bias", &DeformableAttrs::no_bias, "leave the bias out");
  }
  ConvolutionAttrs convolution() const {
    return {.kernel = kernel, .stride = stride, .dilate = dilate, .pad = pad, .num_filter = num_filter, .num_group = num_group};
  }
};

struct Geometry {
  int64_t batch, channels, height, width, filters, groups, places, kernel_h, kernel_w, stride_h, stride_w, dilate_h, dilate_w, pad_h, pad_w,
      out_h, out_w;
  int64_t window() const { return kernel_h * kernel_w; }
  int64_t area() const { return out_h * out_w; }
  int64_t rows() const { return channels * window(); }  // of the matrix of patches
};

int64_t of_axis(const Shape& s, int axis, int64_t otherwise) { return s.empty() ? otherwise : s[axis]; }

Geometry geometry(const DeformableAttrs& a, const Shape& data) {
  if (data.ndim() != 4 || a.kernel.ndim() != 2)
    raise<ShapeError>("data of shape {} and a kernel of {}: (batch, channels, height, width) and (h, w) are needed", data, a.kernel);
  const kernels::ConvGeometry windows = geometry_of(a.convolution(), data);  // which checks the attributes
  Geometry g{data[0],
             data[1],
             data[2],
             data[3],
             a.num_filter,
             a.num_group,
             a.num_deformable_group,
             a.kernel[0],
             a.kernel[1],
             of_axis(a.stride, 0, 1),
             of_axis(a.stride, 1, 1),
             of_axis(a.dilate, 0, 1),
             of_axis(a.dilate, 1, 1),
             of_axis(a.pad, 0, 0),
             of_axis(a.pad, 1, 0),
             windows.out[0],
             windows.out[1]};
  if (g.places < 1 || g.channels % g.places)
    raise<ShapeError>("{} channels cannot be split into {} deformable groups", g.channels, g.places);
  return g;
}

Shape result_shape(const DeformableAttrs& a, std::span<const Shape> in, bool has_mask) {
  const Geometry g = geometry(a, in[0]);
  auto check = [&](size_t i, const char* name, const Shape& needed) {
    if (!(in[i] == needed)) raise<ShapeError>("{} has shape {}, but {} is needed", name, in[i], needed);
  };
  check(1, "offset", {g.batch, saturated_product(2, saturated_product(g.places, g.window())), g.out_h, g.out_w});
  if (has_mask) check(2, "mask", {g.batch, saturated_product(g.places, g.window()), g.out_h, g.out_w});
  const size_t w = has_mask ? 3 : 2;
  check(w, "weight", {g.filters, g.channels / g.groups, g.kernel_h, g.kernel_w});
  if (!a.no_bias) check(w + 1, "bias", {g.filters});
  return {g.batch, g.filters, g.out_h, g.out_w};
}

// Where one axis is read: two neighbours (-1: outside), their weights, and how these change with the place.
template <class T>
struct Neighbours {
  int64_t at[2];
  T weight[2], slope[2];
};
// Unmasked, places beyond the last element read it alone; masked, they fade into zeros, as MXNet has it.
template <class T>
Neighbours<T> neighbours(T place, int64_t extent, bool fades) {
  if (fades ? !(place > -1 && place < static_cast<T>(extent)) : !(place >= 0 && place < static_cast<T>(extent)))
    return {{-1, -1}, {0, 0}, {0, 0}};
  const auto low = static_cast<int64_t>(std::floor(place));
  if (!fades && low >= extent - 1) return {{extent - 1, -1}, {1, 0}, {0, 0}};
  const T rest = place - static_cast<T>(low);
  return {{low, low + 1 < extent ? low + 1 : -1}, {1 - rest, rest}, {-1, 1}};
}

// f(row of the patches, position in the output, index of the offset's dy, index of the mask, neighbours) for all that one image reads.
template <class T, class F>
void for_reads(const Geometry& g, const T* offset, bool fades, int64_t begin, int64_t end, F&& f) {
  const int64_t per_group = g.channels / g.places;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t channel = row / g.window(), k = row % g.window(), group = channel / per_group;
    const int64_t ky = k / g.kernel_w, kx = k % g.kernel_w;
    for (int64_t p = 0; p < g.area(); ++p) {
      const int64_t dy = (2 * (group * g.window() + k)) * g.area() + p, dx = dy + g.area(), mask = (group * g.window() + k) * g.area() + p;
      const T y = static_cast<T>(p / g.out_w * g.stride_h - g.pad_h + ky * g.dilate_h) + offset[dy];
      const T x = static_cast<T>(p % g.out_w * g.stride_w - g.pad_w + kx * g.dilate_w) + offset[dx];
      f(row, channel, p, dy, mask, neighbours(y, g.height, fades), neighbours(x, g.width, fades));
    }
  }
}

template <class T>
T read(const T* plane, int64_t width, const Neighbours<T>& y, const Neighbours<T>& x, const T* wy, const T* wx) {
  T sum = 0;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      if (y.at[i] >= 0 && x.at[j] >= 0) sum += wy[i] * wx[j] * plane[y.at[i] * width + x.at[j]];
  return sum;
}

template <class T>
void make_patches(const Geometry& g, const T* data, const T* offset, const T* mask, T* patches) {
  parallel_for(g.rows(), kParallelGrain / std::max<int64_t>(g.area() * 16, 1) + 1, [&](int64_t begin, int64_t end) {
    for_reads(g, offset, mask != nullptr, begin, end,
              [&](int64_t row, int64_t channel, int64_t p, int64_t, int64_t m, const Neighbours<T>& y, const Neighbours<T>& x) {
                const T value = read(data + channel * g.height * g.width, g.width, y, x, y.weight, x.weight);
                patches[row * g.area() + p] = mask ? value * mask[m] : value;
              });
  });
}

// c (m x n) = a (m x k) * b (k x n), of transposed matrices where said; beta 1 adds.
template <class T>
void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T* a, const T* b, T beta, T* c) {
  kernels::gemm<T>({m, n, k}, {a, ta ? m : k, ta}, {b, tb ? k : n, tb}, {c, n}, {.old = beta});
}

template <class T>
void forward(const DeformableAttrs& a, KernelContext& k, bool has_mask) {
  const Geometry g = geometry(a, k.in(0).shape());
  const int weight = has_mask ? 3 : 2;
  std::vector<T> patches(g.rows() * g.area());
  const int64_t filters = g.filters / g.groups, rows = g.rows() / g.groups;
  for (int64_t n = 0; n < g.batch; ++n) {
    make_patches<T>(g, k.data<T>(0) + n * g.channels * g.height * g.width, k.data<T>(1) + n * 2 * g.places * g.window() * g.area(),
                    has_mask ? k.data<T>(2) + n * g.places * g.window() * g.area() : nullptr, patches.data());
    T* out = k.out_data<T>() + n * g.filters * g.area();
    for (int64_t i = 0; i < g.groups; ++i)
      gemm<T>(false, false, filters, g.area(), rows, k.data<T>(weight) + i * filters * rows, patches.data() + i * rows * g.area(), 0,
              out + i * filters * g.area());
    if (!a.no_bias)
      for (int64_t i = 0; i < g.filters * g.area(); ++i) out[i] += k.data<T>(weight + 1)[i / g.area()];
  }
}

// Inputs: head, data, offset, mask (where there is one), weight. Outputs: the gradients of those but the head.
template <class T>
void backward(const DeformableAttrs& a, KernelContext& k, bool has_mask) {
  const Geometry g = geometry(a, k.in(1).shape());
  const int weight = has_mask ? 4 : 3, out_weight = weight - 1;
  std::vector<T> patches(g.rows() * g.area()), change(g.rows() * g.area());
  const int64_t filters = g.filters / g.groups, rows = g.rows() / g.groups, image = g.channels * g.height * g.width,
                places = g.places * g.window() * g.area();
  for (int i = 0; i <= out_weight; ++i) std::fill_n(k.out_data<T>(i), k.out(i).size(), T(0));
  for (int64_t n = 0; n < g.batch; ++n) {
    const T *data = k.data<T>(1) + n * image, *offset = k.data<T>(2) + n * 2 * places,
            *mask = has_mask ? k.data<T>(3) + n * places : nullptr;
    const T* head = k.data<T>(0) + n * g.filters * g.area();
    make_patches<T>(g, data, offset, mask, patches.data());
    for (int64_t i = 0; i < g.groups; ++i) {
      const T *w = k.data<T>(weight) + i * filters * rows, *h = head + i * filters * g.area();
      gemm<T>(false, true, filters, rows, g.area(), h, patches.data() + i * rows * g.area(), 1,
              k.out_data<T>(out_weight) + i * filters * rows);
      gemm<T>(true, false, rows, g.area(), filters, w, h, 0, change.data() + i * rows * g.area());
    }
    T *d_data = k.out_data<T>(0) + n * image, *d_offset = k.out_data<T>(1) + n * 2 * places,
      *d_mask = has_mask ? k.out_data<T>(2) + n * places : nullptr;
    for_reads(g, offset, has_mask, 0, g.rows(),
              [&](int64_t row, int64_t channel, int64_t p, int64_t dy, int64_t m, const Neighbours<T>& y, const Neighbours<T>& x) {
                const T moved = change[row * g.area() + p], scaled = mask ? moved * mask[m] : moved;
                const T* plane = data + channel * g.height * g.width;
                d_offset[dy] += scaled * read(plane, g.width, y, x, y.slope, x.weight);
                d_offset[dy + g.area()] += scaled * read(plane, g.width, y, x, y.weight, x.slope);
                if (mask) d_mask[m] += moved * read(plane, g.width, y, x, y.weight, x.weight);
                for (int i = 0; i < 2; ++i)
                  for (int j = 0; j < 2; ++j)
                    if (y.at[i] >= 0 && x.at[j] >= 0)
                      d_data[channel * g.height * g.width + y.at[i] * g.width + x.at[j]] += scaled * y.weight[i] * x.weight[j];
              });
  }
}

// ---- operators

std::vector<DType> two_dtypes() { return {DType::float32, DType::float64}; }
template <class F>
void in_float(DType dtype, F&& f) {
  dtype == DType::float32 ? f(static_cast<float*>(nullptr)) : f(static_cast<double*>(nullptr));
}

void define_deformable(OpBuilder<DeformableAttrs>& op, bool has_mask, const char* gradient) {
  op.input("data").input("offset");
  if (has_mask) op.input("mask");
  op.input("weight")
      .input("bias")
      .present_if([](const DeformableAttrs& a) { return !a.no_bias; })
      .ignores({"workspace", "layout", "im2col_step"})
      .kernel_dtypes(two_dtypes())
      .shape([has_mask](const DeformableAttrs& a, std::span<const Shape> in) { return result_shape(a, in, has_mask); })
      .complete([has_mask](const DeformableAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        const size_t w = has_mask ? 3 : 2;
        if (!a.no_bias && is_open(in[w + 1])) in[w + 1] = Shape{a.num_filter};
        if (is_open(in[w]) && in[0] && in[0]->ndim() == 4 && (*in[0])[1] > 0 && a.num_group > 0 && a.kernel.ndim() == 2)
          in[w] = Shape{a.num_filter, (*in[0])[1] / a.num_group, a.kernel[0], a.kernel[1]};
      })
      .kernel([has_mask](const DeformableAttrs& a, KernelContext& k) {
        in_float(k.out().dtype(), [&]<class T>(T*) { forward<T>(a, k, has_mask); });
      })
      .gradient({.inputs = has_mask ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 1, 2}},
                [has_mask, gradient](const DeformableAttrs& a, const Gradient& g) -> Tensors {
                  Tensors in{g.head(), g.in(0), g.in(1), g.in(2)};
                  if (has_mask) in.push_back(g.in(3));
                  const OpDef& op = OpRegistry::global().get(gradient);
                  Tensors grads = apply(op, in, std::make_shared<const DeformableAttrs>(a));
                  if (!a.no_bias) grads.push_back(call("sum", {g.head()}, {{"axis", Shape{0, 2, 3}}}));
                  return grads;
                });
}
void define_gradient(OpBuilder<DeformableAttrs>& op, bool has_mask) {
  op.input("head").input("data").input("offset");
  if (has_mask) op.input("mask");
  op.input("weight")
      .outputs(has_mask ? std::vector<std::string>{"data", "offset", "mask", "weight"}
                        : std::vector<std::string>{"data", "offset", "weight"})
      .kernel_dtypes(two_dtypes())
      .shape([has_mask](DeformableAttrs a, std::span<const Shape> in) {
        a.no_bias = true;
        check_head(in[0], result_shape(a, in.subspan(1), has_mask));
        return std::vector<Shape>(in.begin() + 1, in.end());
      })
      .kernel([has_mask](const DeformableAttrs& a, KernelContext& k) {
        in_float(k.out().dtype(), [&]<class T>(T*) { backward<T>(a, k, has_mask); });
      })
      .not_differentiable("second derivatives of places are not written");
}

GLUINO_OP(_contrib_DeformableConvolution, DeformableAttrs) {
  define_deformable(op.doc("A convolution whose window reads at places shifted by offsets: (dy, dx) for every element of the window."),
                    false, "_deformable_convolution_grad");
  op.sample({{2, 2, 5, 6}, uniform_sample({2, 8, 4, 5}, -0.4, 0.4), {3, 2, 2, 2}, {3}}, {.kernel = {2, 2}, .num_filter = 3})
      .sample(
          {{1, 4, 6, 6}, uniform_sample({1, 36, 3, 3}, -0.4, 0.4), {2, 2, 3, 3}},
          {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .num_filter = 2, .num_group = 2, .num_deformable_group = 2, .no_bias = true});
}
GLUINO_OP(_deformable_convolution_grad, DeformableAttrs) {
  define_gradient(op.doc("The gradients of DeformableConvolution with respect to data, offset and weight."), false);
  op.sample({{2, 3, 4, 5}, {2, 2, 5, 6}, uniform_sample({2, 8, 4, 5}, -0.4, 0.4), {3, 2, 2, 2}}, {.kernel = {2, 2}, .num_filter = 3});
}
GLUINO_OP(_contrib_ModulatedDeformableConvolution, DeformableAttrs) {
  define_deformable(op.doc("DeformableConvolution in which every element of the window is weighted by a mask, too."), true,
                    "_modulated_deformable_convolution_grad");
  op.sample({{2, 2, 5, 6}, uniform_sample({2, 8, 4, 5}, -0.4, 0.4), {2, 4, 4, 5}, {3, 2, 2, 2}, {3}}, {.kernel = {2, 2}, .num_filter = 3});
}
GLUINO_OP(_modulated_deformable_convolution_grad, DeformableAttrs) {
  define_gradient(op.doc("The gradients of ModulatedDeformableConvolution with respect to data, offset, mask and weight."), true);
  op.sample({{2, 3, 4, 5}, {2, 2, 5, 6}, uniform_sample({2, 8, 4, 5}, -0.4, 0.4), {2, 4, 4, 5}, {3, 2, 2, 2}},
            {.kernel = {2, 2}, .num_filter = 3});
}

}  // namespace
}  // namespace gluino::ops
