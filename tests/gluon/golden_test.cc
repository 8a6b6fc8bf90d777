// Layers and losses against vectors computed by MXNet 1.9.1: options written as a C++ author writes them, forward and gradients.
#include <map>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

using Make = std::function<std::shared_ptr<HybridBlock>()>;
template <class B, class... A>
Make make(A... arguments) {
  return [=] { return std::make_shared<B>(arguments...); };
}

struct Case {
  std::string name;
  Make layer;
  bool training = true;
};
// A cell along the whole sequence must give what the fused layer gives.
class Unrolled : public HybridBlock {
 public:
  explicit Unrolled(nn::CellPtr cell) : cell_(std::move(cell)) { own_child("cell", cell_); }
  Tensors forward(const Tensors& in) override {
    const nn::Unrolled u = cell_->unroll(in[0].extent(0), in[0], {.begin_state = {in[1].reshape({-3, -2})}, .layout = "TNC"});
    return {u.outputs, expand_dims(u.states[0], {.axis = 0})};
  }

 private:
  nn::CellPtr cell_;
};

const std::vector<Case> kCases{
    {"Activation_0", make<nn::Activation>("softrelu")},
    {"Activation_1", make<nn::Activation>("relu")},
    {"Activation_2", make<nn::Activation>("sigmoid")},
    {"LeakyReLU_0", make<nn::LeakyReLU>(0.3)},
    {"LeakyReLU_1", make<nn::ELU>(0.3)},
    {"LeakyReLU_3", make<nn::GELU>()},
    {"FullyConnected_1", make<nn::Dense>(5, nn::DenseOptions{.flatten = false})},
    {"Convolution_1", make<nn::Conv2D>(4, nn::Extents{3, 2}, nn::ConvOptions{.strides = {2, 1}, .padding = 1, .dilation = {1, 2}})},
    {"Convolution_4", make<nn::Conv1D>(4, 3, nn::ConvOptions{.strides = 2})},
    {"Convolution_5", make<nn::Conv3D>(3, nn::Extents{2, 3, 3}, nn::ConvOptions{.padding = {0, 1, 1}})},
    {"Deconvolution_0",
     make<nn::Conv2DTranspose>(4, 3, nn::ConvTransposeOptions{.strides = 2, .padding = 1, .output_padding = 1, .use_bias = false})},
    {"Deconvolution_1",
     make<nn::Conv2DTranspose>(4, 4, nn::ConvTransposeOptions{.strides = 2, .padding = 1, .groups = 4, .use_bias = false})},
    {"Deconvolution_2", make<nn::Conv2DTranspose>(3, 2, nn::ConvTransposeOptions{.strides = 2})},
    {"Pooling_0", make<nn::MaxPool2D>(3, nn::PoolOptions{.strides = 2, .padding = 1})},
    {"Pooling_1", make<nn::AvgPool2D>(3, nn::PoolOptions{.strides = 2, .padding = 1})},
    {"Pooling_3", make<nn::MaxPool2D>(3, nn::PoolOptions{.strides = 2, .padding = 1, .ceil_mode = true})},
    {"Pooling_4", make<nn::AvgPool2D>(3, nn::PoolOptions{.strides = 2, .padding = 1, .ceil_mode = true})},
    {"Pooling_7", make<nn::GlobalAvgPool2D>()},
    {"Pooling_8", make<nn::GlobalMaxPool2D>()},
    {"Pooling_11", make<nn::MaxPool3D>()},
    {"BatchNorm_0", make<nn::BatchNorm>()},
    {"BatchNorm_2", make<nn::BatchNorm>(nn::BatchNormOptions{.epsilon = 1e-3, .use_global_stats = true})},
    {"BatchNorm_3", make<nn::BatchNorm>(nn::BatchNormOptions{.epsilon = 1e-3}), false},
    {"LayerNorm_0", make<nn::LayerNorm>()},
    {"LayerNorm_1", make<nn::LayerNorm>(nn::LayerNormOptions{.axis = 1, .epsilon = 1e-3})},
    {"Dropout_0", make<nn::Dropout>(0.5), false},
    {"RNN_1", make<nn::LSTM>(5, nn::RecurrentOptions{.num_layers = 2, .bidirectional = true})},
    {"RNN_2", make<nn::GRU>(5)},
    {"RNN_2", [] { return std::make_shared<Unrolled>(std::make_shared<nn::GRUCell>(5)); }},
    {"RNN_4", make<nn::RNN>(5, nn::RecurrentOptions{}, "tanh")},
    {"RNN_4", [] { return std::make_shared<Unrolled>(std::make_shared<nn::RNNCell>(5)); }},
    {"RNN_5", make<nn::RNN>(5, nn::RecurrentOptions{.num_layers = 2, .bidirectional = true}, "tanh")},
    {"RNN_7", make<nn::RNN>(5, nn::RecurrentOptions{.num_layers = 2, .bidirectional = true})},
    {"ctc_loss_0", make<loss::CTCLoss>(loss::CTCOptions{.layout = "TNC"})},
};

// The packed vector of a recurrent operator: all weights, then all biases.
std::vector<ParameterPtr> in_packed_order(const HybridBlock& block) {
  std::vector<ParameterPtr> order;
  for (const bool weights : {true, false})
    for (const auto& [name, p] : block.collect_params())
      if (name.ends_with("weight") == weights) order.push_back(p);
  return order;
}

class GoldenLayer : public ::testing::TestWithParam<Case> {};

TEST_P(GoldenLayer, ForwardAndGradients) {
  if (!shared_folder()) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  const NamedTensors file = load_tensors(*shared_folder() + "/golden/ops/" + GetParam().name + ".npz");
  auto get = [&](const std::string& name, size_t i) {
    const Tensor* t = find_tensor(file, name + std::to_string(i));
    return t ? *t : Tensor();
  };
  const bool is_recurrent = GetParam().name.starts_with("RNN");
  for (const bool hybridized : {false, true}) {
    const auto layer = GetParam().layer();
    layer->initialize();
    Tensors inputs{get("in", 0).copy()};
    if (is_recurrent || dynamic_cast<loss::Loss*>(layer.get()))
      for (size_t i = is_recurrent ? 2 : 1; get("in", i).defined(); ++i) inputs.push_back(get("in", i).copy());
    std::vector<Shape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape());
    layer->build(shapes);
    int64_t at = 0;
    size_t number = 1;
    for (const ParameterPtr& p : is_recurrent ? in_packed_order(*layer) : [&] {
           std::vector<ParameterPtr> all;
           for (const auto& [name, q] : layer->collect_params()) all.push_back(q);
           return all;
         }()) {
      p->set_data(is_recurrent ? Tensor(get("in", 1)[Slice(at, at + p->shape().elements())]).reshape(p->shape()) : get("in", number++));
      at += p->shape().elements();
    }
    if (hybridized) layer->hybridize();
    inputs[0].attach_grad();
    Tensors outputs, heads;
    {
      const auto record = autograd::record(GetParam().training);
      outputs = (*layer)(inputs);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(close(outputs[i], get("out", i), 1e-4, 1e-5)) << "output " << i;
      heads.push_back(get("head", i));
    }
    autograd::backward(outputs, heads, {.train_mode = GetParam().training});
    EXPECT_TRUE(close(inputs[0].grad(), get("grad", 0), 1e-3, 1e-4)) << "gradient of the input";
    if (is_recurrent) {
      Tensors parts;
      for (const ParameterPtr& p : in_packed_order(*layer)) parts.push_back(p->grad().reshape({-1}));
      EXPECT_TRUE(close(concat(parts, {.dim = 0}), get("grad", 1), 1e-3, 1e-4)) << "gradient of the parameters";
      continue;
    }
    number = 1;
    for (const auto& [name, p] : layer->collect_params()) {
      if (p->grad_req() != GradReq::null) {
        EXPECT_TRUE(close(p->grad(), get("grad", number), 1e-3, 1e-4)) << "gradient of " << name;
      }
      ++number;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(MXNet, GoldenLayer, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name + "_" + std::to_string(info.index); });

// ---- whole networks, written in C++, with the files that MXNet wrote

struct LstmNet : nn::HybridBlock {
  nn::Embedding embedding{20, 8};
  nn::LSTM lstm{16, {.num_layers = 2}};
  nn::Dense output{20, {.flatten = false}};
  LstmNet() { GLUINO_CHILDREN(embedding, lstm, output); }
  Tensor forward(const Tensor& x) override { return output(lstm(embedding(x))); }
};

TEST(GoldenNetworks, AnLstmWithAFileOfMXNet) {
  if (!shared_folder()) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  const std::string golden = *shared_folder() + "/golden/models/lstm";
  const NamedTensors io = load_tensors(golden + "-io.npz");
  LstmNet net;
  net.load_parameters(golden + "-0001.params");
  EXPECT_TRUE(close(net(*find_tensor(io, "in0")), *find_tensor(io, "out0"), 1e-4, 1e-5));
  net.hybridize();
  EXPECT_TRUE(close(net(*find_tensor(io, "in0")), *find_tensor(io, "out0"), 1e-4, 1e-5));
}

}  // namespace
}  // namespace gluino::test
