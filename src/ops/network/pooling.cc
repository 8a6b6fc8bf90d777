// Pooling over 1 to 3 spatial axes.
#include "kernels/pooling/pooling.h"

#include "ops/nets.h"

namespace gluino::ops {
namespace {

using kernels::PoolGeometry;
using kernels::PoolKind;

enum class PoolingConvention : uint8_t { valid, full, same };

struct PoolingAttrs {
  Shape kernel, stride, pad;
  PoolKind pool_type = PoolKind::max;
  PoolingConvention pooling_convention = PoolingConvention::valid;
  bool global_pool = false;
  std::optional<bool> count_include_pad;
  std::optional<int64_t> p_value;
  std::optional<std::string> layout;
  static void fields(AttrFields<PoolingAttrs>& f) {
    f.field("kernel", &PoolingAttrs::kernel, "window size per spatial axis: (w,), (h, w) or (d, h, w)")
        .field("stride", &PoolingAttrs::stride, "step of the window per axis; 1 when empty")
        .field("pad", &PoolingAttrs::pad, "padding at both ends of each axis; 0 when empty")
        .choice("pool_type", &PoolingAttrs::pool_type, {"max", "avg", "sum", "lp"}, "what is taken of a window")
        .choice("pooling_convention", &PoolingAttrs::pooling_convention, {"valid", "full", "same"},
                "whether the number of windows is rounded down or up")
        .field("global_pool", &PoolingAttrs::global_pool, "one window over the whole extent; kernel, stride and pad are ignored")
        .field("count_include_pad", &PoolingAttrs::count_include_pad, "whether avg counts the padding; yes when None")
        .field("p_value", &PoolingAttrs::p_value, "the power of lp pooling; 2 when None")
        .field("layout", &PoolingAttrs::layout, "NCW, NCHW, NCDHW, or one of NWC, NHWC, NDHWC");
  }
};

static int64_t windows_of(const PoolingAttrs& a, int64_t extent, int64_t kernel, int64_t stride, int64_t pad) {
  const int64_t padded = extent + 2 * pad;
  if (a.pooling_convention == PoolingConvention::same) return (padded + stride - 1) / stride;
  if (padded < kernel) raise<ShapeError>("the window of {} is larger than the padded extent {}", kernel, padded);
  return (padded - kernel + (a.pooling_convention == PoolingConvention::full ? stride - 1 : 0)) / stride + 1;
}

static PoolGeometry geometry_of(const PoolingAttrs& a, const Shape& data) {
  const int rank = data.ndim() - 2;
  if (rank < 1 || rank > 3) raise<ShapeError>("data has shape {}, but 3, 4 or 5 axes are needed", data);
  if (!a.global_pool && a.kernel.ndim() != rank)
    raise<AttrError>("kernel = {} does not fit data of shape {}, which has {} spatial axes", a.kernel, data, rank);
  PoolGeometry g;
  g.kind = a.pool_type;
  g.count_include_pad = a.count_include_pad.value_or(true);
  g.p = static_cast<int>(a.p_value.value_or(2));
  if (g.kind == PoolKind::lp && (g.p < 1 || g.p > 3)) raise<AttrError>("p_value = {}, but 1, 2 or 3 is needed", g.p);
  g.channels_last = is_channels_last(a.layout, rank);
  g.batch = data[0];
  g.channels = data[g.channels_last ? rank + 1 : 1];
  const auto kernel = a.global_pool ? kernels::Spatial{1, 1, 1} : spatial_tuple(a.kernel, rank, 1, "kernel");
  const auto stride = a.global_pool ? kernels::Spatial{1, 1, 1} : spatial_tuple(a.stride, rank, 1, "stride");
  const auto pad = a.global_pool ? kernels::Spatial{0, 0, 0} : spatial_tuple(a.pad, rank, 0, "pad");
  for (int i = 0; i < rank; ++i) {
    // The last axes of the three are used, so that the innermost loop runs over neighbours.
    const auto from = static_cast<size_t>(i), to = static_cast<size_t>(i + 3 - rank);
    g.in[to] = data[g.channels_last ? 1 + i : 2 + i];
    g.kernel[to] = a.global_pool ? g.in[to] : kernel[from];
    g.stride[to] = stride[from];
    g.pad[to] = pad[from];
    if (stride[from] < 1 || (!a.global_pool && kernel[from] < 1) || pad[from] < 0)
      raise<AttrError>("kernel {} and stride {} must be positive and pad {} not negative", a.kernel, a.stride, a.pad);
    if (!a.global_pool && pad[from] >= kernel[from]) raise<AttrError>("pad = {} must be smaller than kernel = {}", a.pad, a.kernel);
    g.out[to] = a.global_pool ? 1 : windows_of(a, g.in[to], g.kernel[to], g.stride[to], g.pad[to]);
  }
  return g;
}

static Shape pooling_shape(const PoolingAttrs& a, std::span<const Shape> in) {
  const PoolGeometry g = geometry_of(a, in[0]);
  const int rank = in[0].ndim() - 2;
  Shape out = in[0];
  for (int i = 0; i < rank; ++i) out[g.channels_last ? 1 + i : 2 + i] = g.out[i + 3 - rank];
  return out;
}

// Blocked data (batch, channels / 8, height, width, 8): every block is an image with its channels last.
static PoolingAttrs with_channels_last(PoolingAttrs a) {
  a.layout = "NHWC";
  return a;
}
static Shape images_of(const Shape& blocked) {
  if (blocked.ndim() != 5) raise<ShapeError>("data has shape {}, but (batch, blocks, height, width, block) is needed", blocked);
  return {blocked[0] * blocked[1], blocked[2], blocked[3], blocked[4]};
}
GLUINO_OP(_blocked_pooling, PoolingAttrs) {
  op.doc("Pooling of blocked data.")
      .input("data")
      .shape([](const PoolingAttrs& a, std::span<const Shape> in) {
        const Shape images[] = {images_of(in[0])}, out = pooling_shape(with_channels_last(a), images);
        return Shape{in[0][0], in[0][1], out[1], out[2], in[0][4]};
      })
      .kernel([](const PoolingAttrs& a, KernelContext& k) {
        kernels::pool(geometry_of(with_channels_last(a), images_of(k.in(0).shape())), k.data<float>(0), k.out_data<float>());
      })
      .kernel_dtypes({DType::float32})
      .not_differentiable("compiled programs for prediction use it")
      .sample({{2, 2, 5, 4, 8}}, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}});
}
// Rows are images of height 1.
static PoolingAttrs over_images(PoolingAttrs a) {
  if (a.kernel.ndim() == 1) a.kernel = {1, a.kernel[0]};
  if (a.stride.ndim() == 1) a.stride = {1, a.stride[0]};
  if (a.pad.ndim() == 1) a.pad = {0, a.pad[0]};
  return a;
}
static std::optional<CompiledLayer> compiled_pooling(const PoolingAttrs& a, std::span<const Shape> in, LayerEpilogue e, bool blocked) {
  // Windows that lie in the padding alone would turn the zeros of a padded block into something else.
  const int rank = in[0].ndim() - 2;
  if (!blocked || e.add || e.relu || rank > 2 || is_channels_last(a.layout, rank) || a.pool_type == PoolKind::lp) return {};
  return CompiledLayer{.op = "_blocked_pooling",
                       .attrs = std::make_shared<const PoolingAttrs>(rank == 1 ? over_images(a) : a),
                       .pack = {},
                       .takes_blocked = true,
                       .gives_blocked = true};
}

GLUINO_OP(Pooling, PoolingAttrs) {
  op.doc("Takes the maximum, average, sum or p-norm of sliding windows.")
      .alias("Pooling_v1")
      .input("data")
      .ignores({"cudnn_off"})
      .shape(pooling_shape)
      .kernel([](const PoolingAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) { kernels::pool(geometry_of(a, k.in(0).shape()), k.data<T>(0), k.out_data<T>()); });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{0}, {0}},
                [](const PoolingAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_pooling_grad", {g.head(), g.in(0), g.out(0)}, a)};
                })
      .sample({{2, 3, 5, 4}}, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}})
      .sample(
          {{2, 2, 5, 4}},
          {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .pool_type = PoolKind::avg, .pooling_convention = PoolingConvention::full})
      .sample({{2, 2, 7}}, {.kernel = {3}, .stride = {2}, .pool_type = PoolKind::lp})
      .sample({{2, 4, 5, 2}}, {.kernel = {2, 2}, .pad = {1, 1}, .pool_type = PoolKind::avg, .count_include_pad = false, .layout = "NHWC"})
      .sample({{2, 2, 2, 3, 2}}, {.pool_type = PoolKind::sum, .global_pool = true});
  for_compiler(op).compiled_layer(compiled_pooling);
}

GLUINO_OP(_pooling_grad, PoolingAttrs) {
  op.doc("The gradient of Pooling, from the head and Pooling's input and output.")
      .input("head")
      .input("data")
      .input("values")
      .shape([](const PoolingAttrs& a, std::span<const Shape> in) {
        check_head(in[0], pooling_shape(a, in.subspan(1)));
        check_same_shape("values", in[2], in[0]);
        return in[1];
      })
      .kernel([](const PoolingAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::pool_grad(geometry_of(a, k.in(1).shape()), k.data<T>(0), k.data<T>(1), k.data<T>(2), k.out_data<T>());
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{1, 2}, {}},
                [](const PoolingAttrs& a, const Gradient& g) -> Tensors {
                  if (a.pool_type == PoolKind::lp) raise<UserError>("the second derivative of lp pooling is not implemented");
                  // Linear in the head; for max the choice of elements does not move.
                  if (a.pool_type == PoolKind::max)
                    return {call_with("_pooling_pick", {g.head(), g.in(1), g.in(2)}, a), Tensor(), Tensor()};
                  return {call_with("Pooling", {g.head()}, a), Tensor(), Tensor()};
                })
      .sample_without_gradient({{2, 3, 3, 3}, {2, 3, 5, 4}, {2, 3, 3, 3}},
                               {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}, .pool_type = PoolKind::sum});
}

GLUINO_OP(_pooling_pick, PoolingAttrs) {
  op.doc("Picks from source the elements that max pooling of data chose.")
      .input("source")
      .input("data")
      .input("values")
      .shape([](const PoolingAttrs& a, std::span<const Shape> in) {
        check_same_shape("source", in[0], in[1]);
        check_same_shape("values", in[2], pooling_shape(a, in.subspan(1)));
        return in[2];
      })
      .kernel([](const PoolingAttrs& a, KernelContext& k) {
        visit_real(k.out().dtype(), [&]<class T>(T*) {
          kernels::pool_pick(geometry_of(a, k.in(1).shape()), k.data<T>(0), k.data<T>(1), k.data<T>(2), k.out_data<T>());
        });
      })
      .kernel_dtypes(real_dtypes())
      .gradient({{1, 2}, {}},
                [](const PoolingAttrs& a, const Gradient& g) -> Tensors {
                  return {call_with("_pooling_grad", {g.head(), g.in(1), g.in(2)}, a), Tensor(), Tensor()};
                })
      .sample_without_gradient({{2, 3, 5, 4}, {2, 3, 5, 4}, {2, 3, 3, 3}}, {.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0}});
}

}  // namespace
}  // namespace gluino::ops
