// Convolution, Deconvolution, and the gradients of both, which are again convolutions.
#include <cstring>

#include "base/extents.h"

#include "ops/network/convolution_attrs.h"

namespace gluino::ops {
namespace {

using kernels::ConvGeometry;
using kernels::Spatial;

static bool is_nothing(const Tensor& a, const Tensor& b, Tensor& out) {
  if (a.size() && b.size() && out.size()) return false;
  std::memset(bytes_of(out), 0, out.nbytes());
  return true;
}

static void convolution_kernel(const ConvolutionAttrs& a, KernelContext& k) {
  const ConvGeometry g = geometry_of(a, k.in(0).shape());
  if (k.out().size() == 0) return;
  PoolScratch scratch(k.out().device());
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    kernels::convolution(g, k.data<T>(0), k.data<T>(1), a.no_bias ? nullptr : k.data<T>(2), k.out_data<T>(), std::ref(scratch));
  });
}

static Tensor bias_gradient(const ConvolutionAttrs& a, const Tensor& head) {
  const int64_t axis = is_channels_last(a.layout, a.kernel.ndim()) ? a.kernel.ndim() + 1 : 1;
  return call("sum", {head}, {{"axis", Shape{axis}}, {"exclude", true}});
}
static ConvolutionAttrs without_bias(ConvolutionAttrs a) {
  a.no_bias = true;
  return a;
}

static Tensors convolution_gradient(const ConvolutionAttrs& a, const Gradient& g) {
  Tensors out(g.num_inputs());
  if (g.wants(0)) out[0] = call_with("_convolution_data_grad", {g.head(), g.in(1), g.like(0)}, without_bias(a));
  if (g.wants(1)) out[1] = call_with("_convolution_weight_grad", {g.head(), g.in(0), g.like(1)}, without_bias(a));
  if (!a.no_bias && g.wants(2)) out[2] = bias_gradient(a, g.head());
  return out;
}

static int channel_axis(const std::optional<std::string>& layout, int rank) { return is_channels_last(layout, rank) ? rank + 1 : 1; }

GLUINO_OP(Convolution, ConvolutionAttrs) {
  op.doc("Slides filters over 1 to 3 spatial axes.")
      .alias("Convolution_v1")
      .input("data")
      .input("weight")
      .input("bias")
      .present_if([](const ConvolutionAttrs& a) { return !a.no_bias; })
      .ignores({"workspace", "cudnn_tune", "cudnn_off"})
      .shape([](const ConvolutionAttrs& a, std::span<const Shape> in) {
        const ConvGeometry g = geometry_of(a, in[0]);
        check_weight(in[1], weight_shape(g));
        if (!a.no_bias) check_bias(in[2], a.num_filter);
        return activation_shape(g, g.out_channels, g.out);
      })
      .complete([](const ConvolutionAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        if (!a.no_bias && is_open(in[2])) in[2] = Shape{a.num_filter};
        if (is_open(in[1]) && has_known_channels(a, in[0])) in[1] = weight_shape(geometry_of(a, with_large_extents(a, *in[0])));
      })
      .kernel(convolution_kernel)
      .kernel_dtypes(real_dtypes())
      .gradient({{0, 1}, {}}, convolution_gradient)
      .sample({{2, 3, 5, 4}, {4, 3, 3, 2}, {4}}, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 1}, .num_filter = 4})
      .sample({{2, 4, 6}, {4, 2, 3}}, {.kernel = {3}, .dilate = {2}, .num_filter = 4, .num_group = 2, .no_bias = true})
      .sample({{1, 2, 3, 4, 3}, {2, 2, 2, 3, 2}, {2}}, {.kernel = {2, 3, 2}, .pad = {0, 1, 0}, .num_filter = 2})
      .sample({{2, 4, 5, 3}, {4, 3, 2, 3}, {4}}, {.kernel = {3, 2}, .num_filter = 4, .layout = "NHWC"});
  for_compiler(op)
      .fold_affine([](const ConvolutionAttrs& a, const Tensors& in, const ChannelAffine& c) {
        return c.axis == channel_axis(a.layout, a.kernel.ndim()) ? fold_into_weight(a, in, c, 0) : FoldedCall{};
      })
      .compiled_layer(compiled_convolution);
}

GLUINO_OP(_convolution_data_grad, ConvolutionAttrs) {
  op.doc("The gradient of Convolution with respect to its data.")
      .input("head")
      .input("weight")
      .input("data")
      .shape_only()
      .shape([](const ConvolutionAttrs& a, std::span<const Shape> in) { return check_convolution(a, in[0], in[2], in[1]), in[2]; })
      .kernel([](const ConvolutionAttrs& a, KernelContext& k) {
        if (is_nothing(k.in(0), k.in(1), k.out())) return;
        PoolScratch scratch(k.out().device());
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::convolution_data_grad(geometry_of(a, k.out().shape()), k.data<T>(0), k.data<T>(1), k.out_data<T>(), std::ref(scratch));
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{0, 1}, {}},
                [](const ConvolutionAttrs& a, const Gradient& g) -> Tensors {
                  return {g.wants(0) ? call_with("Convolution", {g.head(), g.in(1)}, without_bias(a)) : Tensor(),
                          g.wants(1) ? call_with("_convolution_weight_grad", {g.in(0), g.head(), g.like(1)}, a) : Tensor(), Tensor()};
                })
      .sample({{2, 4, 3, 3}, {4, 3, 3, 2}, {2, 3, 5, 4}},
              {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}, .num_filter = 4, .no_bias = true});
}

GLUINO_OP(_convolution_weight_grad, ConvolutionAttrs) {
  op.doc("The gradient of Convolution with respect to its weight.")
      .input("head")
      .input("data")
      .input("weight")
      .shape_only()
      .shape([](const ConvolutionAttrs& a, std::span<const Shape> in) { return check_convolution(a, in[0], in[1], in[2]), in[2]; })
      .kernel([](const ConvolutionAttrs& a, KernelContext& k) {
        if (is_nothing(k.in(0), k.in(1), k.out())) return;
        PoolScratch scratch(k.out().device());
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::convolution_weight_grad(geometry_of(a, k.in(1).shape()), k.data<T>(0), k.data<T>(1), k.out_data<T>(), std::ref(scratch));
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{0, 1}, {}},
                [](const ConvolutionAttrs& a, const Gradient& g) -> Tensors {
                  return {g.wants(0) ? call_with("Convolution", {g.in(1), g.head()}, without_bias(a)) : Tensor(),
                          g.wants(1) ? call_with("_convolution_data_grad", {g.in(0), g.head(), g.like(1)}, a) : Tensor(), Tensor()};
                })
      .sample({{2, 4, 3, 3}, {2, 3, 5, 4}, {4, 3, 3, 2}},
              {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}, .num_filter = 4, .no_bias = true});
}

// ---- Deconvolution: the data gradient of the convolution that maps its output to its data.
struct DeconvolutionAttrs {
  Shape kernel, stride, dilate, pad, adj, target_shape;
  int64_t num_filter = 0, num_group = 1;
  bool no_bias = true;
  std::optional<std::string> layout;
  static void fields(AttrFields<DeconvolutionAttrs>& f) {
    f.required("kernel", &DeconvolutionAttrs::kernel, "window size per spatial axis: (w,), (h, w) or (d, h, w)")
        .field("stride", &DeconvolutionAttrs::stride, "step of the window in the output per axis; 1 when empty")
        .field("dilate", &DeconvolutionAttrs::dilate, "distance of the window's elements per axis; 1 when empty")
        .field("pad", &DeconvolutionAttrs::pad, "what is cut from both ends of each axis; 0 when empty")
        .field("adj", &DeconvolutionAttrs::adj, "what is added to the output's extent per axis; 0 when empty")
        .field("target_shape", &DeconvolutionAttrs::target_shape, "spatial extents of the output; when given, pad and adj follow from it")
        .required("num_filter", &DeconvolutionAttrs::num_filter, "number of output channels")
        .field("num_group", &DeconvolutionAttrs::num_group, "number of groups the channels are split into")
        .field("no_bias", &DeconvolutionAttrs::no_bias, "leave the bias out")
        .field("layout", &DeconvolutionAttrs::layout, "NCW, NCHW, NCDHW, or one of NWC, NHWC, NDHWC");
  }
};

// The attributes of that convolution, and the shape of the deconvolution's output.
struct Transposed {
  ConvolutionAttrs attrs;
  Shape out;
};

static Transposed transposed(const DeconvolutionAttrs& a, const Shape& data) {
  const int rank = a.kernel.ndim();
  if (rank < 1 || rank > 3) raise<AttrError>("kernel = {} has {} numbers, but 1, 2 or 3 are supported", a.kernel, rank);
  if (data.ndim() != rank + 2) raise<ShapeError>("data has shape {}, but kernel = {} needs {} axes", data, a.kernel, rank + 2);
  if (a.num_filter < 1) raise<AttrError>("num_filter = {} must be positive", a.num_filter);
  const bool last = is_channels_last(a.layout, rank);
  const Spatial kernel = spatial_tuple(a.kernel, rank, 1, "kernel"), stride = spatial_tuple(a.stride, rank, 1, "stride"),
                dilate = spatial_tuple(a.dilate, rank, 1, "dilate"), adj = spatial_tuple(a.adj, rank, 0, "adj"),
                target = spatial_tuple(a.target_shape, rank, 0, "target_shape");
  const bool has_target = std::any_of(target.begin(), target.begin() + rank, [](int64_t t) { return t > 0; });
  Spatial pad = spatial_tuple(a.pad, rank, 0, "pad");
  Transposed t;
  t.attrs = {.kernel = a.kernel,
             .stride = a.stride,
             .dilate = a.dilate,
             .num_filter = data[last ? rank + 1 : 1],
             .num_group = a.num_group,
             .no_bias = true,
             .layout = a.layout};
  t.out = data;
  t.out[last ? rank + 1 : 1] = a.num_filter;
  for (int i = 0; i < rank; ++i) {
    const auto s = static_cast<size_t>(i);
    const int64_t in = data[last ? 1 + i : 2 + i];
    if (in < 1) raise<ShapeError>("data of shape {} has nothing along spatial axis {}", data, i);
    const int64_t full = saturated_sum(saturated_product(stride[s], in - 1), dilate[s] * (kernel[s] - 1) + 1);
    int64_t extent = full - 2 * pad[s] + adj[s];
    if (has_target) {
      if (target[s] > full)
        raise<AttrError>("target_shape = {} is larger than the full extent {} of spatial axis {}", a.target_shape, full, i);
      extent = target[s];
      pad[s] = (full - target[s] + 1) / 2;
    } else if (adj[s] >= stride[s] && adj[s] > 0) {
      raise<AttrError>("adj = {} must be smaller than stride = {}", a.adj, a.stride);
    }
    t.out[last ? 1 + i : 2 + i] = extent;
  }
  t.attrs.pad = Shape(pad.data(), rank);
  if (const Shape back = activation_shape(geometry_of(t.attrs, t.out), t.attrs.num_filter, geometry_of(t.attrs, t.out).out);
      !(back == data))
    raise<AttrError>("an output of shape {} does not go back to data of shape {} with these attributes", t.out, data);
  return t;
}

static Shape deconvolution_weight(const DeconvolutionAttrs& a, const Shape& data) {
  const bool last = is_channels_last(a.layout, a.kernel.ndim());
  Shape w{data[last ? data.ndim() - 1 : 1]};
  if (!last) w.push_back(a.num_filter / std::max<int64_t>(a.num_group, 1));
  for (int64_t extent : a.kernel) w.push_back(extent);
  if (last) w.push_back(a.num_filter / std::max<int64_t>(a.num_group, 1));
  return w;
}

static void add_bias(const ConvGeometry& g, auto* out, const auto* bias) {
  const int64_t channels = g.in_channels, area = g.in_area();
  for (int64_t i = 0; i < g.batch * channels * area; ++i) out[i] += bias[g.channels_last ? i % channels : i / area % channels];
}

static void deconvolution_kernel(const DeconvolutionAttrs& a, KernelContext& k) {
  const Transposed t = transposed(a, k.in(0).shape());
  if (is_nothing(k.in(0), k.in(1), k.out())) return;
  const ConvGeometry g = geometry_of(t.attrs, k.out().shape());
  PoolScratch scratch(k.out().device());
  visit_real(k.out().dtype(), [&]<class T>(T*) {
    kernels::convolution_data_grad(g, k.data<T>(0), k.data<T>(1), k.out_data<T>(), std::ref(scratch));
    if (!a.no_bias) add_bias(g, k.out_data<T>(), k.data<T>(2));
  });
}

static Tensors deconvolution_gradient(const DeconvolutionAttrs& a, const Gradient& g) {
  const ConvolutionAttrs attrs = transposed(a, g.like(0).shape()).attrs;
  Tensors out(g.num_inputs());
  if (g.wants(0)) out[0] = call_with("Convolution", {g.head(), g.in(1)}, attrs);
  if (g.wants(1)) out[1] = call_with("_convolution_weight_grad", {g.in(0), g.head(), g.like(1)}, attrs);
  if (!a.no_bias && g.wants(2)) out[2] = bias_gradient(attrs, g.head());
  return out;
}

GLUINO_OP(Deconvolution, DeconvolutionAttrs) {
  op.doc("Transposed convolution: spreads every element of data over a window of the output.")
      .input("data")
      .input("weight")
      .input("bias")
      .present_if([](const DeconvolutionAttrs& a) { return !a.no_bias; })
      .ignores({"workspace", "cudnn_tune", "cudnn_off"})
      .shape([](const DeconvolutionAttrs& a, std::span<const Shape> in) {
        const Transposed t = transposed(a, in[0]);
        check_weight(in[1], deconvolution_weight(a, in[0]));
        if (!a.no_bias) check_bias(in[2], a.num_filter);
        return t.out;
      })
      .complete([](const DeconvolutionAttrs& a, OptionalShapes& in, const OptionalShapes&) {
        if (!a.no_bias && is_open(in[2])) in[2] = Shape{a.num_filter};
        if (!is_open(in[1]) || !in[0] || in[0]->ndim() != a.kernel.ndim() + 2) return;
        if (const Shape w = deconvolution_weight(a, *in[0]); w.is_known()) in[1] = w;
      })
      .kernel(deconvolution_kernel)
      .kernel_dtypes(real_dtypes())
      .gradient({{0, 1}, {}}, deconvolution_gradient)
      .sample({{2, 3, 3, 2}, {3, 4, 3, 2}}, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}, .adj = {1, 0}, .num_filter = 4})
      .sample({{2, 4, 3}, {4, 1, 3}, {2}}, {.kernel = {3}, .stride = {2}, .num_filter = 2, .num_group = 2, .no_bias = false})
      .sample({{1, 2, 3, 3}, {2, 2, 4, 4}}, {.kernel = {4, 4}, .stride = {2, 2}, .target_shape = {6, 5}, .num_filter = 2});
  for_compiler(op).fold_affine([](const DeconvolutionAttrs& a, const Tensors& in, const ChannelAffine& c) {
    const int axis = channel_axis(a.layout, a.kernel.ndim());
    return c.axis == axis && a.num_group == 1 ? fold_into_weight(a, in, c, axis) : FoldedCall{};
  });
}

}  // namespace
}  // namespace gluino::ops
