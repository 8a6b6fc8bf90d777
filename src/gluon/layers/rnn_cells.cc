// Cells: one step of a recurrent network each, and unroll(), which runs them along a sequence.
#include "base/format.h"
#include "gluino/rnn.h"
#include "gluon/layers/layers.h"
#include "gluon/layers/rnn.h"

namespace gluino::nn {
namespace {

Tensors split_gates(const Tensor& x, int gates) { return split(x, {.num_outputs = gates, .axis = 1}); }
Tensors states_of(const Tensors& inputs) { return Tensors(inputs.begin() + 1, inputs.end()); }
Tensors joined(Tensor first, const Tensors& rest) {
  Tensors all{std::move(first)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}
Tensor reversed(const Tensor& x, const Tensor& lengths) {  // along axis 0
  if (!lengths.defined()) return reverse(x, {.axis = Shape{0}});
  return sequence_reverse(x, lengths, {.use_sequence_length = true});
}
Tensor time_first(const Tensor& x, const std::string& layout) {
  if (layout != "NTC" && layout != "TNC") raise<UserError>("unroll: layout is '{}'; it must be NTC or TNC", layout);
  return layout == "TNC" ? x : swap_axis(x, {.dim1 = 0, .dim2 = 1});
}

}  // namespace

// ---- steps along a sequence

Tensors RecurrentCell::begin_state(const Tensor& x) const {
  Tensors states;
  for (const int64_t extent : state_extents()) states.push_back(broadcast_axis(zero_column(x, 0), {.axis = {1}, .size = {extent}}));
  return states;
}

Unrolled RecurrentCell::unroll(int64_t length, const Tensor& inputs, UnrollOptions options) {
  if (length < 1) raise<UserError>("unroll: length is {}, at least 1 is needed", length);
  const Tensor sequence = time_first(inputs, options.layout);
  const Tensors steps =
      length == 1 ? Tensors{sequence.reshape({-3, -2})} : split(sequence, {.num_outputs = length, .axis = 0, .squeeze_axis = true});
  Tensors states = options.begin_state.empty() ? begin_state(steps[0]) : options.begin_state, outputs;
  std::vector<Tensors> history(states.size());
  for (const Tensor& x : steps) {
    Tensors result = (*this)(joined(x, states));
    outputs.push_back(result[0]);
    states = states_of(result);
    for (size_t s = 0; s < states.size(); ++s) history[s].push_back(states[s]);
  }
  Tensor all = stack(outputs);
  if (options.valid_length.defined()) {
    all = sequence_mask(all, options.valid_length, {.use_sequence_length = true});
    for (size_t s = 0; s < states.size(); ++s)
      states[s] = sequence_last(stack(history[s]), options.valid_length, {.use_sequence_length = true});
  }
  return {time_first(all, options.layout), states};
}

// ---- cells with gates

GatedCell::GatedCell(int64_t gates, int64_t hidden_size, CellOptions o)
    : i2h_weight(add_parameter("i2h_weight", {.shape = {gates * hidden_size, o.input_size}, .init = o.i2h_weight_initializer})),
      h2h_weight(add_parameter("h2h_weight", {.shape = {gates * hidden_size, hidden_size}, .init = o.h2h_weight_initializer})),
      i2h_bias(add_parameter("i2h_bias", {.shape = {gates * hidden_size}, .init = o.i2h_bias_initializer})),
      h2h_bias(add_parameter("h2h_bias", {.shape = {gates * hidden_size}, .init = o.h2h_bias_initializer})),
      gates_(gates),
      hidden_size_(hidden_size) {
  if (hidden_size < 1) raise<UserError>("a recurrent cell's hidden_size is {}, at least 1 is needed", hidden_size);
}
void GatedCell::check_inputs(const Tensors& inputs) const {
  if (const size_t needed = 1 + state_extents().size(); inputs.size() != needed)
    raise<UserError>("{}: {} inputs were given, {} are needed: x and the states; begin_state(x) gives the first ones", kind(),
                     inputs.size(), needed);
}
Tensor GatedCell::from_input(const Tensor& x) {
  complete_if_known(has_known_shape(x), i2h_weight, [&] {
    if (peek_shape(x).ndim() != 2) raise<ShapeError>("{}: the input has shape {}, but (batch, channels) is needed", kind(), peek_shape(x));
    return Shape{gates_ * hidden_size_, peek_shape(x)[1]};
  });
  const Tensor w = i2h_weight->data(), b = i2h_bias->data();
  return fully_connected(x, w, b, {.num_hidden = gates_ * hidden_size_});
}
Tensor GatedCell::from_state(const Tensor& h) const {
  const Tensor w = h2h_weight->data(), b = h2h_bias->data();
  return fully_connected(h, w, b, {.num_hidden = gates_ * hidden_size_});
}
std::string GatedCell::describe() const {
  const int64_t in = i2h_weight->shape()[1];
  return fmt::format("{} -> {}", in > 0 ? std::to_string(in) : "None", hidden_size_);
}

RNNCell::RNNCell(int64_t hidden_size, CellOptions options, std::string activation)
    : GatedCell(1, hidden_size, std::move(options)), activation_(std::move(activation)) {
  check_choice("RNNCell: activation", activation_, "Activation", "act_type");
}
Tensors RNNCell::forward(const Tensors& inputs) {
  check_inputs(inputs);
  const Tensor h = activate(from_input(inputs[0]) + from_state(inputs[1]), activation_);
  return {h, h};
}
Tensors LSTMCell::forward(const Tensors& inputs) {
  check_inputs(inputs);
  const Tensors gate = split_gates(from_input(inputs[0]) + from_state(inputs[1]), 4);  // in, forget, candidate, out
  const Tensor c = sigmoid(gate[1]) * inputs[2] + sigmoid(gate[0]) * tanh(gate[2]);
  const Tensor h = sigmoid(gate[3]) * tanh(c);
  return {h, h, c};
}
Tensors GRUCell::forward(const Tensors& inputs) {
  check_inputs(inputs);
  const Tensors x = split_gates(from_input(inputs[0]), 3), s = split_gates(from_state(inputs[1]), 3);  // reset, update, candidate
  const Tensor update = sigmoid(x[1] + s[1]), candidate = tanh(x[2] + sigmoid(x[0] + s[0]) * s[2]);
  const Tensor h = (1.0 - update) * candidate + update * inputs[1];
  return {h, h};
}

// ---- cells made of cells

SequentialRNNCell::SequentialRNNCell(const std::vector<CellPtr>& cells) {
  for (const CellPtr& c : cells) add(c);
}
void SequentialRNNCell::add(const CellPtr& cell) {
  own_child(std::to_string(cells_.size()), cell);
  cells_.push_back(cell);
}
std::vector<int64_t> SequentialRNNCell::state_extents() const {
  std::vector<int64_t> all;
  for (const CellPtr& c : cells_)
    for (const int64_t e : c->state_extents()) all.push_back(e);
  return all;
}
Tensors SequentialRNNCell::forward(const Tensors& inputs) {
  Tensor x = inputs.at(0);
  Tensors states;
  auto next = inputs.begin() + 1;
  for (const CellPtr& c : cells_) {
    const auto end = next + static_cast<ptrdiff_t>(c->state_extents().size());
    if (end > inputs.end())
      raise<UserError>("SequentialRNNCell: {} states were given, {} are needed", inputs.size() - 1, state_extents().size());
    const Tensors result = (*c)(joined(x, Tensors(next, end)));
    x = result[0];
    states.insert(states.end(), result.begin() + 1, result.end());
    next = end;
  }
  return joined(x, states);
}

BidirectionalCell::BidirectionalCell(CellPtr forward_cell, CellPtr backward_cell)
    : left_(std::move(forward_cell)), right_(std::move(backward_cell)) {
  own_child("l_cell", left_);
  own_child("r_cell", right_);
}
Tensors BidirectionalCell::forward(const Tensors&) {
  throw UserError("BidirectionalCell: it needs the whole sequence and cannot be stepped; call unroll()");
}
std::vector<int64_t> BidirectionalCell::state_extents() const {
  std::vector<int64_t> all = left_->state_extents();
  for (const int64_t e : right_->state_extents()) all.push_back(e);
  return all;
}
Unrolled BidirectionalCell::unroll(int64_t length, const Tensor& inputs, UnrollOptions options) {
  const Tensor forwards = time_first(inputs, options.layout);
  const auto split = static_cast<ptrdiff_t>(left_->state_extents().size());
  UnrollOptions left{.layout = "TNC", .valid_length = options.valid_length}, right = left;
  if (!options.begin_state.empty()) {
    left.begin_state.assign(options.begin_state.begin(), options.begin_state.begin() + split);
    right.begin_state.assign(options.begin_state.begin() + split, options.begin_state.end());
  }
  Unrolled a = left_->unroll(length, forwards, left), b = right_->unroll(length, reversed(forwards, options.valid_length), right);
  const Tensor both = concat({a.outputs, reversed(b.outputs, options.valid_length)}, {.dim = 2});
  a.states.insert(a.states.end(), b.states.begin(), b.states.end());
  return {time_first(both, options.layout), a.states};
}

DropoutCell::DropoutCell(double rate, Shape axes) : dropout_(make_child<Dropout>("dropout", rate, std::move(axes))) {}
Tensors DropoutCell::forward(const Tensors& inputs) { return joined((*dropout_)(inputs.at(0)), states_of(inputs)); }

ResidualCell::ResidualCell(CellPtr base) : base_(std::move(base)) { own_child("base_cell", base_); }
Tensors ResidualCell::forward(const Tensors& inputs) {
  Tensors result = (*base_)(inputs);
  result[0] = result[0] + inputs[0];
  return result;
}

ZoneoutCell::ZoneoutCell(CellPtr base, double zoneout_outputs, double zoneout_states)
    : base_(std::move(base)), zoneout_outputs_(zoneout_outputs), zoneout_states_(zoneout_states) {
  check_rate("ZoneoutCell: zoneout_outputs", zoneout_outputs);
  check_rate("ZoneoutCell: zoneout_states", zoneout_states);
  own_child("base_cell", base_);
}
std::vector<int64_t> ZoneoutCell::state_extents() const {
  std::vector<int64_t> all = base_->state_extents();
  if (zoneout_outputs_ > 0) all.push_back(all.at(0));  // the previous output
  return all;
}
Tensors ZoneoutCell::forward(const Tensors& inputs) {
  Tensors base_inputs = inputs;
  if (zoneout_outputs_ > 0) base_inputs.pop_back();
  Tensors result = (*base_)(base_inputs);
  // Dropout of ones is 0 where the old value stays.
  auto zoned = [](const Tensor& now, const Tensor& before, double rate) {
    if (rate <= 0) return now;
    return where(dropout(ones_like(now), {.p = rate}), now, before);
  };
  for (size_t s = 1; s < result.size(); ++s) result[s] = zoned(result[s], inputs[s], zoneout_states_);
  if (zoneout_outputs_ > 0) {
    result[0] = zoned(result[0], inputs.back(), zoneout_outputs_);
    result.push_back(result[0]);
  }
  return result;
}

// ---- samples

// A cell along a sequence (batch, time, channels), as a network uses it.
class UnrolledCell : public HybridBlock {
 public:
  UnrolledCell(CellPtr cell, int64_t length) : cell_(std::move(cell)), length_(length) { own_child("cell", cell_); }
  Tensors forward(const Tensors& inputs) override {
    const Unrolled u = cell_->unroll(length_, inputs[0], {.valid_length = inputs.size() > 1 ? inputs[1] : Tensor()});
    return joined(u.outputs, u.states);
  }

 private:
  CellPtr cell_;
  int64_t length_;
};
static catalogue::BlockSample unrolled(std::vector<SampleInput> inputs, std::function<CellPtr()> cell) {
  return {std::move(inputs), [=] { return std::make_shared<UnrolledCell>(cell(), 3); }};
}
static CellPtr lstm_cell() { return std::make_shared<LSTMCell>(4); }
static CellPtr gru_cell() { return std::make_shared<GRUCell>(4); }
static CellPtr bidirectional_cell() { return std::make_shared<BidirectionalCell>(lstm_cell(), gru_cell()); }

static const LayerSamples samples{
    sample<RNNCell>({{2, 3}, {2, 4}}, 4),
    sample<LSTMCell>({{2, 3}, {2, 4}, {2, 4}}, 4),
    sample<GRUCell>({{2, 3}, {2, 4}}, 4),
    {{{2, 3}, {2, 4}, {2, 4}, {2, 4}},
     [] {
       return std::make_shared<SequentialRNNCell>(std::vector<CellPtr>{lstm_cell(), gru_cell()});
     }},
    {{{2, 4}, {2, 4}}, [] { return std::make_shared<ResidualCell>(gru_cell()); }},
    {{{2, 3}, {2, 4}, {2, 4}}, [] { return std::make_shared<ZoneoutCell>(gru_cell(), 0.3, 0.2); }},
    sample<DropoutCell>({{2, 3}}, 0.5),
    unrolled({{2, 3, 3}}, lstm_cell),
    unrolled({{2, 3, 3}, SampleInput({2}, 1, 4, true)}, gru_cell),
    unrolled({{2, 3, 3}}, bidirectional_cell),
    unrolled({{2, 3, 3}, SampleInput({2}, 1, 4, true)}, bidirectional_cell),
};

}  // namespace gluino::nn
