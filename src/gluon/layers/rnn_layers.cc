// Recurrent layers: separate parameters, as files name them, packed into the one vector that the operator takes.
#include "base/format.h"
#include "gluino/rnn.h"
#include "gluon/layers/layers.h"
#include "gluon/layers/rnn.h"

namespace gluino::nn {

RecurrentLayer::RecurrentLayer(std::string mode, int64_t gates, int64_t hidden_size, RecurrentOptions options)
    : mode_(std::move(mode)), gates_(gates), hidden_size_(hidden_size), options_(std::move(options)) {
  check_choice("a recurrent layer: mode", mode_, "RNN", "mode");
  if (hidden_size < 1) raise<UserError>("{}: hidden_size is {}, at least 1 is needed", mode_, hidden_size);
  if (options_.num_layers < 1) raise<UserError>("{}: num_layers is {}, at least 1 is needed", mode_, options_.num_layers);
  if (options_.layout != "TNC" && options_.layout != "NTC")
    raise<UserError>("{}: layout is '{}'; it must be TNC or NTC", mode_, options_.layout);
  check_rate(mode_ + ": dropout", options_.dropout);
  const int64_t rows = gates * hidden_size, directions = options_.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < options_.num_layers; ++layer)
    for (const char* direction : {"l", "r"}) {
      if (direction[0] == 'r' && !options_.bidirectional) continue;
      const std::string prefix = fmt::format("{}{}_", direction, layer);
      const int64_t inputs = layer == 0 ? options_.input_size : hidden_size * directions;
      weights_.push_back(add_parameter(prefix + "i2h_weight", {.shape = {rows, inputs}, .init = options_.i2h_weight_initializer}));
      weights_.push_back(add_parameter(prefix + "h2h_weight", {.shape = {rows, hidden_size}, .init = options_.h2h_weight_initializer}));
      biases_.push_back(add_parameter(prefix + "i2h_bias", {.shape = {rows}, .init = options_.i2h_bias_initializer}));
      biases_.push_back(add_parameter(prefix + "h2h_bias", {.shape = {rows}, .init = options_.h2h_bias_initializer}));
    }
}

Tensor RecurrentLayer::packed_parameters(const Tensor& x) {
  for (size_t i = 0; i < weights_.size(); i += 2)
    complete_if_known(has_known_shape(x), weights_[i], [&] {
      if (peek_shape(x).ndim() != 3)
        raise<ShapeError>("{}: the input has shape {}, but {} is needed", kind(), peek_shape(x), options_.layout);
      Shape shape = weights_[i]->shape();
      if (shape[1] == 0) shape[1] = peek_shape(x)[2];
      return shape;
    });
  Tensors flat;
  for (const auto* group : {&weights_, &biases_})
    for (const ParameterPtr& p : *group) flat.push_back(p->data().reshape({-1}));
  return concat(flat, {.dim = 0});
}

Tensors RecurrentLayer::begin_state(const Tensor& x) const {
  const int batch_axis = options_.layout == "TNC" ? 1 : 0;
  const int64_t rows = options_.num_layers * (options_.bidirectional ? 2 : 1);
  // (1, batch, 1), whichever way the input lies
  const Tensor column = zero_column(x, batch_axis).reshape({1, -1, 1});
  const Tensor zero = broadcast_axis(column, {.axis = {0, 2}, .size = {rows, hidden_size_}});
  return Tensors(num_states(), zero);
}

Tensors RecurrentLayer::forward(const Tensors& inputs) {
  const size_t lengths = options_.use_sequence_length ? 1 : 0, states = static_cast<size_t>(num_states());
  const bool has_states = inputs.size() == 1 + states + lengths;
  if (inputs.size() != 1 + lengths && !has_states)
    raise<UserError>("{}: {} inputs were given; {} are needed, or {} with the initial states", kind(), inputs.size(), 1 + lengths,
                     1 + states + lengths);
  const bool batch_first = options_.layout == "NTC";
  auto swapped = [&](const Tensor& t) { return batch_first ? swap_axis(t, {.dim1 = 0, .dim2 = 1}) : t; };
  const Tensor data = swapped(inputs[0]), parameters = packed_parameters(inputs[0]);
  const Tensors begin =
      has_states ? Tensors(inputs.begin() + 1, inputs.begin() + 1 + static_cast<ptrdiff_t>(states)) : begin_state(inputs[0]);
  Tensors out = rnn(data, parameters, begin[0], states > 1 ? begin[1] : Tensor(), lengths ? inputs.back() : Tensor(),
                    {.mode = mode_,
                     .state_size = hidden_size_,
                     .num_layers = options_.num_layers,
                     .bidirectional = options_.bidirectional,
                     .state_outputs = true,
                     .use_sequence_length = options_.use_sequence_length,
                     .p = options_.dropout});
  out.resize(has_states ? 1 + states : 1);
  out[0] = swapped(out[0]);
  return out;
}

std::string RecurrentLayer::describe() const {
  const int64_t in = weights_[0]->shape()[1];
  return fmt::format("{} -> {}, {}{}{}", in > 0 ? std::to_string(in) : "None", hidden_size_, options_.layout,
                     options_.num_layers > 1 ? fmt::format(", num_layers={}", options_.num_layers) : "",
                     options_.bidirectional ? ", bidirectional" : "");
}

static std::string mode_of(const std::string& activation) {
  if (activation != "relu" && activation != "tanh") raise<UserError>("RNN: activation is '{}'; it must be relu or tanh", activation);
  return "rnn_" + activation;
}
RNN::RNN(int64_t hidden_size, RecurrentOptions options, const std::string& activation)
    : RecurrentLayer(mode_of(activation), 1, hidden_size, std::move(options)) {}

static const LayerSamples samples{
    sample<RNN>({{3, 2, 4}}, 5, RecurrentOptions{}, "tanh"),
    sample<RNN>({{2, 3, 4}}, 3, RecurrentOptions{.num_layers = 2, .layout = "NTC"}),
    sample<LSTM>({{3, 2, 4}}, 5),
    sample<LSTM>({{2, 3, 4}}, 3, RecurrentOptions{.num_layers = 2, .layout = "NTC", .bidirectional = true}),
    sample<LSTM>({{3, 2, 4}, {1, 2, 5}, {1, 2, 5}}, 5),
    sample<GRU>({{3, 2, 4}}, 5, RecurrentOptions{.bidirectional = true}),
    sample<GRU>({{3, 2, 4}, {2, 2, 5}}, 5, RecurrentOptions{.num_layers = 2}),
};

}  // namespace gluino::nn
