#include "kernels/recurrent/rnn.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "kernels/gemm/costs.h"
#include "kernels/gemm/gemm.h"
#include "kernels/isa/primitives.h"
#include "kernels/rows/rows.h"

namespace gluino::kernels {

int64_t RnnGeometry::weights_before(int64_t layer, int64_t direction) const {
  int64_t total = 0;
  for (int64_t l = 0; l < layer; ++l) total += directions * weight_size(l);
  return total + (direction ? weight_size(layer) : 0);
}

namespace {

template <class T>
void vector_tanh(T* x, int64_t n) {
  constexpr auto type = sizeof(T) == 4 ? ComputeType::f32 : ComputeType::f64;
  primitives().scalar[static_cast<int>(ScalarFn::tanh)][static_cast<int>(type)](x, nullptr, nullptr, x, n);
}

// The views of one layer and direction. R is T or const T: how the reserve is seen.
template <class T, class R>
struct Cell {
  const RnnGeometry& g;
  int64_t layer, direction;
  const T *input_weight, *state_weight, *input_bias, *state_bias;
  R *gates, *hidden, *extra;  // (time, batch, gates * state), (time, batch, state) twice; extra: cells of lstm, state part of n of gru
  R* layer_out;               // (time, batch, directions * state) of the whole layer
  Cell(const RnnGeometry& geometry, int64_t l, int64_t d, const T* parameters, R* reserve) : g(geometry), layer(l), direction(d) {
    input_weight = parameters + g.weights_before(l, d);
    state_weight = input_weight + g.gates() * g.state * g.layer_input(l);
    input_bias = parameters + g.bias_offset(l, d);
    state_bias = input_bias + g.gates() * g.state;
    gates = reserve + l * g.reserve_per_layer() + d * g.reserve_per_direction();
    hidden = gates + g.time * g.batch * g.state * g.gates();
    extra = hidden + g.time * g.batch * g.state;
    layer_out = reserve + l * g.reserve_per_layer() + g.directions * g.reserve_per_direction();
  }
  int64_t time_of(int64_t step) const { return direction ? g.time - 1 - step : step; }
  bool is_active(int64_t t, int64_t n) const { return !g.lengths || t < g.lengths[n]; }
  int64_t rows() const { return g.gates() * g.state; }
};

// sigmoid(x) = tanh(x / 2) / 2 + 1 / 2: what follows the hyperbolic tangent of half the sums.
template <class T>
void half_plus_half(T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] * T(0.5) + T(0.5);
}

// One row of the batch: the gates hold their sums and become the activations. gru keeps the state's part of its third
// gate apart, in `from_state`.
template <class T>
void step_row(RnnMode mode, int64_t size, T* gates, const T* from_state, const T* hidden_before, const T* extra_before, T* hidden,
              T* extra) {
  if (mode == RnnMode::lstm) {
    row_functions<T>().lstm(size, gates, extra_before, hidden, extra);
  } else if (mode == RnnMode::gru) {
    for (int64_t i = 0; i < 2 * size; ++i) gates[i] = (gates[i] + from_state[i]) * T(0.5);
    vector_tanh(gates, 2 * size);
    half_plus_half(gates, 2 * size);
    T* n = gates + 2 * size;
    for (int64_t i = 0; i < size; ++i) {
      extra[i] = from_state[2 * size + i];
      n[i] += gates[i] * extra[i];
    }
    vector_tanh(n, size);
    for (int64_t i = 0; i < size; ++i) hidden[i] = (1 - gates[size + i]) * n[i] + gates[size + i] * hidden_before[i];
  } else {
    if (mode == RnnMode::tanh)
      vector_tanh(gates, size);
    else
      for (int64_t i = 0; i < size; ++i) gates[i] = std::max(gates[i], T(0));
    std::copy_n(gates, size, hidden);
  }
}

template <class T>
void fill_rows(T* out, const T* row, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(row, columns, out + r * columns);
}

// out += x * weight^T, step after step with the same weight: rearranged once where the product gains from it.
template <class T>
class StateProduct {
 public:
  StateProduct(const T* weight, int64_t rows, int64_t size, int64_t batch) : weight_(weight), rows_(rows), size_(size), batch_(batch) {
    if constexpr (std::is_same_v<T, float>)
      if (batch > 1) packed_.emplace(true, size, rows, weight, size);
  }
  void add(const T* x, T* out) const {
    if (packed_)
      if constexpr (std::is_same_v<T, float>) return gemm_packed({batch_, rows_, size_}, {x, size_}, packed_->data(), true, {out, rows_});
    gemm<T>({batch_, rows_, size_}, {x, size_}, {weight_, size_, true}, {out, rows_}, {.old = 1});
  }

 private:
  const T* weight_;
  int64_t rows_, size_, batch_;
  std::optional<PackedFactor> packed_;
};

template <class T>
void run_cell(const Cell<T, T>& c, const T* input, const T* hidden_start, const T* cell_start, T* hidden_end, T* cell_end) {
  const RnnGeometry& g = c.g;
  const int64_t size = g.state, rows = c.rows(), block = g.batch * size;
  const bool apart = g.mode == RnnMode::gru;  // the state's part is not simply added to the input's
  std::vector<T> bias(c.input_bias, c.input_bias + rows), from_state(static_cast<size_t>(apart ? g.batch * rows : 0));
  for (int64_t i = 0; i < rows && !apart; ++i) bias[i] += c.state_bias[i];
  fill_rows(c.gates, bias.data(), g.time * g.batch, rows);
  gemm<T>({g.time * g.batch, rows, g.layer_input(c.layer)}, {input, g.layer_input(c.layer)}, {c.input_weight, g.layer_input(c.layer), true},
          {c.gates, rows}, {.old = 1});
  const StateProduct<T> product(c.state_weight, rows, size, g.batch);
  const T *hidden_before = hidden_start, *extra_before = cell_start;
  for (int64_t step = 0; step < g.time; ++step) {
    const int64_t t = c.time_of(step);
    if (apart) fill_rows(from_state.data(), c.state_bias, g.batch, rows);
    product.add(hidden_before, apart ? from_state.data() : c.gates + t * g.batch * rows);
    parallel_for(g.batch, kParallelGrain / (8 * rows) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        T *hidden = c.hidden + t * block + n * size, *extra = c.extra + t * block + n * size;
        T* out = c.layer_out + ((t * g.batch + n) * g.directions + c.direction) * size;
        if (c.is_active(t, n)) {
          step_row(g.mode, size, c.gates + (t * g.batch + n) * rows, apart ? from_state.data() + n * rows : nullptr,
                   hidden_before + n * size, extra_before ? extra_before + n * size : nullptr, hidden, extra);
          std::copy_n(hidden, size, out);
        } else {
          std::copy_n(hidden_before + n * size, size, hidden);
          if (g.mode == RnnMode::lstm) std::copy_n(extra_before + n * size, size, extra);
          std::fill_n(out, size, T(0));
        }
      }
    });
    hidden_before = c.hidden + t * block;
    if (g.mode == RnnMode::lstm) extra_before = c.extra + t * block;
  }
  std::copy_n(hidden_before, block, hidden_end);
  if (g.mode == RnnMode::lstm) std::copy_n(extra_before, block, cell_end);
}

// What flows through one row of one step backwards. dh and dc come in for this step and leave for the one before;
// by_input and by_state are the gradients of the two sums that the gates are made of.
template <class T>
void step_back_row(RnnMode mode, int64_t size, const T* gates, const T* hidden_before, const T* extra, const T* extra_before, T* dh, T* dc,
                   T* by_input, T* by_state) {
  for (int64_t k = 0; k < size; ++k) {
    if (mode == RnnMode::lstm) {
      const T i = gates[k], f = gates[size + k], n = gates[2 * size + k], o = gates[3 * size + k], squashed = std::tanh(extra[k]);
      const T d = dc[k] + dh[k] * o * (1 - squashed * squashed);
      by_input[k] = d * n * i * (1 - i);
      by_input[size + k] = d * extra_before[k] * f * (1 - f);
      by_input[2 * size + k] = d * i * (1 - n * n);
      by_input[3 * size + k] = dh[k] * squashed * o * (1 - o);
      dc[k] = d * f;
      dh[k] = 0;
    } else if (mode == RnnMode::gru) {
      const T r = gates[k], z = gates[size + k], n = gates[2 * size + k], dn = dh[k] * (1 - z) * (1 - n * n);
      by_input[k] = by_state[k] = dn * extra[k] * r * (1 - r);
      by_input[size + k] = by_state[size + k] = dh[k] * (hidden_before[k] - n) * z * (1 - z);
      by_input[2 * size + k] = dn;
      by_state[2 * size + k] = dn * r;
      dh[k] *= z;
    } else {
      by_input[k] = dh[k] * (mode == RnnMode::tanh ? 1 - gates[k] * gates[k] : static_cast<T>(gates[k] > 0));
      dh[k] = 0;
    }
  }
  if (mode != RnnMode::gru) std::copy_n(by_input, (mode == RnnMode::lstm ? 4 : 1) * size, by_state);
}

template <class T>
void add_columns(const T* x, int64_t rows, int64_t columns, T* sums) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) sums[c] += x[r * columns + c];
}

// Gradients of the weights and biases of one layer and direction, and of its input (added up).
template <class T>
void reduce_cell(const Cell<T, const T>& c, const T* input, const T* hidden_start, const T* by_input, const T* by_state, T* parameter_grad,
                 T* input_grad) {
  const RnnGeometry& g = c.g;
  const int64_t size = g.state, rows = c.rows(), width = g.layer_input(c.layer), steps = g.time * g.batch;
  T* weight = parameter_grad + g.weights_before(c.layer, c.direction);
  T* state_weight = weight + rows * width;
  T* bias = parameter_grad + g.bias_offset(c.layer, c.direction);
  std::fill_n(bias, 2 * rows, T(0));
  if (steps == 0) {
    std::fill_n(weight, g.weight_size(c.layer), T(0));
    return;
  }
  gemm<T>({rows, width, steps}, {by_input, rows, true}, {input, width}, {weight, width});
  gemm<T>({steps, width, rows}, {by_input, rows}, {c.input_weight, width}, {input_grad, width}, {.old = 1});
  // hidden of step t - 1 (t + 1 backwards) meets the gates of step t; the initial state meets the first step.
  const int64_t first = c.time_of(0), shift = (g.time - 1) * g.batch;
  gemm<T>({rows, size, g.batch}, {by_state + first * g.batch * rows, rows, true}, {hidden_start, size}, {state_weight, size});
  const T* later = c.direction ? by_state : by_state + g.batch * rows;
  const T* before = c.direction ? c.hidden + g.batch * size : c.hidden;
  if (shift > 0) gemm<T>({rows, size, shift}, {later, rows, true}, {before, size}, {state_weight, size}, {.old = 1});
  add_columns(by_input, steps, rows, bias);
  add_columns(by_state, steps, rows, bias + rows);
}

// dh, dc: (batch, state), what flows into the final states; on return what flows out of the initial ones.
template <class T>
void run_cell_back(const Cell<T, const T>& c, const T* hidden_start, const T* cell_start, const T* head, T* dh, T* dc, T* by_input,
                   T* by_state) {
  const RnnGeometry& g = c.g;
  const int64_t size = g.state, rows = c.rows(), block = g.batch * size;
  for (int64_t step = g.time - 1; step >= 0; --step) {
    const int64_t t = c.time_of(step);
    const T* hidden_before = step ? c.hidden + c.time_of(step - 1) * block : hidden_start;
    const T* extra_before = g.mode != RnnMode::lstm ? nullptr : step ? c.extra + c.time_of(step - 1) * block : cell_start;
    T *step_input = by_input + t * g.batch * rows, *step_state = by_state + t * g.batch * rows;
    parallel_for(g.batch, kParallelGrain / (8 * rows) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        if (!c.is_active(t, n)) {
          std::fill_n(step_input + n * rows, rows, T(0));
          std::fill_n(step_state + n * rows, rows, T(0));
          continue;
        }
        const T* up = head + ((t * g.batch + n) * g.directions + c.direction) * size;
        for (int64_t i = 0; i < size; ++i) dh[n * size + i] += up[i];
        step_back_row(g.mode, size, c.gates + (t * g.batch + n) * rows, hidden_before + n * size, c.extra + t * block + n * size,
                      extra_before ? extra_before + n * size : nullptr, dh + n * size, dc + n * size, step_input + n * rows,
                      step_state + n * rows);
      }
    });
    gemm<T>({g.batch, size, rows}, {step_state, rows}, {c.state_weight, size}, {dh, size}, {.old = 1});
  }
}

// One layer and direction in the packed parameters: panels of both weights, the two biases, and one number that is not 0 where a state of
// zeros has no part in the sums. Each begins a line of the cache.
struct PackedCell {
  int64_t input_weight, state_weight, input_bias, state_bias, vanishes, end;
  PackedCell(const RnnGeometry& g, int64_t layer, int64_t direction) {
    const int64_t rows = g.gates() * g.state, state = packed_elements(g.state, rows);
    const auto whole = [&](int64_t l) { return (packed_elements(g.layer_input(l), rows) + state + 2 * rows + kLine) / kLine * kLine; };
    input_weight = direction * whole(layer);
    for (int64_t l = 0; l < layer; ++l) input_weight += g.directions * whole(l);
    state_weight = input_weight + packed_elements(g.layer_input(layer), rows);
    input_bias = state_weight + state;
    state_bias = input_bias + rows;
    vanishes = state_bias + rows;
    end = input_weight + whole(layer);
  }
};

// Whether adding the products of zeros and a row of weights to a sum is adding 0, bit for bit: they are all finite, and not all negative,
// for then a sum of -0 would stay one.
bool vanishes_at_zero(const float* weight, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, weight += columns) {
    const bool finite = std::all_of(weight, weight + columns, [](float w) { return std::isfinite(w); });
    if (!finite || std::all_of(weight, weight + columns, [](float w) { return std::signbit(w); })) return false;
  }
  return true;
}
bool is_zero(const float* x, int64_t n) {
  return std::all_of(x, x + n, [](float v) { return std::bit_cast<uint32_t>(v) == 0; });
}

constexpr int64_t kPredictedRows = 64;  // rows of gates that one product of the input fills: they stay in the second-level cache

// Sequences [first, first + count) of the batch: nothing that happens to them depends on the others.
struct Sequences {
  int64_t first, count;
};

// What the prediction of so many sequences, or fewer, needs beside its states, for one layer and direction at a time.
class PredictionMemory {
 public:
  PredictionMemory(const RnnGeometry& g, int64_t sequences)
      : steps_at_once_(std::max<int64_t>(1, kPredictedRows / std::max<int64_t>(sequences, 1))),
        from_state_(std::min(g.time, steps_at_once_) * sequences * g.gates() * g.state),
        input_(from_state_ + sequences * g.gates() * g.state),
        unused_(input_ + std::min(g.time, steps_at_once_) * sequences * std::max(g.input, g.directions * g.state)),
        elements_(unused_ + sequences * g.state) {}
  int64_t steps_at_once() const { return steps_at_once_; }
  int64_t elements() const { return elements_; }
  void place(float* memory) { memory_ = memory; }
  float* gates() const { return memory_; }
  float* from_state() const { return memory_ + from_state_; }
  float* input() const { return memory_ + input_; }
  float* unused() const { return memory_ + unused_; }

 private:
  int64_t steps_at_once_, from_state_, input_, unused_, elements_;
  float* memory_ = nullptr;
};

// States start as those before the first step and end as those after the last; columns of `out` are `width` apart.
void predict_cell(const RnnGeometry& g, int64_t layer, int64_t direction, Sequences own, const float* input, const float* packed,
                  float* hidden, float* cell, float* out, const PredictionMemory& memory) {
  const PackedCell at(g, layer, direction);
  const int64_t size = g.state, rows = g.gates() * size, inputs = g.layer_input(layer), width = g.directions * size;
  const bool apart = g.mode == RnnMode::gru;  // the state's part is not simply added to the input's
  float* from_state = apart ? memory.from_state() : nullptr;
  hidden += own.first * size;
  if (cell) cell += own.first * size;
  for (int64_t done = 0; done < g.time; done += memory.steps_at_once()) {
    const int64_t steps = std::min(memory.steps_at_once(), g.time - done), first = direction ? g.time - done - steps : done;
    const float* from = input + (first * g.batch + own.first) * inputs;
    if (own.count < g.batch) {
      for (int64_t s = 0; s < steps; ++s)
        std::copy_n(from + s * g.batch * inputs, own.count * inputs, memory.input() + s * own.count * inputs);
      from = memory.input();
    }
    gemm_packed({steps * own.count, rows, inputs}, {from, inputs}, packed + at.input_weight, false, {memory.gates(), rows},
                {.bias = packed + at.input_bias});
    for (int64_t s = 0; s < steps; ++s) {
      const int64_t t = direction ? first + steps - 1 - s : first + s;
      float *sums = memory.gates() + (t - first) * own.count * rows, *with_state = apart ? from_state : sums;
      if (done + s == 0 && packed[at.vanishes] != 0 && is_zero(hidden, own.count * size)) {
        if (apart) fill_rows(from_state, packed + at.state_bias, own.count, rows);
        for (int64_t i = 0; i < own.count * rows; ++i) with_state[i] += 0.0f;
      } else {
        gemm_packed({own.count, rows, size}, {hidden, size}, packed + at.state_weight, !apart, {with_state, rows},
                    {.bias = apart ? packed + at.state_bias : nullptr});
      }
      parallel_for(own.count, kParallelGrain / (8 * rows) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          float *h = hidden + n * size, *extra = (cell ? cell : memory.unused()) + n * size;
          step_row(g.mode, size, sums + n * rows, apart ? from_state + n * rows : nullptr, h, extra, h, extra);
          std::copy_n(h, size, out + (t * g.batch + own.first + n) * width + direction * size);
        }
      });
    }
  }
}

// How many threads take sequences of their own, and so never wait for each other. Fewer than 4 at a time would read weights more often
// than they multiply; then threads share every step instead.
int64_t groups_of(const RnnGeometry& g) { return std::clamp<int64_t>(g.batch / 4, 1, num_threads()); }

template <class T>
void multiply(T* x, const T* mask, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= mask[i];
}

}  // namespace

template <class T>
void rnn_forward(const RnnGeometry& g, const T* data, const T* parameters, RnnStates<const T> initial, T* out, RnnStates<T> final,
                 T* reserve) {
  const int64_t block = g.batch * g.state;
  const T* input = data;
  for (int64_t l = 0; l < g.layers; ++l) {
    for (int64_t d = 0; d < g.directions; ++d) {
      const Cell<T, T> cell(g, l, d, parameters, reserve);
      const int64_t at = (l * g.directions + d) * block;
      run_cell(cell, input, initial.hidden + at, initial.cell ? initial.cell + at : nullptr, final.hidden + at,
               final.cell ? final.cell + at : nullptr);
    }
    T* layer_out = Cell<T, T>(g, l, 0, parameters, reserve).layer_out;
    if (g.has_masks && l + 1 < g.layers) multiply(layer_out, reserve + g.mask_offset(l), g.time * block * g.directions);
    input = layer_out;
  }
  std::copy_n(input, g.time * block * g.directions, out);
}

template <class T>
void rnn_backward(const RnnGeometry& g, const T* data, const T* parameters, RnnStates<const T> initial, const T* reserve, const T* head,
                  RnnStates<const T> head_final, T* data_grad, T* parameter_grad, RnnStates<T> initial_grad) {
  const int64_t block = g.batch * g.state, steps = g.time * g.batch;
  const auto gate_elements = static_cast<size_t>(steps * g.gates() * g.state);
  std::vector<T> by_input(gate_elements), by_state(gate_elements), unused_cell(static_cast<size_t>(block));
  std::vector<T> layer_head(head, head + steps * g.directions * g.state), input_grad;
  for (int64_t l = g.layers - 1; l >= 0; --l) {
    const T* input = l ? Cell<T, const T>(g, l - 1, 0, parameters, reserve).layer_out : data;
    input_grad.assign(static_cast<size_t>(steps * g.layer_input(l)), T(0));
    for (int64_t d = 0; d < g.directions; ++d) {
      const Cell<T, const T> cell(g, l, d, parameters, reserve);
      const int64_t at = (l * g.directions + d) * block;
      T *dh = initial_grad.hidden + at, *dc = initial_grad.cell ? initial_grad.cell + at : unused_cell.data();
      if (head_final.hidden)
        std::copy_n(head_final.hidden + at, block, dh);
      else
        std::fill_n(dh, block, T(0));
      if (initial_grad.cell && head_final.cell)
        std::copy_n(head_final.cell + at, block, dc);
      else
        std::fill_n(dc, block, T(0));
      run_cell_back(cell, initial.hidden + at, initial.cell ? initial.cell + at : nullptr, layer_head.data(), dh, dc, by_input.data(),
                    by_state.data());
      reduce_cell(cell, input, initial.hidden + at, by_input.data(), by_state.data(), parameter_grad, input_grad.data());
    }
    layer_head = input_grad;
    if (g.has_masks && l > 0) multiply(layer_head.data(), reserve + g.mask_offset(l - 1), steps * g.directions * g.state);
  }
  std::copy(input_grad.begin(), input_grad.end(), data_grad);
}

int64_t packed_rnn_elements(const RnnGeometry& g) { return PackedCell(g, g.layers - 1, g.directions - 1).end; }

void pack_rnn_parameters(const RnnGeometry& g, const float* parameters, float* packed) {
  for (int64_t l = 0; l < g.layers; ++l)
    for (int64_t d = 0; d < g.directions; ++d) {
      const Cell<float, float> from(g, l, d, parameters, nullptr);
      const PackedCell to(g, l, d);
      const int64_t rows = from.rows(), inputs = g.layer_input(l);
      pack_factor(true, inputs, rows, from.input_weight, inputs, packed + to.input_weight);
      pack_factor(true, g.state, rows, from.state_weight, g.state, packed + to.state_weight);
      std::copy_n(from.input_bias, rows, packed + to.input_bias);
      std::copy_n(from.state_bias, rows, packed + to.state_bias);
      std::fill(packed + to.vanishes, packed + to.end, vanishes_at_zero(from.state_weight, rows, g.state) ? 1.0f : 0.0f);
      for (int64_t i = 0; i < rows && g.mode != RnnMode::gru; ++i) packed[to.input_bias + i] += from.state_bias[i];
    }
}

void rnn_predict(const RnnGeometry& g, const float* data, const float* packed, RnnStates<const float> initial, float* out,
                 RnnStates<float> final, const Scratch& scratch) {
  const int64_t block = g.batch * g.state, cells = g.layers * g.directions;
  std::copy_n(initial.hidden, cells * block, final.hidden);
  if (final.cell) std::copy_n(initial.cell, cells * block, final.cell);
  float* between[2] = {};  // layers write one and read the other; the last one writes `out`
  for (int64_t l = 0; l < std::min<int64_t>(g.layers - 1, 2); ++l) between[l] = floats(g.time * block * g.directions, scratch);
  const int64_t groups = groups_of(g);
  PredictionMemory memory(g, (g.batch + groups - 1) / groups);
  ScratchBuffers buffers(groups, memory.elements(), scratch);
  parallel_for(groups, 1, [&](int64_t begin, int64_t end) {
    buffers.use([&](float* own) {
      PredictionMemory placed = memory;
      placed.place(own);
      for (int64_t group = begin; group < end; ++group) {
        const int64_t first = g.batch * group / groups, last = g.batch * (group + 1) / groups;
        const float* input = data;
        for (int64_t l = 0; l < g.layers; ++l) {
          float* layer_out = l + 1 < g.layers ? between[l % 2] : out;
          for (int64_t d = 0; d < g.directions; ++d) {
            const int64_t at = (l * g.directions + d) * block;
            predict_cell(g, l, d, {first, last - first}, input, packed, final.hidden + at, final.cell ? final.cell + at : nullptr,
                         layer_out, placed);
          }
          input = layer_out;
        }
      }
    });
  });
}

#define INSTANTIATE(T)                                                                                                                   \
  template void rnn_forward(const RnnGeometry&, const T*, const T*, RnnStates<const T>, T*, RnnStates<T>, T*);                           \
  template void rnn_backward(const RnnGeometry&, const T*, const T*, RnnStates<const T>, const T*, const T*, RnnStates<const T>, T*, T*, \
                             RnnStates<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace gluino::kernels
