// Layers over images, sequences and volumes: convolutions, their transposes, pooling, padding, pixel shuffles.
#include "base/format.h"
#include "gluino/nn.h"
#include "gluon/layers/layers.h"

namespace gluino::nn {

// One number, or one per axis, none below `least`.
static Shape per_axis(const std::string& layer, const Extents& e, int axes, const char* what, int64_t least) {
  const int given = e.values.ndim();
  const std::string numbers =
      fmt::format(fmt::runtime(given == 1 ? "{}" : "({})"), fmt::join(e.values, ", "));  // a Shape would show -1 as unknown
  if (given != 1 && given != axes) raise<UserError>("{}: {} is {}, but one number or {} are needed", layer, what, numbers, axes);
  for (const int64_t value : e.values)
    if (value < least) raise<UserError>("{}: {} is {}, but at least {} is needed", layer, what, numbers, least);
  return e.expand(axes);
}

// ---- convolutions and their transposes

template <class Options>
static constexpr bool is_transpose = std::is_same_v<Options, ConvTransposeOptions>;

// The options, when they fit each other.
template <class Options>
static Options checked(int axes, int64_t channels, const Extents& kernel, Options o) {
  const std::string layer = fmt::format("Conv{}D{}", axes, is_transpose<Options> ? "Transpose" : "");
  if (channels < 1 || o.groups < 1 || channels % o.groups != 0)
    raise<UserError>("{}: a convolution of {} channels cannot have {} groups", layer, channels, o.groups);
  per_axis(layer, kernel, axes, "kernel_size", 1);
  per_axis(layer, o.strides, axes, "strides", 1);
  per_axis(layer, o.dilation, axes, "dilation", 1);
  per_axis(layer, o.padding, axes, "padding", 0);
  if constexpr (is_transpose<Options>) per_axis(layer, o.output_padding, axes, "output_padding", 0);
  check_activation(layer, o.activation);
  return o;
}

template <class Options>
Filters<Options>::Filters(int axes, int64_t channels, const Extents& kernel_size, Options options)
    : options_(checked(axes, channels, kernel_size, std::move(options))),
      axes_(axes),
      channels_(channels),
      kernel_(kernel_size.expand(axes)),
      weight(add_parameter("weight", {.shape = weight_shape(options_.in_channels), .init = options_.weight_initializer})),
      bias(options_.use_bias ? add_parameter("bias", {.shape = {channels}, .init = options_.bias_initializer}) : nullptr) {}
template <class Options>
Shape Filters<Options>::weight_shape(int64_t in_channels) const {
  Shape shape = is_transpose<Options> ? Shape{in_channels, channels_ / options_.groups} : Shape{channels_, in_channels / options_.groups};
  for (int64_t k : kernel_) shape.push_back(k);
  return shape;
}
template <class Options>
void Filters<Options>::complete(const Tensor& x) const {
  complete_if_known(has_known_shape(x), weight, [&] {
    const Shape& in = peek_shape(x);
    if (in.ndim() != axes_ + 2)
      raise<ShapeError>("{}: the input has shape {}, but {} axes are needed: batch, channels and {} spatial", kind(), in, axes_ + 2, axes_);
    return weight_shape(in[1]);
  });
}
template <class Options>
template <class Attributes>
Attributes Filters<Options>::attributes() const {
  return {.kernel = kernel_,
          .stride = options_.strides.expand(axes_),
          .dilate = options_.dilation.expand(axes_),
          .pad = options_.padding.expand(axes_),
          .num_filter = channels_,
          .num_group = options_.groups,
          .no_bias = !bias};
}
template <class Options>
std::string Filters<Options>::describe() const {
  const int64_t in = is_transpose<Options> ? weight->shape()[0] : weight->shape()[1] * options_.groups;
  return fmt::format("{} -> {}, kernel_size={}, stride={}", in > 0 ? std::to_string(in) : "None", channels_, kernel_,
                     options_.strides.expand(axes_));
}
template class Filters<ConvOptions>;
template class Filters<ConvTransposeOptions>;

Conv::Conv(int axes, int64_t channels, const Extents& kernel_size, ConvOptions options)
    : Filters(axes, channels, kernel_size, std::move(options)) {}
Tensor Conv::forward(const Tensor& x) {
  complete(x);
  const Tensor w = weight->data(), b = data_or_none(bias);
  return activate(convolution(x, w, b, attributes<ConvolutionOptions>()), options_.activation);
}

ConvTranspose::ConvTranspose(int axes, int64_t channels, const Extents& kernel_size, ConvTransposeOptions options)
    : Filters(axes, channels, kernel_size, std::move(options)) {}
Tensor ConvTranspose::forward(const Tensor& x) {
  complete(x);
  const Tensor w = weight->data(), b = data_or_none(bias);
  auto attributes = this->attributes<DeconvolutionOptions>();
  attributes.adj = options_.output_padding.expand(axes_);
  return activate(deconvolution(x, w, b, attributes), options_.activation);
}

// ---- pooling, padding, shuffles

Pool::Pool(int axes, std::string kind, std::optional<Extents> window, PoolOptions options)
    : axes_(axes), kind_(std::move(kind)), window_(std::move(window)), options_(std::move(options)) {
  const std::string layer = fmt::format("{}Pool{}D", kind_ == "max" ? "Max" : kind_ == "avg" ? "Avg" : "", axes);
  check_choice(layer + ": the kind", kind_, "Pooling", "pool_type");
  if (window_) per_axis(layer, *window_, axes, "pool_size", 1);
  if (options_.strides) per_axis(layer, *options_.strides, axes, "strides", 1);
  per_axis(layer, options_.padding, axes, "padding", 0);
}
Tensor Pool::forward(const Tensor& x) {
  const std::string convention = options_.ceil_mode ? "full" : "valid";
  if (!window_)
    return pooling(x, {.kernel = Shape::filled(axes_, 1), .pool_type = kind_, .pooling_convention = convention, .global_pool = true});
  const Shape kernel = window_->expand(axes_);
  return pooling(x, {.kernel = kernel,
                     .stride = options_.strides ? options_.strides->expand(axes_) : kernel,
                     .pad = options_.padding.expand(axes_),
                     .pool_type = kind_,
                     .pooling_convention = convention,
                     .count_include_pad = options_.count_include_pad});
}
std::string Pool::describe() const { return window_ ? fmt::format("size={}", window_->expand(axes_)) : "global"; }

ReflectionPad2D::ReflectionPad2D(Extents padding) : padding_(per_axis("ReflectionPad2D", padding, 4, "padding", 0)) {}
Tensor ReflectionPad2D::forward(const Tensor& x) {
  const Shape& p = padding_;
  return pad(x, {.mode = "reflect", .pad_width = Shape{0, 0, 0, 0, p[2], p[3], p[0], p[1]}});
}

PixelShuffle::PixelShuffle(int axes, const Extents& factor)
    : factors_(per_axis(fmt::format("PixelShuffle{}D", axes), factor, axes, "factor", 1)) {}
// (N, C * f1 * f2, H, W) -> (N, C, f1, f2, H, W) -> (N, C, H, f1, W, f2) -> (N, C, H * f1, W * f2)
Tensor PixelShuffle::forward(const Tensor& in) {
  const int axes = factors_.ndim();
  Tensor x = in;
  for (int i = 0; i < axes; ++i) {
    Shape split{0};
    for (int k = 0; k < i; ++k) split.push_back(0);
    split.push_back(-4);
    split.push_back(i == 0 ? -1 : factors_[i - 1]);
    split.push_back(factors_.elements(i, axes));
    split.push_back(-2);
    x = x.reshape(split);
  }
  Shape order{0, 1}, merge{0, 0};
  for (int i = 0; i < axes; ++i) {
    order.push_back(2 + axes + i);
    order.push_back(2 + i);
    merge.push_back(-3);
  }
  return x.transpose(order).reshape(merge);
}

// ---- samples

static const LayerSamples samples{
    sample<Conv1D>({{2, 3, 7}}, 4, 3),
    sample<Conv2D>({{2, 3, 6, 5}}, 4, 3, ConvOptions{.padding = 1, .activation = "tanh"}),
    sample<Conv2D>({{2, 4, 8, 7}}, 4, Extents{3, 2}, ConvOptions{.strides = 2, .dilation = {1, 2}, .groups = 2, .use_bias = false}),
    sample<Conv3D>({{2, 2, 4, 3, 3}}, 3, 2),
    sample<Conv1DTranspose>({{2, 3, 4}}, 2, 3, ConvTransposeOptions{.strides = 2, .output_padding = 1}),
    sample<Conv2DTranspose>({{2, 3, 4, 3}}, 2, 3, ConvTransposeOptions{.strides = 2, .padding = 1}),
    sample<Conv2DTranspose>({{2, 4, 4, 3}}, 4, 2, ConvTransposeOptions{.groups = 2, .activation = "sigmoid", .use_bias = false}),
    sample<Conv3DTranspose>({{1, 2, 2, 3, 2}}, 2, 2),
    sample<MaxPool1D>({{2, 3, 6}}),
    sample<MaxPool2D>({{2, 3, 7, 6}}, 3, PoolOptions{.strides = 2, .padding = 1}),
    sample<MaxPool2D>({{2, 3, 7, 6}}, 3, PoolOptions{.strides = 2, .ceil_mode = true}),
    sample<MaxPool3D>({{2, 2, 4, 4, 4}}),
    sample<AvgPool1D>({{2, 3, 6}}),
    sample<AvgPool2D>({{2, 3, 7, 6}}, 3, PoolOptions{.strides = 2, .padding = 1, .count_include_pad = false}),
    sample<AvgPool3D>({{2, 2, 4, 4, 4}}),
    sample<GlobalMaxPool1D>({{2, 3, 6}}),
    sample<GlobalMaxPool2D>({{2, 3, 4, 5}}),
    sample<GlobalMaxPool3D>({{2, 2, 3, 2, 3}}),
    sample<GlobalAvgPool1D>({{2, 3, 6}}),
    sample<GlobalAvgPool2D>({{2, 3, 4, 5}}),
    sample<GlobalAvgPool3D>({{2, 2, 3, 2, 3}}),
    sample<ReflectionPad2D>({{2, 2, 4, 5}}, 2),
    sample<ReflectionPad2D>({{1, 2, 4, 5}}, Extents{1, 2, 3, 0}),
    sample<PixelShuffle1D>({{2, 6, 3}}, 2),
    sample<PixelShuffle2D>({{2, 12, 3, 2}}, Extents{2, 3}),
    sample<PixelShuffle3D>({{1, 12, 2, 3, 2}}, Extents{2, 3, 1}),
};

}  // namespace gluino::nn
