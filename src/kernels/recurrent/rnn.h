// Recurrent layers: forward keeps what backward needs in one reserve buffer.
#pragma once
#include <cstdint>

#include "base/scratch.h"

namespace gluino::kernels {

enum class RnnMode : uint8_t { relu, tanh, lstm, gru };

// data: (time, batch, input), out: (time, batch, directions * state), states: (layers * directions, batch, state).
// parameters: for each layer and direction the weights (gates * state, inputs of the layer) and (gates * state, state), then for each
// again the two biases. Gates are i, f, g, o for lstm and r, z, n for gru.
struct RnnGeometry {
  RnnMode mode = RnnMode::lstm;
  int64_t time = 0, batch = 0, input = 0, state = 0, layers = 1, directions = 1;
  bool has_masks = false;            // dropout: masks at the end of the reserve multiply the outputs of all layers but the last
  const int64_t* lengths = nullptr;  // per sequence; null: all have `time` steps

  int64_t gates() const { return mode == RnnMode::lstm ? 4 : mode == RnnMode::gru ? 3 : 1; }
  int64_t layer_input(int64_t layer) const { return layer == 0 ? input : directions * state; }
  int64_t weight_size(int64_t layer) const { return gates() * state * (layer_input(layer) + state); }
  int64_t weights_before(int64_t layer, int64_t direction) const;
  int64_t bias_offset(int64_t layer, int64_t direction) const {
    return weights_before(layers, 0) + (layer * directions + direction) * 2 * gates() * state;
  }
  int64_t parameter_size() const { return bias_offset(layers, 0); }
  // Reserve, per layer: per direction gates, hidden states and one more state; then the output of the layer.
  int64_t reserve_per_direction() const { return time * batch * state * (gates() + 2); }
  int64_t reserve_per_layer() const { return directions * (reserve_per_direction() + time * batch * state); }
  int64_t mask_offset(int64_t layer) const { return layers * reserve_per_layer() + layer * time * batch * directions * state; }
  int64_t reserve_size() const { return mask_offset(has_masks ? layers - 1 : 0); }
};

template <class T>
struct RnnStates {
  T *hidden = nullptr, *cell = nullptr;  // cell only for lstm
};

template <class T>
void rnn_forward(const RnnGeometry& g, const T* data, const T* parameters, RnnStates<const T> initial, T* out, RnnStates<T> final,
                 T* reserve);
// head_final may have null parts: nothing flows in there.
template <class T>
void rnn_backward(const RnnGeometry& g, const T* data, const T* parameters, RnnStates<const T> initial, const T* reserve, const T* head,
                  RnnStates<const T> head_final, T* data_grad, T* parameter_grad, RnnStates<T> initial_grad);

// The same for prediction in float32: parameters rearranged once, nothing kept for a backward pass, no dropout.
int64_t packed_rnn_elements(const RnnGeometry& g);
void pack_rnn_parameters(const RnnGeometry& g, const float* parameters, float* packed);
void rnn_predict(const RnnGeometry& g, const float* data, const float* packed, RnnStates<const float> initial, float* out,
                 RnnStates<float> final, const Scratch& scratch);

}  // namespace gluino::kernels
