// The recorded training run of LeNet, followed loss by loss, eager and hybridized, as far as rounding does not decide it.
#include <limits>
#include <random>

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

// Losses of the recorded run's steps, from weights of which each is moved by up to `units` units in the last place.
std::vector<double> train(const std::string& folder, const NamedTensors& run, bool hybridized, int units, unsigned seed) {
  LeNet net;
  net.load_parameters(folder + "/lenet-train-init.params");
  std::mt19937 engine(seed);
  for (const auto& [name, p] : net.collect_params()) {
    std::vector<float> values = p->data().to_vector<float>();
    for (float& v : values)
      v *= 1 + std::numeric_limits<float>::epsilon() * static_cast<float>(std::uniform_int_distribution(-units, units)(engine));
    p->set_data(from_vector(values, p->shape()));
  }
  if (hybridized) net.hybridize();
  loss::SoftmaxCrossEntropyLoss loss_of;
  Trainer trainer(net.collect_params(), optimizer::sgd({.learning_rate = 0.05, .momentum = 0.9}));
  std::vector<double> losses;
  for (int64_t steps = find_tensor(run, "losses")->size(); steps > 0; --steps) {
    Tensor loss;
    {
      const auto record = autograd::record();
      loss = loss_of(net(*find_tensor(run, "x")), *find_tensor(run, "y"));
    }
    losses.push_back(loss.mean().item<double>());
    loss.backward();
    trainer.step(32);
  }
  return losses;
}

// The run is chaotic: somewhere the input of a relu is so near to zero that rounding decides. An order of sums is as good as another, so
// the losses say something only as long as runs whose weights differ by about the error of such sums stay together.
size_t steps_that_rounding_leaves_alone(const std::string& folder, const NamedTensors& run, bool hybridized) {
  constexpr int kRuns = 12, kUnits = 4;
  constexpr double kTogether = 1e-5;  // a tenth of what the comparison allows
  const std::vector<double> plain = train(folder, run, hybridized, 0, 0);
  size_t steps = plain.size();
  for (int k = 1; k <= kRuns; ++k) {
    const std::vector<double> moved = train(folder, run, hybridized, kUnits, k);
    for (size_t i = 0; i < steps; ++i)
      if (std::abs(moved[i] - plain[i]) > kTogether * std::max(1.0, plain[i])) steps = i;
  }
  return steps;
}

class RecordedTraining : public ::testing::TestWithParam<bool> {};

TEST_P(RecordedTraining, IsFollowedAsLongAsRoundingDoesNotDecide) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  const std::string folder = *shared + "/golden/models";
  const NamedTensors run = load_tensors(folder + "/lenet-train.npz");
  const std::vector<double> want = find_tensor(run, "losses")->to_vector<double>(), got = train(folder, run, GetParam(), 0, 0);
  const size_t steps = steps_that_rounding_leaves_alone(folder, run, GetParam());
  RecordProperty("steps", static_cast<int>(steps));
  EXPECT_GE(steps, 4u) << "too few to say anything";
  for (size_t i = 0; i < steps; ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * std::max(1.0, want[i])) << "step " << i;
}

INSTANTIATE_TEST_SUITE_P(LeNet, RecordedTraining, ::testing::Bool(), [](const auto& info) { return info.param ? "Hybridized" : "Eager"; });

}  // namespace
}  // namespace gluino::test
