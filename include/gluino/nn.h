// Layers. All are hybrid; options are designated initialisers: nn::Conv2D(6, 5, {.padding = 2, .activation = "relu"}).
#pragma once
#include <functional>

#include "gluino/block.h"

namespace gluino::nn {

using gluino::Block;
using gluino::HybridBlock;
using gluino::HybridBlockOf;
using gluino::SymbolBlock;

namespace detail {
Tensors run_in_order(const std::vector<Block::Child>& children, Tensors x);

// Owns its children and runs them one after the other.
template <class Base>
class Chain : public Base {
 public:
  Chain() = default;
  explicit Chain(std::string prefix) : Base(std::move(prefix)) {}
  template <class... B>
  requires(std::is_base_of_v<Block, std::decay_t<B>>&&...) void add(B&&... blocks) {
    static_assert((!std::is_lvalue_reference_v<B> && ...),
                  "add(layer) would leave the caller an empty layer: write add(nn::Dense(4)), add<nn::Dense>(4), add(std::move(layer)), or "
                  "share a std::shared_ptr");
    (this->own_child(std::to_string(size()), std::make_shared<std::decay_t<B>>(std::move(blocks))), ...);
  }
  template <class B, class... A>
  B& add(A&&... args) {
    auto block = std::make_shared<B>(std::forward<A>(args)...);
    this->own_child(std::to_string(size()), block);
    return *block;
  }
  template <std::derived_from<Block> B>
  void add(std::shared_ptr<B> block) {
    this->own_child(std::to_string(size()), std::move(block));
  }
  size_t size() const { return this->children().size(); }
  Block& operator[](size_t i) const { return this->child(i); }
  Tensors forward(const Tensors& inputs) override { return run_in_order(this->children(), inputs); }
};
}  // namespace detail

// nn::Sequential net; net.add(nn::Dense(256), nn::Dense(2));
class Sequential : public detail::Chain<Block> {
 public:
  using Chain::Chain;
};
class HybridSequential : public detail::Chain<HybridBlock> {
 public:
  using Chain::Chain;
};

// Gives the input to every child and joins the outputs along an axis.
class Concurrent : public Sequential {
 public:
  explicit Concurrent(int axis = -1) : axis_(axis) {}
  Tensors forward(const Tensors& inputs) override;

 private:
  int axis_;
};
class HybridConcurrent : public HybridSequential {
 public:
  explicit HybridConcurrent(int axis = -1) : axis_(axis) {}
  HybridConcurrent(int axis, std::string prefix) : HybridSequential(std::move(prefix)), axis_(axis) {}
  Tensors forward(const Tensors& inputs) override;

 private:
  int axis_;
};

class Identity : public HybridBlock {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

// A function as a block.
class Lambda : public Block {
 public:
  explicit Lambda(std::function<Tensor(const Tensor&)> f) : f_(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return f_(x); }

 private:
  std::function<Tensor(const Tensor&)> f_;
};
class HybridLambda : public HybridBlock {
 public:
  explicit HybridLambda(std::function<Tensor(const Tensor&)> f) : f_(std::move(f)) {}
  explicit HybridLambda(const std::string& op);  // an operator of the registry
  Tensor forward(const Tensor& x) override { return f_(x); }

 private:
  std::function<Tensor(const Tensor&)> f_;
};

struct DenseOptions {
  std::string activation = {};  // "": none
  bool use_bias = true;
  bool flatten = true;
  DType dtype = DType::float32;
  init::InitializerPtr weight_initializer = {}, bias_initializer = init::zero();
  int64_t in_units = 0;  // 0: from the first input
};
class Dense : public HybridBlock {
 public:
  explicit Dense(int64_t units, DenseOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;
  const ParameterPtr weight, bias;

 private:
  int64_t units_;
  DenseOptions options_;
};

class Activation : public HybridBlock {
 public:
  explicit Activation(std::string function);
  Tensor forward(const Tensor& x) override;
  std::string hint() const override { return function_; }
  std::string describe() const override { return function_; }

 private:
  std::string function_;
};

// Activation functions that are not flat below 0.
class LeakyReLU : public HybridBlock {
 public:
  explicit LeakyReLU(double alpha);  // the slope below 0
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  double alpha_;
};
class PReLU : public HybridBlock {
 public:
  explicit PReLU(init::InitializerPtr alpha_initializer = init::constant(0.25), int64_t in_channels = 1);
  Tensor forward(const Tensor& x) override;
  const ParameterPtr alpha;  // the slope below 0: one, or one per channel
};
class ELU : public HybridBlock {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override;

 private:
  double alpha_;
};
class SELU : public HybridBlock {
 public:
  Tensor forward(const Tensor& x) override;
};
class GELU : public HybridBlock {
 public:
  Tensor forward(const Tensor& x) override;
};
class Swish : public HybridBlock {
 public:
  explicit Swish(double beta = 1) : beta_(beta) {}
  Tensor forward(const Tensor& x) override;  // x * sigmoid(beta * x)

 private:
  double beta_;
};
class SiLU : public Swish {};

class Dropout : public HybridBlock {
 public:
  explicit Dropout(double rate, Shape axes = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  double rate_;
  Shape axes_;
};

class Flatten : public HybridBlock {
 public:
  Tensor forward(const Tensor& x) override;
};

// MXNet's codes: 0 copies an extent, -1 infers it, -2 copies the rest, -3 merges two, -4 splits one.
class Reshape : public HybridBlock {
 public:
  explicit Reshape(Shape shape) : shape_(std::move(shape)) {}
  Tensor forward(const Tensor& x) override { return x.reshape(shape_); }
  std::string describe() const override { return shape_.str(); }

 private:
  Shape shape_;
};

class Embedding : public HybridBlock {
 public:
  Embedding(int64_t input_dim, int64_t output_dim, DType dtype = DType::float32, init::InitializerPtr weight_initializer = nullptr);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;
  const ParameterPtr weight;

 private:
  int64_t input_dim_, output_dim_;
};

// What normalising layers share: a factor and a shift for each channel, learnt where `scale` and `center` say so.
class Norm : public HybridBlock {
 public:
  const ParameterPtr gamma, beta;

 protected:
  // Of options all layers have epsilon, center, scale and in_channels; `layer` is for messages.
  template <class Options>
  Norm(const char* layer, const Options& o) : Norm(layer, o.in_channels, o.scale, o.center, o.epsilon) {}
  void complete(const Tensor& x, int axis) const;  // shapes of all own parameters, where the input's is known

 private:
  Norm(const char* layer, int64_t in_channels, bool scale, bool center, double epsilon);
};

struct BatchNormOptions {
  int axis = 1;
  double momentum = 0.9, epsilon = 1e-5;
  bool center = true, scale = true, use_global_stats = false;
  int64_t in_channels = 0;
};
class BatchNorm : public Norm {
 public:
  explicit BatchNorm(BatchNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  void cast(DType dtype) override;
  std::string describe() const override;
  const ParameterPtr running_mean, running_var;

 private:
  BatchNormOptions options_;
};

struct LayerNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  int64_t in_channels = 0;
};
class LayerNorm : public Norm {
 public:
  explicit LayerNorm(LayerNormOptions options = {}) : Norm("LayerNorm", options), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  LayerNormOptions options_;
};

struct GroupNormOptions {
  int64_t num_groups = 1;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  int64_t in_channels = 0;
};
class GroupNorm : public Norm {
 public:
  explicit GroupNorm(GroupNormOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  GroupNormOptions options_;
};

struct InstanceNormOptions {
  int axis = 1;
  double epsilon = 1e-5;
  bool center = true, scale = false;
  int64_t in_channels = 0;
};
class InstanceNorm : public Norm {
 public:
  explicit InstanceNorm(InstanceNormOptions options = {}) : Norm("InstanceNorm", options), options_(options) {}
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  InstanceNormOptions options_;
};

// One number stands for all axes.
struct Extents {
  Extents(int64_t all) : values{all} {}
  Extents(std::initializer_list<int64_t> each) : values(each) {}
  Shape values;
  Shape expand(int axes) const { return values.ndim() == axes ? values : Shape::filled(axes, values[0]); }
};

struct ConvOptions {
  Extents strides = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  std::string activation = {};
  bool use_bias = true;
  init::InitializerPtr weight_initializer = {}, bias_initializer = init::zero();
  int64_t in_channels = 0;
};
// What convolutions and their transposes share. The weight is (filters, channels in per group, kernel extents), of a transpose (channels
// in, filters per group, kernel extents).
template <class Options>
class Filters : public HybridBlock {
 protected:
  Filters(int axes, int64_t channels, const Extents& kernel_size, Options options);
  Shape weight_shape(int64_t in_channels) const;
  void complete(const Tensor& x) const;  // the weight's shape, where the input's is known
  template <class Attributes>
  Attributes attributes() const;  // of the operator, as far as both have them
  const Options options_;
  const int axes_;
  const int64_t channels_;
  const Shape kernel_;

 public:
  std::string hint() const override { return "conv"; }
  std::string describe() const override;
  const ParameterPtr weight, bias;
};
// A convolution over `axes` spatial axes in channel-first layout.
class Conv : public Filters<ConvOptions> {
 public:
  Conv(int axes, int64_t channels, const Extents& kernel_size, ConvOptions options);
  Tensor forward(const Tensor& x) override;
};
class Conv1D : public Conv {
 public:
  Conv1D(int64_t channels, Extents kernel_size, ConvOptions options = {}) : Conv(1, channels, kernel_size, std::move(options)) {}
};
class Conv2D : public Conv {
 public:
  Conv2D(int64_t channels, Extents kernel_size, ConvOptions options = {}) : Conv(2, channels, kernel_size, std::move(options)) {}
};
class Conv3D : public Conv {
 public:
  Conv3D(int64_t channels, Extents kernel_size, ConvOptions options = {}) : Conv(3, channels, kernel_size, std::move(options)) {}
};

struct ConvTransposeOptions {
  Extents strides = 1, padding = 0, output_padding = 0, dilation = 1;
  int64_t groups = 1;
  std::string activation = {};
  bool use_bias = true;
  init::InitializerPtr weight_initializer = {}, bias_initializer = init::zero();
  int64_t in_channels = 0;
};
// The transpose of a convolution: its output is about `strides` times larger.
class ConvTranspose : public Filters<ConvTransposeOptions> {
 public:
  ConvTranspose(int axes, int64_t channels, const Extents& kernel_size, ConvTransposeOptions options);
  Tensor forward(const Tensor& x) override;
};
class Conv1DTranspose : public ConvTranspose {
 public:
  Conv1DTranspose(int64_t channels, Extents kernel_size, ConvTransposeOptions options = {})
      : ConvTranspose(1, channels, kernel_size, std::move(options)) {}
};
class Conv2DTranspose : public ConvTranspose {
 public:
  Conv2DTranspose(int64_t channels, Extents kernel_size, ConvTransposeOptions options = {})
      : ConvTranspose(2, channels, kernel_size, std::move(options)) {}
};
class Conv3DTranspose : public ConvTranspose {
 public:
  Conv3DTranspose(int64_t channels, Extents kernel_size, ConvTransposeOptions options = {})
      : ConvTranspose(3, channels, kernel_size, std::move(options)) {}
};

struct PoolOptions {
  std::optional<Extents> strides = {};  // as the window when absent
  Extents padding = 0;
  bool ceil_mode = false, count_include_pad = true;
};
class Pool : public HybridBlock {
 public:
  Pool(int axes, std::string kind, std::optional<Extents> window, PoolOptions options);  // no window: global
  std::string hint() const override { return "pool"; }
  Tensor forward(const Tensor& x) override;
  std::string describe() const override;

 private:
  int axes_;
  std::string kind_;
  std::optional<Extents> window_;
  PoolOptions options_;
};
#define GLUINO_POOL(Name, axes, pool_kind)                                                                             \
  class Name : public Pool {                                                                                           \
   public:                                                                                                             \
    explicit Name(Extents window = 2, PoolOptions options = {}) : Pool(axes, pool_kind, window, std::move(options)) {} \
  };                                                                                                                   \
  class Global##Name : public Pool {                                                                                   \
   public:                                                                                                             \
    Global##Name() : Pool(axes, pool_kind, std::nullopt, {}) {}                                                        \
  };
GLUINO_POOL(MaxPool1D, 1, "max")
GLUINO_POOL(MaxPool2D, 2, "max")
GLUINO_POOL(MaxPool3D, 3, "max")
GLUINO_POOL(AvgPool1D, 1, "avg")
GLUINO_POOL(AvgPool2D, 2, "avg")
GLUINO_POOL(AvgPool3D, 3, "avg")
#undef GLUINO_POOL

// Surrounds images with their mirror image: `padding` on all four sides, or {left, right, top, bottom}.
class ReflectionPad2D : public HybridBlock {
 public:
  explicit ReflectionPad2D(Extents padding = 0);
  Tensor forward(const Tensor& x) override;

 private:
  Shape padding_;
};

// Moves channels into space: (N, C * f^axes, ...) becomes (N, C, f * extent, ...).
class PixelShuffle : public HybridBlock {
 public:
  PixelShuffle(int axes, const Extents& factor);
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return factors_.str(); }

 private:
  Shape factors_;
};
class PixelShuffle1D : public PixelShuffle {
 public:
  explicit PixelShuffle1D(Extents factor) : PixelShuffle(1, factor) {}
};
class PixelShuffle2D : public PixelShuffle {
 public:
  explicit PixelShuffle2D(Extents factor) : PixelShuffle(2, factor) {}
};
class PixelShuffle3D : public PixelShuffle {
 public:
  explicit PixelShuffle3D(Extents factor) : PixelShuffle(3, factor) {}
};

struct AttentionOptions {
  double dropout = 0;  // of the attention weights
  bool use_bias = true;
};
// Scaled dot-product attention in num_heads parts: (query, key, value[, mask]), each (batch, time, units), or (x[, mask]) for
// self-attention. The mask (batch, query time, key time) holds 1 where a query may look and 0 where it may not.
class MultiHeadAttention : public HybridBlock {
 public:
  MultiHeadAttention(int64_t units, int64_t num_heads, AttentionOptions options = {});
  Tensors forward(const Tensors& inputs) override;
  std::string describe() const override;

 private:
  Tensor split_heads(const Tensor& x) const;
  int64_t units_, num_heads_;
  std::shared_ptr<Dense> query_, key_, value_, output_;
  std::shared_ptr<Dropout> dropout_;
};

struct TransformerOptions {
  double dropout = 0.1;
  std::string activation = "relu";
  bool pre_norm = false;  // normalise before each part instead of after
  double epsilon = 1e-5;
};
// Self-attention and two dense layers, each with a residual connection: (x[, mask]).
class TransformerEncoderLayer : public HybridBlock {
 public:
  TransformerEncoderLayer(int64_t units, int64_t hidden_size, int64_t num_heads, TransformerOptions options = {});
  Tensors forward(const Tensors& inputs) override;

 private:
  bool pre_norm_;
  std::shared_ptr<MultiHeadAttention> attention_;
  std::shared_ptr<Dense> expand_, shrink_;
  std::shared_ptr<Activation> activation_;
  std::shared_ptr<LayerNorm> attention_norm_, dense_norm_;
  std::shared_ptr<Dropout> dropout_;
};

}  // namespace gluino::nn
