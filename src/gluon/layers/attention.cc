// Attention and the transformer's encoder layer ("Attention Is All You Need", Vaswani et al., 2017).
#include <cmath>

#include "base/format.h"
#include "gluino/nn.h"
#include "gluon/layers/layers.h"

namespace gluino::nn {

MultiHeadAttention::MultiHeadAttention(int64_t units, int64_t num_heads, AttentionOptions options) : units_(units), num_heads_(num_heads) {
  if (num_heads < 1 || units < 1 || units % num_heads != 0)
    raise<UserError>("MultiHeadAttention: {} units cannot be shared by {} heads evenly", units, num_heads);
  const DenseOptions dense{.use_bias = options.use_bias, .flatten = false};
  query_ = make_child<Dense>("query", units, dense);
  key_ = make_child<Dense>("key", units, dense);
  value_ = make_child<Dense>("value", units, dense);
  output_ = make_child<Dense>("output", units, dense);
  dropout_ = make_child<Dropout>("dropout", options.dropout);
}

// (batch, time, units) -> (batch * heads, time, units per head)
Tensor MultiHeadAttention::split_heads(const Tensor& x) const {
  return x.reshape({0, 0, -4, num_heads_, -1}).transpose({0, 2, 1, 3}).reshape({-3, 0, 0});
}

Tensors MultiHeadAttention::forward(const Tensors& given) {
  if (given.empty() || given.size() > 4)
    raise<UserError>("MultiHeadAttention: {} inputs were given; query, key, value and perhaps a mask are needed", given.size());
  Tensors inputs = given;
  if (given.size() <= 2) inputs.insert(inputs.begin(), 2, given[0]);  // self-attention: (x) or (x, mask)
  const Tensor q = split_heads((*query_)(inputs[0])), k = split_heads((*key_)(inputs[1])), v = split_heads((*value_)(inputs[2]));
  const double scale = 1 / std::sqrt(static_cast<double>(units_ / num_heads_));
  Tensor scores = batch_dot(q * scale, k, {.transpose_b = true});  // (batch * heads, query time, key time)
  if (inputs.size() == 4) {
    const Tensor blocked = expand_dims(inputs[3], {.axis = 1}) - 1.0;  // 0, or -1 where it may not look
    scores = scores.reshape({-4, -1, num_heads_, 0, 0});
    scores = broadcast_add(scores, blocked * 1e9).reshape({-3, 0, 0});
  }
  const Tensor weights = (*dropout_)(softmax(scores));
  const Tensor joined = batch_dot(weights, v).reshape({-4, -1, num_heads_, 0, 0}).transpose({0, 2, 1, 3});
  return {(*output_)(joined.reshape({0, 0, -3}))};
}
std::string MultiHeadAttention::describe() const { return fmt::format("{} units, {} heads", units_, num_heads_); }

TransformerEncoderLayer::TransformerEncoderLayer(int64_t units, int64_t hidden_size, int64_t num_heads, TransformerOptions options)
    : pre_norm_(options.pre_norm),
      attention_(make_child<MultiHeadAttention>("attention", units, num_heads, AttentionOptions{.dropout = options.dropout})),
      expand_(make_child<Dense>("expand", hidden_size, DenseOptions{.flatten = false})),
      shrink_(make_child<Dense>("shrink", units, DenseOptions{.flatten = false})),
      activation_(make_child<Activation>("activation", options.activation)),
      attention_norm_(make_child<LayerNorm>("attention_norm", LayerNormOptions{.epsilon = options.epsilon})),
      dense_norm_(make_child<LayerNorm>("dense_norm", LayerNormOptions{.epsilon = options.epsilon})),
      dropout_(make_child<Dropout>("dropout", options.dropout)) {}
Tensors TransformerEncoderLayer::forward(const Tensors& inputs) {
  auto residual = [&](const Tensor& x, LayerNorm& norm, const auto& part) {
    return pre_norm_ ? x + (*dropout_)(part(norm(x))) : norm(x + (*dropout_)(part(x)));
  };
  const Tensor attended = residual(inputs.at(0), *attention_norm_, [&](const Tensor& x) {
    Tensors arguments{x};
    arguments.insert(arguments.end(), inputs.begin() + 1, inputs.end());
    return (*attention_)(arguments).at(0);
  });
  return {residual(attended, *dense_norm_, [&](const Tensor& x) { return (*shrink_)((*activation_)((*expand_)(x))); })};
}

static const LayerSamples samples{
    sample<MultiHeadAttention>({{2, 3, 4}}, 4, 2),
    sample<MultiHeadAttention>({{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, index_sample({2, 3, 5}, 2)}, 4, 2, AttentionOptions{.use_bias = false}),
    sample<TransformerEncoderLayer>({{2, 3, 4}}, 4, 6, 2),
    sample<TransformerEncoderLayer>({{2, 3, 4}, index_sample({2, 3, 3}, 2)}, 4, 6, 1,
                                    TransformerOptions{.dropout = 0, .activation = "tanh", .pre_norm = true}),
};

}  // namespace gluino::nn
