// The recorded training run of LeNet, followed loss by loss, eager and hybridized.
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

struct LeNet : nn::HybridBlock {
  nn::Conv2D conv1{6, 5}, conv2{16, 5};
  nn::MaxPool2D pool1{2}, pool2{2};
  nn::Dense fc1{120}, fc2{84};
  ParameterPtr fc3_weight = add_parameter("fc3_weight", {.shape = {10, 84}});
  LeNet() { GLUINO_CHILDREN(conv1, pool1, conv2, pool2, fc1, fc2); }
  Tensor forward(const Tensor& in) override {
    Tensor x = pool1(relu(conv1(in)));
    x = pool2(relu(conv2(x))).reshape({0, -1});
    x = relu(fc2(relu(fc1(x))));
    return dot(x, fc3_weight->data(), {.transpose_b = true});
  }
};

// At the fifth step the input of one relu is within float32 error of zero: see decision 0006 when a new order of sums fails here.
class RecordedTraining : public ::testing::TestWithParam<bool> {};

TEST_P(RecordedTraining, IsFollowedLossByLoss) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  const NamedTensors run = load_tensors(*shared + "/golden/models/lenet-train.npz");
  const std::vector<double> want = find_tensor(run, "losses")->to_vector<double>();
  LeNet net;
  net.load_parameters(*shared + "/golden/models/lenet-train-init.params");
  if (GetParam()) net.hybridize();
  loss::SoftmaxCrossEntropyLoss loss_of;
  Trainer trainer(net.collect_params(), optimizer::sgd({.learning_rate = 0.05, .momentum = 0.9}));
  for (size_t i = 0; i < want.size(); ++i) {
    Tensor loss;
    {
      const auto record = autograd::record();
      loss = loss_of(net(*find_tensor(run, "x")), *find_tensor(run, "y"));
    }
    EXPECT_NEAR(loss.mean().item<double>(), want[i], 1e-4 * std::max(1.0, want[i])) << "step " << i;
    loss.backward();
    trainer.step(32);
  }
}

INSTANTIATE_TEST_SUITE_P(LeNet, RecordedTraining, ::testing::Bool(), [](const auto& info) { return info.param ? "Hybridized" : "Eager"; });

}  // namespace
}  // namespace gluino::test
