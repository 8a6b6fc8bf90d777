// Layers without spatial axes: containers, dense layers, activations, normalisation. Samples for the tests stand below.
#include "gluino/nn.h"

#include "base/format.h"
#include "gluon/layers/layers.h"

namespace gluino::nn {
namespace {

Tensors run_side_by_side(const std::vector<Block::Child>& children, const Tensors& inputs, int axis) {
  Tensors parts;
  for (const Block::Child& c : children) parts.push_back((*c.block)(inputs).at(0));
  return {concat(parts, {.dim = axis})};
}

// gamma or beta of a normalisation: fixed when it is not wanted.
ParameterOptions scale_options(int64_t channels, bool is_learnt, const init::InitializerPtr& init) {
  return {.shape = {channels}, .init = init, .grad_req = is_learnt ? GradReq::write : GradReq::null, .differentiable = is_learnt};
}
// A running average, which the forward pass updates.
ParameterOptions average_options(int64_t channels, const init::InitializerPtr& init) {
  return {.shape = {channels}, .init = init, .grad_req = GradReq::null, .is_state = true, .differentiable = false};
}

Tensor leaky(const Tensor& x, const char* function, double slope = 0.25) {
  return leaky_relu(x, {.act_type = function, .slope = slope})[0];
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
  check_activation("Dense", options_.activation);
}
Tensor Dense::forward(const Tensor& x) {
  complete_if_known(has_known_shape(x), weight, [&] {
    const Shape& s = peek_shape(x);
    if (s.ndim() == 0) throw ShapeError("Dense: a scalar has no features");
    return Shape{units_, options_.flatten ? s.elements(1, s.ndim()) : s.back()};
  });
  const Tensor w = weight->data(), b = data_or_none(bias);
  const Tensor y = fully_connected(x, w, b, {.num_hidden = units_, .no_bias = !bias, .flatten = options_.flatten});
  return activate(y, options_.activation);
}
std::string Dense::describe() const {
  const int64_t in = weight->shape()[1];
  return fmt::format("{} -> {}, {}", in > 0 ? std::to_string(in) : "None", units_,
                     options_.activation.empty() ? "linear" : options_.activation);
}

// ---- activations

Activation::Activation(std::string function) : function_(std::move(function)) {
  check_choice("Activation: the function", function_, "Activation", "act_type");
}
Tensor Activation::forward(const Tensor& x) { return activate(x, function_); }

LeakyReLU::LeakyReLU(double alpha) : alpha_(alpha) {
  if (alpha < 0) raise<UserError>("LeakyReLU: alpha is {}, it must not be negative", alpha);
}
Tensor LeakyReLU::forward(const Tensor& x) { return leaky(x, "leaky", alpha_); }
std::string LeakyReLU::describe() const { return fmt::format("{}", alpha_); }

PReLU::PReLU(init::InitializerPtr alpha_initializer, int64_t in_channels)
    : alpha(add_parameter("alpha", {.shape = {in_channels}, .init = std::move(alpha_initializer)})) {}
Tensor PReLU::forward(const Tensor& x) { return leaky_relu(x, alpha->data(), {.act_type = "prelu"})[0]; }

Tensor ELU::forward(const Tensor& x) { return leaky(x, "elu", alpha_); }
Tensor SELU::forward(const Tensor& x) { return leaky(x, "selu"); }
Tensor GELU::forward(const Tensor& x) { return leaky(x, "gelu"); }
Tensor Swish::forward(const Tensor& x) { return x * sigmoid(x * beta_); }

Dropout::Dropout(double rate, Shape axes) : rate_(rate), axes_(std::move(axes)) { check_rate("Dropout: rate", rate); }
Tensor Dropout::forward(const Tensor& x) {
  if (rate_ <= 0) return x;
  return dropout(x, {.p = rate_, .axes = axes_});
}
std::string Dropout::describe() const { return fmt::format("p = {}, axes={}", rate_, axes_); }

Tensor Flatten::forward(const Tensor& x) { return flatten(x); }

// ---- Embedding

Embedding::Embedding(int64_t input_dim, int64_t output_dim, DType dtype, init::InitializerPtr weight_initializer)
    : weight(add_parameter("weight", {.shape = {input_dim, output_dim}, .dtype = dtype, .init = std::move(weight_initializer)})),
      input_dim_(input_dim),
      output_dim_(output_dim) {
  if (input_dim < 1 || output_dim < 1)
    raise<UserError>("Embedding: {} rows of {} numbers were asked for, at least 1 is needed", input_dim, output_dim);
}
Tensor Embedding::forward(const Tensor& x) {
  return embedding(x, weight->data(), {.input_dim = input_dim_, .output_dim = output_dim_, .dtype = weight->dtype()});
}
std::string Embedding::describe() const { return fmt::format("{} -> {}, {}", input_dim_, output_dim_, weight->dtype()); }

// ---- normalisation

Norm::Norm(const char* layer, int64_t in_channels, bool scale, bool center, double epsilon)
    : gamma(add_parameter("gamma", scale_options(in_channels, scale, init::one()))),
      beta(add_parameter("beta", scale_options(in_channels, center, init::zero()))) {
  check_not_negative(fmt::format("{}: epsilon", layer), epsilon);
}
void Norm::complete(const Tensor& x, int axis) const {
  for (const auto& [name, p] : own_parameters())
    complete_if_known(has_known_shape(x), p, [&] { return Shape{peek_shape(x)[normalize_axis(axis, peek_shape(x))]}; });
}

BatchNorm::BatchNorm(BatchNormOptions options)
    : Norm("BatchNorm", options),
      running_mean(add_parameter("running_mean", average_options(options.in_channels, init::zero()))),
      running_var(add_parameter("running_var", average_options(options.in_channels, init::one()))),
      options_(options) {
  check_rate("BatchNorm: momentum", options.momentum);
}
Tensor BatchNorm::forward(const Tensor& x) {
  complete(x, options_.axis);
  const Tensor scale = gamma->data(), shift = beta->data(), mean = running_mean->data(), variance = running_var->data();
  return batch_norm(x, scale, shift, mean, variance,
                    {.eps = options_.epsilon,
                     .momentum = options_.momentum,
                     .fix_gamma = !options_.scale,
                     .use_global_stats = options_.use_global_stats,
                     .axis = options_.axis});
}
// Statistics in 16 bits lose too much: they stay in float32.
void BatchNorm::cast(DType dtype) { HybridBlock::cast(dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype); }
std::string BatchNorm::describe() const {
  const int64_t in = gamma->shape()[0];
  return fmt::format("axis={}, eps={}, momentum={}, in_channels={}", options_.axis, options_.epsilon, options_.momentum,
                     in > 0 ? std::to_string(in) : "None");
}

Tensor LayerNorm::forward(const Tensor& x) {
  complete(x, options_.axis);
  const Tensor scale = gamma->data(), shift = beta->data();
  return layer_norm(x, scale, shift, {.axis = options_.axis, .eps = options_.epsilon});
}
std::string LayerNorm::describe() const { return fmt::format("axis={}, eps={}", options_.axis, options_.epsilon); }

GroupNorm::GroupNorm(GroupNormOptions options) : Norm("GroupNorm", options), options_(options) {
  check_positive("GroupNorm: num_groups", static_cast<double>(options.num_groups));
}
Tensor GroupNorm::forward(const Tensor& x) {
  complete(x, 1);
  const Tensor scale = gamma->data(), shift = beta->data();
  return group_norm(x, scale, shift, {.num_groups = options_.num_groups, .eps = options_.epsilon});
}
std::string GroupNorm::describe() const { return fmt::format("num_groups={}, eps={}", options_.num_groups, options_.epsilon); }

Tensor InstanceNorm::forward(const Tensor& in) {
  complete(in, options_.axis);
  // The operator normalises everything after axis 1.
  auto swapped = [&](const Tensor& t) { return options_.axis == 1 ? t : swap_axis(t, {.dim1 = 1, .dim2 = options_.axis}); };
  const Tensor x = swapped(in), scale = gamma->data(), shift = beta->data();
  return swapped(instance_norm(x, scale, shift, {.eps = options_.epsilon}));
}
std::string InstanceNorm::describe() const { return fmt::format("axis={}, eps={}", options_.axis, options_.epsilon); }

// ---- samples

static std::shared_ptr<HybridSequential> small_chain() {
  auto net = std::make_shared<HybridSequential>();
  net->add(Dense(4, {.activation = "tanh"}), Dense(3, {.use_bias = false}));
  return net;
}
static std::shared_ptr<HybridConcurrent> two_branches() {
  auto net = std::make_shared<HybridConcurrent>(1);
  net->add(Dense(2), Identity());
  return net;
}

static const LayerSamples samples{
    {{{2, 3}}, small_chain},
    {{{2, 3}}, two_branches},
    sample<Identity>({{2, 3}}),
    {{{2, 3}}, [] { return std::make_shared<HybridLambda>("sin"); }},
    sample<Dense>({{2, 3, 4}}, 5),
    sample<Dense>({{2, 3, 4}}, 5, DenseOptions{.activation = "sigmoid", .use_bias = false, .flatten = false}),
    sample<Activation>({{2, 3}}, "softrelu"),
    sample<LeakyReLU>({{2, 3}}, 0.1),
    sample<PReLU>({{2, 3}}),
    sample<PReLU>({{2, 3, 4}}, init::uniform(0.5), 3),
    sample<ELU>({{2, 3}}, 0.7),
    sample<SELU>({{2, 3}}),
    sample<GELU>({{2, 3}}),
    sample<Swish>({{2, 3}}, 1.5),
    sample<SiLU>({{2, 3}}),
    sample<Dropout>({{4, 5}}, 0.4),
    sample<Dropout>({{4, 5}}, 0.4, Shape{1}),
    sample<Flatten>({{2, 3, 4}}),
    sample<Reshape>({{2, 6}}, Shape{0, -4, 2, -1}),
    sample<Embedding>({index_sample({2, 3}, 5)}, 5, 4),
    sample<BatchNorm>({{4, 3, 2}}),
    sample<BatchNorm>({{4, 2, 3}}, BatchNormOptions{.axis = -1, .center = false, .scale = false}),
    sample<LayerNorm>({{2, 3, 4}}),
    sample<LayerNorm>({{2, 3, 4}}, LayerNormOptions{.axis = 1, .center = false}),
    sample<GroupNorm>({{2, 4, 3}}, GroupNormOptions{.num_groups = 2}),
    sample<InstanceNorm>({{2, 3, 5}}),
    sample<InstanceNorm>({{2, 5, 3}}, InstanceNormOptions{.axis = 2, .scale = true}),
};

}  // namespace gluino::nn
