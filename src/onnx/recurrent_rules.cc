// RNN, GRU, LSTM. Where activations and options are the usual ones they are Gluino's own recurrent operator, else a loop over time.
#include <algorithm>

#include "base/format.h"
#include "gluino/control_flow.h"
#include "onnx/rules.h"

namespace gluino::onnx {
namespace {

struct Cell {
  enum class Kind : uint8_t { plain, gru, lstm } kind;
  int gates;
  const char* default_activations[3];
};
constexpr Cell kPlain{Cell::Kind::plain, 1, {"Tanh", "", ""}};
constexpr Cell kGru{Cell::Kind::gru, 3, {"Sigmoid", "Tanh", ""}};
constexpr Cell kLstm{Cell::Kind::lstm, 4, {"Sigmoid", "Tanh", "Tanh"}};

Tensor activate(const std::string& name, const Tensor& x, double alpha, double beta) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char ch) { return std::tolower(ch); });
  if (lower == "tanh") return tanh(x);
  if (lower == "sigmoid") return sigmoid(x);
  if (lower == "relu") return relu(x);
  if (lower == "softsign") return softsign(x);
  if (lower == "softplus") return softrelu(x);
  if (lower == "affine") return x * alpha + beta;
  if (lower == "leakyrelu") return leaky_relu(x, {.act_type = "leaky", .slope = alpha}).at(0);
  if (lower == "hardsigmoid") return hard_sigmoid(x, {.alpha = alpha, .beta = beta});
  if (lower == "scaledtanh") return tanh(x * beta) * alpha;
  if (lower == "thresholdedrelu") return where_broadcast(x > alpha, x, zeros_like(x));
  if (lower == "elu") return where_broadcast(x > 0, x, expm1(x) * alpha);
  raise<UserError>("activation '{}' is not known", name);
}
double default_alpha(const std::string& name) {
  if (name == "HardSigmoid") return 0.2;
  if (name == "LeakyRelu") return 0.01;
  return 1;
}

// All of one node, in the form (time, batch, ...).
struct Recurrence {
  Call& c;
  const Cell& cell;
  int64_t hidden;
  int directions;
  std::string direction;
  std::vector<std::string> activations;
  std::vector<double> alphas, betas;
  double bound;  // 0: none
  bool layout_batch_first, linear_before_reset, input_forget;

  Recurrence(Call& call, const Cell& of) : c(call), cell(of) {
    hidden = c.integer("hidden_size", c.in(2).extent(-1));
    direction = c.text("direction", "forward");
    directions = direction == "bidirectional" ? 2 : 1;
    activations = c.has_attribute("activations") ? c.attribute("activations").texts : std::vector<std::string>{};
    for (size_t i = activations.size(); i < static_cast<size_t>(directions) * per_direction(); ++i)
      activations.emplace_back(cell.default_activations[i % per_direction()]);
    alphas = c.numbers("activation_alpha");
    betas = c.numbers("activation_beta");
    bound = c.number("clip", 0);
    layout_batch_first = c.integer("layout", 0) != 0;
    linear_before_reset = c.integer("linear_before_reset", 0) != 0;
    input_forget = c.integer("input_forget", 0) != 0;
  }
  size_t per_direction() const { return cell.kind == Cell::Kind::plain ? 1 : cell.kind == Cell::Kind::gru ? 2 : 3; }

  Tensor function(int direction_number, size_t which, const Tensor& x) const {
    const size_t i = static_cast<size_t>(direction_number) * per_direction() + which;
    const std::string& name = activations.at(i);
    const Tensor bounded = bound > 0 ? clip(x, {.a_min = -bound, .a_max = bound}) : x;
    return activate(name, bounded, i < alphas.size() ? alphas[i] : default_alpha(name), i < betas.size() ? betas[i] : 0.5);
  }
  bool is_usual() const {
    for (size_t i = 0; i < activations.size(); ++i)
      if (activations[i] != cell.default_activations[i % per_direction()]) return false;
    return bound == 0 && !input_forget && !c.has(7) && (cell.kind != Cell::Kind::gru || linear_before_reset);
  }
};

Tensor part(const Tensor& t, int axis, int64_t i, int64_t n) {
  return slice_axis(t, {.axis = axis, .begin = i * n, .end = std::optional<int64_t>((i + 1) * n)});
}
Tensor of_direction(const Tensor& t, int d) { return squeeze(part(t, 0, d, 1), {.axis = Shape{0}}); }

// ONNX's order of the gates to that of Gluino's operator: iofc to ifgo, zrh to rzn.
Tensor reordered(const Tensor& t, Cell::Kind kind, int64_t hidden) {
  if (kind == Cell::Kind::plain) return t;
  const std::vector<int64_t> order = kind == Cell::Kind::lstm ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{1, 0, 2};
  Tensors gates;
  for (const int64_t g : order) gates.push_back(part(t, 0, g, hidden));
  return concat(gates, {.dim = 0});
}

Tensors run_fused(const Recurrence& r, const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& lengths) {
  const int64_t rows = r.cell.gates * r.hidden;
  Tensors weights, biases;
  for (int d = 0; d < r.directions; ++d) {
    weights.push_back(reordered(of_direction(r.c.in(1), d), r.cell.kind, r.hidden).reshape({-1}));
    weights.push_back(reordered(of_direction(r.c.in(2), d), r.cell.kind, r.hidden).reshape({-1}));
    if (!r.c.has(3)) {
      biases.push_back(zeros({2 * rows}, {.dtype = x.dtype()}));
      continue;
    }
    const Tensor both = of_direction(r.c.in(3), d);
    biases.push_back(reordered(part(both, 0, 0, rows), r.cell.kind, r.hidden));
    biases.push_back(reordered(part(both, 0, 1, rows), r.cell.kind, r.hidden));
  }
  weights.insert(weights.end(), biases.begin(), biases.end());
  const bool is_lstm = r.cell.kind == Cell::Kind::lstm;
  const std::string mode = is_lstm ? "lstm" : r.cell.kind == Cell::Kind::gru ? "gru" : "rnn_tanh";
  const RnnOptions options{.mode = mode,
                           .state_size = r.hidden,
                           .num_layers = 1,
                           .bidirectional = r.directions == 2,
                           .state_outputs = true,
                           .use_sequence_length = lengths.defined()};
  return rnn(x, concat(weights, {.dim = 0}), h0, is_lstm ? c0 : Tensor(), lengths, options);
}

struct States {
  Tensor h, c;
};

States step(const Recurrence& r, int d, const Tensor& gates_of_input, const States& before, const Tensor& w_hidden, const Tensor& b_hidden,
            const Tensor& peepholes) {
  const auto project = [&](const Tensor& h, const Tensor& weight, const Tensor& bias) {
    const Tensor y = dot(h, weight, {.transpose_b = true});
    return bias.defined() ? broadcast_add(y, bias) : y;
  };
  const int64_t n = r.hidden;
  const auto gate = [&](const Tensor& t, int64_t i) { return part(t, t.ndim() - 1, i, n); };
  switch (r.cell.kind) {
    case Cell::Kind::plain: return {r.function(d, 0, gates_of_input + project(before.h, w_hidden, b_hidden)), {}};
    case Cell::Kind::gru: {
      const auto weight = [&](int64_t i) { return part(w_hidden, 0, i, n); };
      const auto bias = [&](int64_t i) { return b_hidden.defined() ? part(b_hidden, 0, i, n) : Tensor(); };
      const Tensor z = r.function(d, 0, gate(gates_of_input, 0) + project(before.h, weight(0), bias(0)));
      const Tensor reset = r.function(d, 0, gate(gates_of_input, 1) + project(before.h, weight(1), bias(1)));
      const Tensor inner =
          r.linear_before_reset ? reset * project(before.h, weight(2), bias(2)) : project(reset * before.h, weight(2), bias(2));
      const Tensor fresh = r.function(d, 1, gate(gates_of_input, 2) + inner);
      return {(1.0 - z) * fresh + z * before.h, {}};
    }
    case Cell::Kind::lstm: break;
  }
  const Tensor all = gates_of_input + project(before.h, w_hidden, b_hidden);
  const auto peep = [&](int64_t i, const Tensor& cell_state) {
    return peepholes.defined() ? broadcast_mul(part(peepholes, 0, i, n), cell_state) : zeros_like(cell_state);
  };
  const Tensor i = r.function(d, 0, gate(all, 0) + peep(0, before.c));
  const Tensor f = r.input_forget ? 1.0 - i : r.function(d, 0, gate(all, 2) + peep(2, before.c));
  const Tensor fresh = r.function(d, 1, gate(all, 3));
  const Tensor now = f * before.c + i * fresh;
  const Tensor o = r.function(d, 0, gate(all, 1) + peep(1, now));
  return {o * r.function(d, 2, now), now};
}

// One direction over time: (outputs, h, c).
Tensors run_direction(const Recurrence& r, int d, const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& lengths) {
  const bool backwards = r.direction == "reverse" || d == 1, is_lstm = r.cell.kind == Cell::Kind::lstm;
  const int64_t rows = r.cell.gates * r.hidden;
  const auto turned = [&](const Tensor& t) {
    if (!backwards) return t;
    return lengths.defined() ? sequence_reverse(t, lengths, {.use_sequence_length = true}) : flip(t, {.axis = Shape{0}});
  };
  const Tensor both = r.c.has(3) ? of_direction(r.c.in(3), d) : Tensor();
  const Tensor b_input = both.defined() ? part(both, 0, 0, rows) : Tensor(), b_hidden = both.defined() ? part(both, 0, 1, rows) : Tensor();
  const Tensor w_hidden = of_direction(r.c.in(2), d), peepholes = r.c.has(7) ? of_direction(r.c.in(7), d) : Tensor();
  Tensor projected = dot(turned(x), of_direction(r.c.in(1), d), {.transpose_b = true});
  if (b_input.defined()) projected = broadcast_add(projected, b_input);
  Tensors data{projected}, initial{of_direction(h0, d)};
  if (is_lstm) initial.push_back(of_direction(c0, d));
  // Past a sequence's end the states stay, and the output is 0.
  if (lengths.defined()) {
    const int64_t steps = x.extent(0);
    const Tensor time = arange(static_cast<double>(steps), {.dtype = DType::float32}).reshape({steps, 1, 1});
    data.push_back(broadcast_lesser(time, lengths.astype(DType::float32).reshape({1, -1, 1})).astype(x.dtype()));
  }
  const ForeachBody body = [&](const Tensors& slices, const Tensors& states) -> TensorsPair {
    const States before{states[0], is_lstm ? states[1] : Tensor()};
    States after = step(r, d, slices[0], before, w_hidden, b_hidden, peepholes);
    Tensor output = after.h;
    if (lengths.defined()) {
      const auto kept = [&](const Tensor& now, const Tensor& old) { return where_broadcast(slices[1], now, old); };
      output = broadcast_mul(after.h, slices[1]);
      after.h = kept(after.h, before.h);
      if (is_lstm) after.c = kept(after.c, before.c);
    }
    Tensors next{after.h};
    if (is_lstm) next.push_back(after.c);
    return {{output}, next};
  };
  auto [outputs, states] = foreach (body, data, initial);
  Tensors result{turned(outputs.at(0))};
  result.insert(result.end(), states.begin(), states.end());
  return result;
}

Tensors recurrent(Call& c, const Cell& cell) {
  const Recurrence r(c, cell);
  const bool is_lstm = cell.kind == Cell::Kind::lstm;
  const auto exchanged = [&](const Tensor& t) { return r.layout_batch_first ? swapaxes(t, {.dim1 = 0, .dim2 = 1}) : t; };
  const Tensor x = exchanged(c.in(0));
  const Tensor lengths = c.has(4) ? c.in(4).astype(DType::float32) : Tensor();
  const Tensor nothing = zeros({r.directions, x.extent(1), r.hidden}, {.dtype = x.dtype()});
  const Tensor h0 = c.has(5) ? exchanged(c.in(5)) : nothing, c0 = is_lstm && c.has(6) ? exchanged(c.in(6)) : nothing;
  Tensor y, h, cell_state;
  if (r.is_usual() && r.direction != "reverse") {
    const Tensors all = run_fused(r, x, h0, c0, lengths);
    // (time, batch, directions * hidden) to (time, directions, batch, hidden)
    y = r.directions == 1 ? expand_dims(all.at(0), {.axis = 1})
                          : transpose(all.at(0).reshape({0, 0, r.directions, -1}), {.axes = {0, 2, 1, 3}});
    h = all.at(1);
    if (is_lstm) cell_state = all.at(2);
  } else {
    Tensors ys, hs, cs;
    for (int d = 0; d < r.directions; ++d) {
      const Tensors one = run_direction(r, d, x, h0, c0, lengths);
      ys.push_back(one[0]);
      hs.push_back(one[1]);
      if (is_lstm) cs.push_back(one[2]);
    }
    y = stack(ys, {.axis = 1});
    h = stack(hs, {.axis = 0});
    if (is_lstm) cell_state = stack(cs, {.axis = 0});
  }
  if (r.layout_batch_first) y = transpose(y, {.axes = {2, 0, 1, 3}});
  Tensors outputs{y, exchanged(h)};
  if (is_lstm) outputs.push_back(exchanged(cell_state));
  return outputs;
}

}  // namespace

void add_recurrent_rules(Rules& rules) {
  rules.add("RNN", [](Call& c) { return recurrent(c, kPlain); });
  rules.add("GRU", [](Call& c) { return recurrent(c, kGru); });
  rules.add("LSTM", [](Call& c) { return recurrent(c, kLstm); });
}

}  // namespace gluino::onnx
