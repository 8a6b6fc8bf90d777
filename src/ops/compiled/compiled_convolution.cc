// Convolutions of compiled programs, on blocked activations.
#include <cstring>
#include <limits>

#include "dispatch/compiler_rules.h"
#include "kernels/convolution/convolution_algorithms.h"
#include "kernels/convolution/convolution_blocked.h"
#include "kernels/convolution/pixel_product.h"
#include "kernels/convolution/separable_convolution.h"
#include "ops/network/convolution_attrs.h"

namespace gluino::ops {
namespace {

using kernels::ConvGeometry;
using kernels::Spatial;

struct CompiledConvolutionAttrs : ConvolutionAttrs {
  int64_t in_channels = 0;
  kernels::ConvAlgorithm algorithm = kernels::ConvAlgorithm::direct;
  bool add = false, relu = false;
  std::optional<double> limit;
  template <class M>
  static M CompiledConvolutionAttrs::*own(M ConvolutionAttrs::*member) {
    return member;
  }
  static void fields(AttrFields<CompiledConvolutionAttrs>& f) {
    using A = CompiledConvolutionAttrs;
    f.field("kernel", own(&A::kernel), "window size")
        .field("stride", own(&A::stride), "step of the window")
        .field("dilate", own(&A::dilate), "distance of the window's elements")
        .field("pad", own(&A::pad), "zeros added at both ends of each axis")
        .field("num_filter", own(&A::num_filter), "number of output channels")
        .field("num_group", own(&A::num_group), "number of groups")
        .field("no_bias", own(&A::no_bias), "leave the bias out")
        .field("in_channels", &A::in_channels, "number of input channels")
        .choice("algorithm", &A::algorithm, {"direct", "narrow", "winograd2", "winograd4", "product"},
                "how it is computed, and what the weight is packed for")
        .field("add", &A::add, "whether the last input is added to the result")
        .field("relu", &A::relu, "whether negative results become zero")
        .field("limit", &A::limit, "with relu: what larger results become");
  }
};
static void check_blocked(const Shape& data, int64_t channels) {
  if (data.ndim() != 5 || data[1] != kernels::blocks_of(channels) || data[4] != kernels::kChannelBlock)
    raise<ShapeError>("data of shape {} does not hold {} channels in blocks of {}", data, channels, kernels::kChannelBlock);
}
// Rows, or windows over them, are images of height 1.
static Shape as_image(const Shape& s) { return s.ndim() == 3 ? Shape{s[0], s[1], 1, s[2]} : s; }
static ConvolutionAttrs over_images(ConvolutionAttrs a) {
  if (a.kernel.ndim() != 1) return a;
  a.kernel = {1, a.kernel[0]};
  if (a.stride.ndim() == 1) a.stride = {1, a.stride[0]};
  if (a.dilate.ndim() == 1) a.dilate = {1, a.dilate[0]};
  if (a.pad.ndim() == 1) a.pad = {0, a.pad[0]};
  return a;
}
// The geometry, from data in the layout that the kernel reads.
static ConvGeometry compiled_geometry(const CompiledConvolutionAttrs& a, const Shape& data) {
  if (data.ndim() == 3 || data.ndim() == 4) return geometry_of(a, as_image(data));
  check_blocked(data, a.in_channels);
  return geometry_of(a, {data[0], a.in_channels, data[2], data[3]});
}
static Shape blocked_shape(int64_t batch, int64_t channels, const Spatial& extents) {
  return {batch, kernels::blocks_of(channels), extents[0], extents[1], kernels::kChannelBlock};
}
// Everything about the weight follows from the attributes; the extents of the data do not matter.
static ConvGeometry weight_geometry(const CompiledConvolutionAttrs& a) {
  return geometry_of(a, with_large_extents(a, {1, a.in_channels, 0, 0}));
}

// A file may name any algorithm, and any number of channels.
static void check_algorithm(const CompiledConvolutionAttrs& a, const ConvGeometry& g) {
  constexpr int64_t kMostChannels = int64_t{1} << 30;  // blocks of them are counted in 32 bits by oneDNN
  if (a.in_channels > kMostChannels || a.num_filter > kMostChannels)
    raise<AttrError>("{} input and {} output channels are too many", a.in_channels, a.num_filter);
  if (!kernels::can_run(g, a.algorithm))
    raise<AttrError>("this algorithm cannot compute a convolution with kernel {}, {} channels and {} groups", a.kernel, a.in_channels,
                     a.num_group);
}

static CompiledConvolutionAttrs compiled_sample(Shape kernel, int64_t in_channels, int64_t out_channels, bool add = false) {
  CompiledConvolutionAttrs a;
  a.kernel = kernel;
  a.num_filter = out_channels;
  a.in_channels = in_channels;
  a.add = a.relu = add;
  return a;
}

// ---- Several of them as one: a window for each channel, and windows of one place before and behind it.
struct SeparableAttrs {
  int64_t in_channels = 0, channels = 0, num_filter = 0;
  Shape kernel, stride, pad;
  bool expand = false, project = false, add = false;
  Floats limits;
  static void fields(AttrFields<SeparableAttrs>& f) {
    using A = SeparableAttrs;
    f.field("in_channels", &A::in_channels, "number of input channels")
        .field("channels", &A::channels, "number of channels that have a window of their own")
        .field("num_filter", &A::num_filter, "number of output channels")
        .field("kernel", &A::kernel, "size of these windows")
        .field("stride", &A::stride, "step of these windows")
        .field("pad", &A::pad, "zeros added at both ends of each axis before them")
        .field("expand", &A::expand, "whether a convolution with windows of one place comes before")
        .field("project", &A::project, "whether one comes behind")
        .field("add", &A::add, "whether the last input is added to the result")
        .field("limits", &A::limits, "for each layer, what its larger results become, when negative ones become zero; -1: none of both");
  }
  size_t layers() const { return 1U + expand + project; }
};
static ConvGeometry depthwise_geometry(const SeparableAttrs& a, int64_t batch, int64_t height, int64_t width) {
  ConvolutionAttrs c;
  c.kernel = a.kernel;
  c.stride = a.stride;
  c.pad = a.pad;
  c.num_filter = c.num_group = a.channels;
  return geometry_of(c, {batch, a.channels, height, width});
}
static ConvGeometry pointwise_geometry(int64_t in_channels, int64_t out_channels) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (in_channels < 1 || out_channels < 1 || in_channels > kMost || out_channels > kMost)
    raise<AttrError>("{} and {} channels, but 1 to {} are possible", in_channels, out_channels, kMost);
  ConvGeometry g;
  g.batch = 1;
  g.in_channels = in_channels;
  g.out_channels = out_channels;
  return g;
}
static void check_packed(const Shape& given, const ConvGeometry& g) {
  if (!(given == Shape{kernels::packed_weight_elements(g, kernels::ConvAlgorithm::direct)}))
    raise<ShapeError>("a packed weight has the wrong shape {}", given);
}

static Shape separable_shape(const SeparableAttrs& a, std::span<const Shape> in) {
  const Shape& data = in[0];
  check_blocked(data, a.in_channels);
  if (!a.project && a.num_filter != a.channels) raise<AttrError>("num_filter = {}, but there are {} channels", a.num_filter, a.channels);
  if (!a.expand && a.in_channels != a.channels) raise<AttrError>("in_channels = {}, but there are {} channels", a.in_channels, a.channels);
  if (a.limits.size() != a.layers()) raise<AttrError>("{} limits are given for {} layers", a.limits.size(), a.layers());
  const ConvGeometry g = depthwise_geometry(a, data[0], data[2], data[3]);
  size_t next = 1;
  const auto check_layer = [&](const ConvGeometry& layer) {
    check_packed(in[next++], layer);
    check_bias(in[next++], layer.out_channels);
  };
  if (a.expand) check_layer(pointwise_geometry(a.in_channels, a.channels));
  check_layer(g);
  if (a.project) check_layer(pointwise_geometry(a.channels, a.num_filter));
  const Shape out = blocked_shape(g.batch, a.num_filter, g.out);
  if (a.add && !(in[next] == out)) raise<ShapeError>("{} cannot be added to {}", in[next], out);
  return out;
}

static void separable_kernel(const SeparableAttrs& a, KernelContext& k) {
  if (k.out().size() == 0) return;
  const Shape& data = k.in(0).shape();
  kernels::SeparableCall call{
      .depthwise = depthwise_geometry(a, data[0], data[2], data[3]), .in_channels = a.in_channels, .out_channels = a.num_filter};
  int next = 1;
  size_t limit = 0;
  const auto take_layer = [&](kernels::SeparableLayer& layer) {
    layer.weight = k.data<float>(next++);
    layer.bias = k.data<float>(next++);
    layer.relu = a.limits[limit] >= 0;
    layer.limit = static_cast<float>(a.limits[limit++]);
  };
  if (a.expand) take_layer(call.expand);
  take_layer(call.middle);
  if (a.project) take_layer(call.project);
  if (a.add) call.added = k.data<float>(next);
  PoolScratch scratch(k.out().device());
  kernels::convolution_separable(call, k.data<float>(0), k.out_data<float>(), std::ref(scratch));
}

static std::optional<JoinedCall> join_convolutions(std::span<const ChainedCall> calls) {
  SeparableAttrs joined;
  int64_t weights = 0, between = 0;  // numbers
  bool has_depthwise = false;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& a = *static_cast<const CompiledConvolutionAttrs*>(calls[i].attrs);
    const bool is_last = i + 1 == calls.size();
    if (calls[i].in[0].ndim() != 5 || a.algorithm != kernels::ConvAlgorithm::direct || a.no_bias || (a.add && !is_last)) return {};
    const ConvGeometry g = compiled_geometry(a, calls[i].in[0]);
    if (kernels::can_be_separable_middle(g)) {
      if (has_depthwise || a.add) return {};
      has_depthwise = true;
      joined.channels = g.out_channels;
      joined.kernel = a.kernel;
      joined.stride = a.stride;
      joined.pad = a.pad;
    } else {
      bool& is_there = has_depthwise ? joined.project : joined.expand;
      if (!kernels::is_pointwise(g) || is_there) return {};
      is_there = true;
      weights += g.in_channels * g.out_channels;
    }
    if (i == 0) joined.in_channels = g.in_channels;
    if (!is_last) between += g.out_channels * g.out_area();
    joined.num_filter = g.out_channels;
    joined.add = a.add;
    joined.limits.push_back(a.relu ? a.limit.value_or(std::numeric_limits<double>::infinity()) : -1);
  }
  // Threads that share the rows read all weights each: those must be the smaller part.
  if (!has_depthwise || between < weights) return {};
  return JoinedCall{"_separable_convolution", std::make_shared<const SeparableAttrs>(joined)};
}

GLUINO_OP(_pack_convolution_weight, CompiledConvolutionAttrs) {
  op.doc("Rearranges a weight for _compiled_convolution.")
      .input("weight")
      .shape([](const CompiledConvolutionAttrs& a, std::span<const Shape> in) {
        const ConvGeometry g = weight_geometry(a);
        check_algorithm(a, g);
        check_weight(as_image(in[0]), weight_shape(g));
        return Shape{kernels::packed_weight_elements(g, a.algorithm)};
      })
      .kernel([](const CompiledConvolutionAttrs& a, KernelContext& k) {
        PoolScratch scratch(k.out().device());
        kernels::pack_weight(weight_geometry(a), a.algorithm, k.data<float>(0), k.out_data<float>(), std::ref(scratch));
      })
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{8, 8, 3, 3}}, compiled_sample({3, 3}, 8, 8))
      .sample({{8, 8, 3}}, compiled_sample({1, 3}, 8, 8));
}
GLUINO_OP(_compiled_convolution, CompiledConvolutionAttrs) {
  op.doc("Convolution of blocked data with a packed weight, and what follows it.")
      .input("data")
      .input("packed_weight")
      .input("bias")
      .present_if([](const CompiledConvolutionAttrs& a) { return !a.no_bias; })
      .input("added")
      .present_if([](const CompiledConvolutionAttrs& a) { return a.add; })
      .shape([](const CompiledConvolutionAttrs& a, std::span<const Shape> in) {
        const ConvGeometry g = compiled_geometry(a, in[0]);
        const Shape out = blocked_shape(g.batch, g.out_channels, g.out);
        check_algorithm(a, g);
        if (a.algorithm == kernels::ConvAlgorithm::product && !kernels::can_run_product(g))
          raise<AttrError>("algorithm = product is for images of one pixel, but data has shape {}", in[0]);
        if (!(in[1] == Shape{kernels::packed_weight_elements(g, a.algorithm)}))
          raise<ShapeError>("packed_weight has the wrong shape {}", in[1]);
        if (!a.no_bias) check_bias(in[2], a.num_filter);
        if (a.limit && !(*a.limit >= 0)) raise<AttrError>("limit = {}, but a number that is not negative is needed", *a.limit);
        if (a.add && !(in.back() == out)) raise<ShapeError>("{} cannot be added to {}", in.back(), out);
        return out;
      })
      .kernel([](const CompiledConvolutionAttrs& a, KernelContext& k) {
        const Tensor& added = k.in(k.num_inputs() - 1);
        if (a.add && bytes_of(added) != bytes_of(k.out())) std::memcpy(bytes_of(k.out()), bytes_of(added), added.nbytes());
        PoolScratch scratch(k.out().device());
        kernels::ConvEpilogue epilogue{.bias = a.no_bias ? nullptr : k.data<float>(2), .accumulate = a.add, .relu = a.relu};
        if (a.limit) epilogue.limit = static_cast<float>(*a.limit);
        kernels::convolution_blocked(compiled_geometry(a, k.in(0).shape()), a.algorithm, k.data<float>(0), k.data<float>(1), epilogue,
                                     k.out_data<float>(), std::ref(scratch));
      })
      .kernel_dtypes({DType::float32})
      .inplace(2)
      .inplace(3)
      .not_differentiable("compiled programs for prediction use it")
      .sample({{2, 1, 5, 4, 8}, {8 * 8 * 9}, {8}, {2, 1, 3, 2, 8}}, compiled_sample({3, 3}, 8, 8, true))
      .sample({{2, 2, 5, 4}, {8 * 2 * 9}, {8}}, compiled_sample({3, 3}, 2, 8))
      .sample({{2, 2, 5}, {8 * 2 * 3}, {8}}, compiled_sample({1, 3}, 2, 8));
  for_compiler(op).join(join_convolutions);
}

GLUINO_OP(_separable_convolution, SeparableAttrs) {
  op.doc("Convolution of blocked data with a window for each channel, and with windows of one place before and behind it.")
      .input("data")
      .input("expand_weight")
      .present_if([](const SeparableAttrs& a) { return a.expand; })
      .input("expand_bias")
      .present_if([](const SeparableAttrs& a) { return a.expand; })
      .input("weight")
      .input("bias")
      .input("project_weight")
      .present_if([](const SeparableAttrs& a) { return a.project; })
      .input("project_bias")
      .present_if([](const SeparableAttrs& a) { return a.project; })
      .input("added")
      .present_if([](const SeparableAttrs& a) { return a.add; })
      .shape(separable_shape)
      .kernel(separable_kernel)
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{1, 1, 5, 4, 8}, {8 * 16}, {16}, {16 * 9}, {16}, {16 * 8}, {8}, {1, 1, 5, 4, 8}},
              {.in_channels = 8,
               .channels = 16,
               .num_filter = 8,
               .kernel = {3, 3},
               .pad = {1, 1},
               .expand = true,
               .project = true,
               .add = true,
               .limits = {6, std::numeric_limits<double>::infinity(), -1}})
      .sample(
          {{2, 1, 5, 4, 8}, {8 * 9}, {8}, {8 * 24}, {20}},
          {.in_channels = 8, .channels = 8, .num_filter = 20, .kernel = {3, 3}, .stride = {2, 2}, .project = true, .limits = {0.5, -1}});
}

}  // namespace

std::optional<CompiledLayer> compiled_convolution(const ConvolutionAttrs& a, std::span<const Shape> in, LayerEpilogue e, bool blocked) {
  if (!blocked || a.kernel.ndim() > 2 || is_channels_last(a.layout, a.kernel.ndim())) return {};
  CompiledConvolutionAttrs c;
  static_cast<ConvolutionAttrs&>(c) = over_images(a);
  c.layout.reset();
  const ConvGeometry g = geometry_of(c, as_image(in[0]));
  const auto algorithm = kernels::choose_algorithm(g);
  if (!algorithm) return {};
  c.in_channels = g.in_channels;
  c.algorithm = *algorithm;
  const auto pack = std::make_shared<const CompiledConvolutionAttrs>(c);
  c.add = e.add;
  c.relu = e.relu;
  c.limit = e.limit;
  return CompiledLayer{.op = "_compiled_convolution",
                       .attrs = std::make_shared<const CompiledConvolutionAttrs>(c),
                       .pack = "_pack_convolution_weight",
                       .pack_attrs = pack,
                       .takes_blocked = !kernels::reads_plain_data(g),
                       .gives_blocked = true};
}

}  // namespace gluino::ops
