// Recurrent layers (a whole sequence in one operator) and cells (one step, unrolled by the caller or by unroll()).
#pragma once
#include "gluino/nn.h"

namespace gluino::nn {

// ---- layers

struct RecurrentOptions {
  int64_t num_layers = 1;
  std::string layout = "TNC";  // or "NTC": where time and batch stand
  double dropout = 0;          // between the layers
  bool bidirectional = false;
  init::InitializerPtr i2h_weight_initializer = {}, h2h_weight_initializer = {};
  init::InitializerPtr i2h_bias_initializer = init::zero(), h2h_bias_initializer = init::zero();
  int64_t input_size = 0;  // 0: from the first input
  bool use_sequence_length = false;
};

// layer(x) gives the outputs of the last layer; layer({x, states...}) also the final states. With use_sequence_length the
// last input holds the length of each sequence. States: (num_layers * directions, batch, hidden_size).
class RecurrentLayer : public HybridBlock {
 public:
  RecurrentLayer(std::string mode, int64_t gates, int64_t hidden_size, RecurrentOptions options);
  Tensor forward(const Tensor& x) override { return forward(Tensors{x}).at(0); }
  Tensors forward(const Tensors& inputs) override;
  // Zeros; `x` tells the batch size.
  Tensors begin_state(const Tensor& x) const;
  std::string describe() const override;

 private:
  int num_states() const { return mode_ == "lstm" ? 2 : 1; }
  Tensor packed_parameters(const Tensor& x);
  std::string mode_;
  int64_t gates_, hidden_size_;
  RecurrentOptions options_;
  std::vector<ParameterPtr> weights_, biases_;  // by layer, direction, and i2h or h2h
};
class RNN : public RecurrentLayer {
 public:
  explicit RNN(int64_t hidden_size, RecurrentOptions options = {}, const std::string& activation = "relu");
};
class LSTM : public RecurrentLayer {
 public:
  explicit LSTM(int64_t hidden_size, RecurrentOptions options = {}) : RecurrentLayer("lstm", 4, hidden_size, std::move(options)) {}
};
class GRU : public RecurrentLayer {
 public:
  explicit GRU(int64_t hidden_size, RecurrentOptions options = {}) : RecurrentLayer("gru", 3, hidden_size, std::move(options)) {}
};

// ---- cells

struct UnrollOptions {
  Tensors begin_state = {};    // zeros when empty
  std::string layout = "NTC";  // or "TNC"
  Tensor valid_length = {};    // per sequence; steps beyond give zeros and leave the state alone
};
struct Unrolled {
  Tensor outputs;  // in the layout of the input
  Tensors states;
};

// One step: cell({x, states...}) gives {output, new states...}; x is (batch, channels), states are (batch, extent).
class RecurrentCell : public HybridBlock {
 public:
  virtual std::vector<int64_t> state_extents() const = 0;
  Tensors begin_state(const Tensor& x) const;  // zeros; x is an input of one step
  virtual Unrolled unroll(int64_t length, const Tensor& inputs, UnrollOptions options = {});
};

struct CellOptions {
  init::InitializerPtr i2h_weight_initializer = {}, h2h_weight_initializer = {};
  init::InitializerPtr i2h_bias_initializer = init::zero(), h2h_bias_initializer = init::zero();
  int64_t input_size = 0;
};
// A cell with two dense maps: input to gates and state to gates.
class GatedCell : public RecurrentCell {
 public:
  GatedCell(int64_t gates, int64_t hidden_size, CellOptions options);
  std::string describe() const override;
  const ParameterPtr i2h_weight, h2h_weight, i2h_bias, h2h_bias;

 protected:
  void check_inputs(const Tensors& inputs) const;
  Tensor from_input(const Tensor& x);
  Tensor from_state(const Tensor& h) const;
  int64_t gates_, hidden_size_;
};
class RNNCell : public GatedCell {
 public:
  explicit RNNCell(int64_t hidden_size, CellOptions options = {}, std::string activation = "tanh");
  Tensors forward(const Tensors& inputs) override;
  std::vector<int64_t> state_extents() const override { return {hidden_size_}; }

 private:
  std::string activation_;
};
class LSTMCell : public GatedCell {
 public:
  explicit LSTMCell(int64_t hidden_size, CellOptions options = {}) : GatedCell(4, hidden_size, std::move(options)) {}
  Tensors forward(const Tensors& inputs) override;
  std::vector<int64_t> state_extents() const override { return {hidden_size_, hidden_size_}; }
};
class GRUCell : public GatedCell {
 public:
  explicit GRUCell(int64_t hidden_size, CellOptions options = {}) : GatedCell(3, hidden_size, std::move(options)) {}
  Tensors forward(const Tensors& inputs) override;
  std::vector<int64_t> state_extents() const override { return {hidden_size_}; }
};

using CellPtr = std::shared_ptr<RecurrentCell>;

// Cells one on top of the other.
class SequentialRNNCell : public RecurrentCell {
 public:
  explicit SequentialRNNCell(const std::vector<CellPtr>& cells = {});
  void add(const CellPtr& cell);
  Tensors forward(const Tensors& inputs) override;
  std::vector<int64_t> state_extents() const override;

 private:
  std::vector<CellPtr> cells_;
};

// One cell forwards in time, one backwards; outputs are joined. Works on whole sequences only: unroll().
class BidirectionalCell : public RecurrentCell {
 public:
  BidirectionalCell(CellPtr forward_cell, CellPtr backward_cell);
  Tensors forward(const Tensors& inputs) override;  // raises UserError
  std::vector<int64_t> state_extents() const override;
  Unrolled unroll(int64_t length, const Tensor& inputs, UnrollOptions options = {}) override;

 private:
  CellPtr left_, right_;
};

// Has no state: drops inputs.
class DropoutCell : public RecurrentCell {
 public:
  explicit DropoutCell(double rate, Shape axes = {});
  Tensors forward(const Tensors& inputs) override;
  std::vector<int64_t> state_extents() const override { return {}; }

 private:
  std::shared_ptr<Dropout> dropout_;
};

// Adds the input to the output of a cell.
class ResidualCell : public RecurrentCell {
 public:
  explicit ResidualCell(CellPtr base);
  Tensors forward(const Tensors& inputs) override;
  std::vector<int64_t> state_extents() const override { return base_->state_extents(); }

 private:
  CellPtr base_;
};

// Keeps, at random, elements of the step before. With zoneout_outputs the previous output is one more state.
class ZoneoutCell : public RecurrentCell {
 public:
  explicit ZoneoutCell(CellPtr base, double zoneout_outputs = 0, double zoneout_states = 0);
  Tensors forward(const Tensors& inputs) override;
  std::vector<int64_t> state_extents() const override;

 private:
  CellPtr base_;
  double zoneout_outputs_, zoneout_states_;
};

}  // namespace gluino::nn
