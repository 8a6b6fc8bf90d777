#include "base/format.h"
#include "gluino/nn.h"
#include "gluino/op.h"

namespace gluino::nn {
namespace {

Tensors run_side_by_side(const std::vector<Block::Child>& children, const Tensors& inputs, int axis) {
  Tensors parts;
  for (const Block::Child& c : children) parts.push_back((*c.block)(inputs).at(0));
  return {call("Concat", parts, {{"dim", int64_t{axis}}, {"num_args", static_cast<int64_t>(parts.size())}})};
}

Tensor activate(const Tensor& x, const std::string& function) {
  return function.empty() ? x : call("Activation", {x}, {{"act_type", function}});
}

void complete_if_known(bool known, const ParameterPtr& p, const auto& shape) {
  if (known && p) p->complete(shape());
}

}  // namespace

Tensors detail::run_in_order(const std::vector<Block::Child>& children, Tensors x) {
  for (const Block::Child& c : children) x = (*c.block)(x);
  return x;
}
Tensors Concurrent::forward(const Tensors& inputs) { return run_side_by_side(children(), inputs, axis_); }
Tensors HybridConcurrent::forward(const Tensors& inputs) { return run_side_by_side(children(), inputs, axis_); }

HybridLambda::HybridLambda(const std::string& op) : f_([op](const Tensor& x) { return gluino::call(op, {x}); }) {
  OpRegistry::global().get(op);
}

// ---- Dense

Dense::Dense(int64_t units, DenseOptions options)
    : weight(add_parameter("weight", {.shape = {units, options.in_units}, .dtype = options.dtype, .init = options.weight_initializer})),
      bias(options.use_bias ? add_parameter("bias", {.shape = {units}, .dtype = options.dtype, .init = options.bias_initializer})
                            : nullptr),
      units_(units),
      options_(std::move(options)) {
  if (units < 1) raise<UserError>("Dense: units is {}, at least 1 is needed", units);
}
Tensor Dense::forward(const Tensor& x) {
  complete_if_known(has_known_shape(x), weight, [&] {
    const Shape& s = peek_shape(x);
    if (s.ndim() == 0) throw ShapeError("Dense: a scalar has no features");
    return Shape{units_, options_.flatten ? s.elements(1, s.ndim()) : s.back()};
  });
  Tensors inputs{x, weight->data()};
  if (bias) inputs.push_back(bias->data());
  const Tensor y = gluino::call("FullyConnected", inputs, {{"num_hidden", units_}, {"no_bias", !bias}, {"flatten", options_.flatten}});
  return activate(y, options_.activation);
}
std::string Dense::describe() const {
  const int64_t in = weight->shape()[1];
  return fmt::format("{} -> {}, {}", in > 0 ? std::to_string(in) : "None", units_,
                     options_.activation.empty() ? "linear" : options_.activation);
}

Tensor Activation::forward(const Tensor& x) { return activate(x, function_); }

Tensor Dropout::forward(const Tensor& x) {
  if (rate_ <= 0) return x;
  return gluino::call("Dropout", {x}, {{"p", rate_}, {"axes", axes_}});
}
std::string Dropout::describe() const { return fmt::format("p = {}, axes={}", rate_, axes_); }

Tensor Flatten::forward(const Tensor& x) { return gluino::call("Flatten", {x}); }

// ---- Embedding

Embedding::Embedding(int64_t input_dim, int64_t output_dim, DType dtype, init::InitializerPtr weight_initializer)
    : weight(add_parameter("weight", {.shape = {input_dim, output_dim}, .dtype = dtype, .init = std::move(weight_initializer)})),
      input_dim_(input_dim),
      output_dim_(output_dim) {}
Tensor Embedding::forward(const Tensor& x) {
  return gluino::call("Embedding", {x, weight->data()},
                      {{"input_dim", input_dim_}, {"output_dim", output_dim_}, {"dtype", weight->dtype()}});
}
std::string Embedding::describe() const { return fmt::format("{} -> {}, {}", input_dim_, output_dim_, weight->dtype()); }

// ---- normalisation

BatchNorm::BatchNorm(BatchNormOptions options)
    : gamma(add_parameter("gamma", {.shape = {options.in_channels},
                                    .init = init::one(),
                                    .grad_req = options.scale ? GradReq::write : GradReq::null,
                                    .differentiable = options.scale})),
      beta(add_parameter("beta", {.shape = {options.in_channels},
                                  .init = init::zero(),
                                  .grad_req = options.center ? GradReq::write : GradReq::null,
                                  .differentiable = options.center})),
      running_mean(add_parameter(
          "running_mean",
          {.shape = {options.in_channels}, .init = init::zero(), .grad_req = GradReq::null, .is_state = true, .differentiable = false})),
      running_var(add_parameter(
          "running_var",
          {.shape = {options.in_channels}, .init = init::one(), .grad_req = GradReq::null, .is_state = true, .differentiable = false})),
      options_(options) {}
Tensor BatchNorm::forward(const Tensor& x) {
  for (const ParameterPtr& p : {gamma, beta, running_mean, running_var})
    complete_if_known(has_known_shape(x), p, [&] { return Shape{peek_shape(x)[normalize_axis(options_.axis, peek_shape(x))]}; });
  return gluino::call("BatchNorm", {x, gamma->data(), beta->data(), running_mean->data(), running_var->data()},
                      {{"eps", options_.epsilon},
                       {"momentum", options_.momentum},
                       {"fix_gamma", !options_.scale},
                       {"use_global_stats", options_.use_global_stats},
                       {"axis", int64_t{options_.axis}}});
}
// Statistics in 16 bits lose too much: they stay in float32.
void BatchNorm::cast(DType dtype) { HybridBlock::cast(dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype); }
std::string BatchNorm::describe() const {
  const int64_t in = gamma->shape()[0];
  return fmt::format("axis={}, eps={}, momentum={}, in_channels={}", options_.axis, options_.epsilon, options_.momentum,
                     in > 0 ? std::to_string(in) : "None");
}

LayerNorm::LayerNorm(LayerNormOptions options)
    : gamma(add_parameter("gamma", {.shape = {options.in_channels},
                                    .init = init::one(),
                                    .grad_req = options.scale ? GradReq::write : GradReq::null,
                                    .differentiable = options.scale})),
      beta(add_parameter("beta", {.shape = {options.in_channels},
                                  .init = init::zero(),
                                  .grad_req = options.center ? GradReq::write : GradReq::null,
                                  .differentiable = options.center})),
      options_(options) {}
Tensor LayerNorm::forward(const Tensor& x) {
  for (const ParameterPtr& p : {gamma, beta})
    complete_if_known(has_known_shape(x), p, [&] { return Shape{peek_shape(x)[normalize_axis(options_.axis, peek_shape(x))]}; });
  return gluino::call("LayerNorm", {x, gamma->data(), beta->data()}, {{"axis", int64_t{options_.axis}}, {"eps", options_.epsilon}});
}
std::string LayerNorm::describe() const { return fmt::format("axis={}, eps={}", options_.axis, options_.epsilon); }

// ---- convolution and pooling

// (filters, channels per group, kernel extents)
static Shape filter_shape(int64_t filters, int64_t channels, const Shape& kernel) {
  Shape s{filters, channels};
  for (int64_t k : kernel) s.push_back(k);
  return s;
}
Conv::Conv(int axes, int64_t channels, const Extents& kernel_size, ConvOptions options)
    : weight(add_parameter("weight", {.shape = filter_shape(channels, options.in_channels / options.groups, kernel_size.expand(axes)),
                                      .init = options.weight_initializer})),
      bias(options.use_bias ? add_parameter("bias", {.shape = {channels}, .init = options.bias_initializer}) : nullptr),
      axes_(axes),
      channels_(channels),
      kernel_(kernel_size.expand(axes)),
      options_(std::move(options)) {}
Tensor Conv::forward(const Tensor& x) {
  complete_if_known(has_known_shape(x), weight, [&] {
    const Shape& in = peek_shape(x);
    if (in.ndim() != axes_ + 2)
      raise<ShapeError>("{}: the input has shape {}, but {} axes are needed: batch, channels and {} spatial", kind(), in, axes_ + 2, axes_);
    return filter_shape(channels_, in[1] / options_.groups, kernel_);
  });
  Tensors inputs{x, weight->data()};
  if (bias) inputs.push_back(bias->data());
  const Tensor y = gluino::call("Convolution", inputs,
                                {{"kernel", kernel_},
                                 {"stride", options_.strides.expand(axes_)},
                                 {"dilate", options_.dilation.expand(axes_)},
                                 {"pad", options_.padding.expand(axes_)},
                                 {"num_filter", channels_},
                                 {"num_group", options_.groups},
                                 {"no_bias", !bias}});
  return activate(y, options_.activation);
}
std::string Conv::describe() const {
  const int64_t in = weight->shape()[1] * options_.groups;
  return fmt::format("{} -> {}, kernel_size={}, stride={}", in > 0 ? std::to_string(in) : "None", channels_, kernel_,
                     options_.strides.expand(axes_));
}

Pool::Pool(int axes, std::string kind, std::optional<Extents> window, PoolOptions options)
    : axes_(axes), kind_(std::move(kind)), window_(std::move(window)), options_(std::move(options)) {}
Tensor Pool::forward(const Tensor& x) {
  const std::string convention = options_.ceil_mode ? "full" : "valid";
  if (!window_)
    return gluino::call(
        "Pooling", {x},
        {{"kernel", Shape::filled(axes_, 1)}, {"pool_type", kind_}, {"global_pool", true}, {"pooling_convention", convention}});
  const Shape kernel = window_->expand(axes_);
  return gluino::call("Pooling", {x},
                      {{"kernel", kernel},
                       {"stride", options_.strides ? options_.strides->expand(axes_) : kernel},
                       {"pad", options_.padding.expand(axes_)},
                       {"pool_type", kind_},
                       {"pooling_convention", convention},
                       {"count_include_pad", options_.count_include_pad}});
}
std::string Pool::describe() const { return window_ ? fmt::format("size={}", window_->expand(axes_)) : "global"; }

}  // namespace gluino::nn
