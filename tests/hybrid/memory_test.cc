// What planning saves: figures from the allocator, for inference and for training.
#include <algorithm>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

// The most bytes in use above those before the call. The largest of several: while one runs, the thread that writes derived values of
// another test to disk may let go of them, which makes the difference smaller.
template <class F>
int64_t peak_of(F&& f) {
  int64_t most = 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t live = memory_stats().live;
    reset_peak();
    f();
    most = std::max(most, memory_stats().peak - live);
  }
  return most;
}

nn::HybridSequential& conv_net(nn::HybridSequential& net) {
  for (int64_t channels : {8, 16, 32}) {
    net.add(nn::Conv2D(channels, 3, {.padding = 1, .use_bias = false}), nn::BatchNorm(), nn::Activation("relu"));
    net.add(nn::MaxPool2D());
  }
  net.add(nn::Dense(64, {.activation = "relu"}), nn::Dense(10));
  net.initialize(init::xavier());
  return net;
}

// On one thread: kernels take memory of their own for each, the same in both modes but not at the same time as the peak. The arena is made
// for both passes at once and has gaps; eager code frees each gradient where it was last read. (2.66 and 2.54 MB when this was written.)
// Somebody holds the gradients: else eager code writes them where the old ones are, and takes 5 % less than the bound was made for.
TEST(Memory, OfATrainingStepIsThatOfTheEagerOne) {
  const int threads = num_threads();
  set_num_threads(1);
  nn::HybridSequential net;
  conv_net(net);
  loss::SoftmaxCrossEntropyLoss loss_of;
  const Tensor x = random_tensor({16, 3, 32, 32}, DType::float32, 1), y = zeros({16});
  auto step = [&] {
    Tensor loss;
    {
      const auto record = autograd::record();
      loss = loss_of(net(x), y);
    }
    loss.backward();
  };
  step();
  Tensors held;
  for (const auto& [name, p] : net.collect_params())
    if (p->grad_req() != GradReq::null) held.push_back(p->grad());
  const int64_t eager = peak_of(step);
  net.hybridize();
  step();
  const int64_t hybrid = peak_of(step);
  set_num_threads(threads);
  RecordProperty("eager_bytes", std::to_string(eager));
  RecordProperty("hybrid_bytes", std::to_string(hybrid));
  EXPECT_LT(static_cast<double>(hybrid), 1.1 * static_cast<double>(eager));
}

TEST(Memory, OfInferenceIsBelowTheEagerPeak) {
  nn::HybridSequential net;
  conv_net(net);
  const Tensor x = random_tensor({4, 3, 32, 32}, DType::float32, 1);
  net(x);
  const int64_t eager = peak_of([&] { net(x); });
  net.hybridize();
  net(x);
  EXPECT_LE(net.cache().memory().planned, eager);
  EXPECT_LE(net.cache().memory().planned, net.cache().memory().unplanned / 2);
}

TEST(Memory, OfResNet50IsAQuarterOfAllValues) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "no folder of models: set GLUINO_SHARED to run this";
  auto net = SymbolBlock::imports(*shared + "/models/symbols/resnet50-1.1-symbol.json", {"data"});
  net->initialize(init::xavier());
  const Tensor x = random_tensor({1, 3, 224, 224}, DType::float32, 1);
  Tensor eager_result = (*net)(x);
  const int64_t eager = peak_of([&] { (*net)(x); });
  net->hybridize();
  const Tensor hybrid_result = (*net)(x);
  EXPECT_TRUE(close(hybrid_result, eager_result));
  const HybridCache::Memory memory = net->cache().memory();
  std::cout << "ResNet-50: " << memory.planned << " bytes planned, " << memory.unplanned << " without a plan, eager peak " << eager << "\n";
  EXPECT_LE(memory.planned * 4, memory.unplanned);
  EXPECT_LE(memory.planned, eager);
}

// A call that may refuse its values is made while the function is traced, and so are all before it.
TEST(Memory, OfATraceGoesBackToTheSystem) {
  release_cached_memory();
  auto f = hybrid([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 40; ++i) y = y + 1;
    return take(y, from_vector(std::vector<int64_t>{0})).sum();
  });
  const Tensor x = ones({1024, 1024});
  EXPECT_EQ(f(x).item<float>(), 41 * 1024);
  EXPECT_LE(memory_stats().cached, int64_t{96} << 20) << "of 160 MB of intermediate values";
}

}  // namespace
}  // namespace gluino::test
