// What compiled programs keep of parameters (rearranged weights, folded statistics) follows every change of them.
#include "gluino/dlpack.h"
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

struct Net : nn::HybridBlock {
  nn::Conv2D conv{8, 3, {.padding = 1, .use_bias = false}};
  nn::BatchNorm norm;
  nn::Dense dense{5};
  Net() { GLUINO_CHILDREN(conv, norm, dense); }
  Tensor forward(const Tensor& x) override { return dense(relu(norm(conv(x)))); }
};

class Derived : public ::testing::Test {
 protected:
  Derived() {
    net.initialize(init::xavier());
    net(x);
    net.hybridize();
    expect_right("at first");
  }
  Tensor parameter(const std::string& suffix) {
    for (const auto& [name, p] : net.collect_params())
      if (name.ends_with(suffix)) return p->data();
    throw std::runtime_error("no parameter " + suffix);
  }
  // The compiled answer is the one that operator after operator gives.
  void expect_right(const std::string& when) {
    const Tensor fast = net(x), again = net(x);
    net.hybridize(false);
    const Tensor slow = net(x);
    net.hybridize();
    net(x);
    EXPECT_TRUE(close(fast, slow, 1e-5, 1e-5)) << when;
    EXPECT_TRUE(same_bits(fast, again)) << when;
  }
  // Without compiling anew: the cache that was there must notice.
  void expect_noticed(const std::string& when, const Tensor& before) {
    const Tensor fast = net(x);
    EXPECT_FALSE(close(fast, before, 1e-5, 1e-5)) << when << ": the change was not seen";
    EXPECT_EQ(net.cache().stats().traces, 1) << when;
    Net other;
    other.initialize();
    other(x);
    auto theirs = other.collect_params();
    auto mine = net.collect_params();
    auto at = mine.begin();
    for (auto& [name, p] : theirs) p->set_data((at++)->second->data().copy());
    EXPECT_TRUE(close(fast, other(x), 1e-5, 1e-5)) << when;
  }
  Net net;
  Tensor x = random_tensor({3, 4, 6, 6}, DType::float32, 1);
};

TEST_F(Derived, FollowsWritesThroughAPointer) {
  const Tensor before = net(x);
  Tensor w = parameter("conv0_weight");
  w.mutable_data<float>()[0] += 3;
  expect_noticed("mutable_data", before);
}
TEST_F(Derived, FollowsInPlaceOperators) {
  const Tensor before = net(x);
  Tensor w = parameter("dense0_weight");
  w *= 2;
  expect_noticed("*=", before);
  const Tensor later = net(x);
  w[0] = 1.0;
  expect_noticed("assignment through an index", later);
}
TEST_F(Derived, FollowsSetDataAndStatistics) {
  Tensor before = net(x);
  for (const auto& [name, p] : net.collect_params())
    if (name.ends_with("running_mean")) p->set_data(ones({8}));
  expect_noticed("set_data", before);
  before = net(x);
  Tensor variance = parameter("running_var");
  variance += 1;
  expect_noticed("statistics", before);
}
TEST_F(Derived, FollowsTraining) {
  const Tensor before = net(x);
  Trainer trainer(net.collect_params(), "sgd", {{"learning_rate", 0.5}});
  {
    const auto record = autograd::record();
    const Tensor loss = net(x).sum();
    loss.backward();
  }
  trainer.step(1);
  EXPECT_FALSE(close(net(x), before, 1e-4, 1e-4));
  expect_right("after a step");
}
TEST_F(Derived, FollowsOthersWhoShareTheMemory) {
  const Tensor before = net(x);
  Tensor w = parameter("conv0_weight");
  DLManagedTensor* shared = w.to_dlpack();
  net(x);
  static_cast<float*>(shared->dl_tensor.data)[5] += 2;
  expect_noticed("DLPack", before);
  const Tensor later = net(x);
  static_cast<float*>(shared->dl_tensor.data)[7] += 2;
  expect_noticed("DLPack again", later);
  shared->deleter(shared);
}

// A value that is added to what was computed from it must not be overwritten meanwhile.
TEST(CompiledLayers, AddTheirOwnInput) {
  struct Residual : nn::HybridBlock {
    nn::Conv2D first{16, 3, {.padding = 1}}, second{16, 3, {.padding = 1}};
    Residual() { GLUINO_CHILDREN(first, second); }
    Tensor forward(const Tensor& in) override {
      const Tensor x = first(in);
      return relu(second(x) + x);
    }
  } net;
  net.initialize(init::xavier());
  for (int64_t batch : {1, 3}) {
    const Tensor x = random_tensor({batch, 8, 9, 7}, DType::float32, 1);
    net.hybridize(false);
    const Tensor want = net(x);
    net.hybridize();
    EXPECT_TRUE(close(net(x), want, 1e-5, 1e-5));
    EXPECT_TRUE(close(net(x), want, 1e-5, 1e-5));
  }
}

// Numbers of channels that fill no block, groups, odd strides: compiled = operator by operator.
TEST(CompiledLayers, AreRightForOddShapes) {
  struct Case {
    int64_t in, out, groups, kernel, stride, padding;
  };
  for (const Case& c : {Case{3, 6, 1, 5, 1, 0}, Case{6, 16, 1, 5, 1, 0}, Case{5, 7, 1, 3, 2, 1}, Case{16, 16, 16, 3, 1, 1},
                        Case{12, 12, 12, 3, 2, 1}, Case{8, 12, 4, 1, 1, 0}, Case{1, 9, 1, 7, 3, 2}, Case{24, 40, 1, 1, 1, 0}}) {
    nn::HybridSequential net;
    net.add(nn::Conv2D(c.out, c.kernel, {.strides = c.stride, .padding = c.padding, .groups = c.groups, .activation = "relu"}),
            nn::MaxPool2D(2, {.ceil_mode = true}), nn::Conv2D(10, 1), nn::Activation("sigmoid"), nn::GlobalAvgPool2D(), nn::Dense(3));
    net.initialize(init::xavier());
    const Tensor x = random_tensor({2, c.in, 17, 15}, DType::float32, 1), want = net(x);
    net.hybridize();
    EXPECT_TRUE(close(net(x), want, 1e-5, 1e-5)) << c.in << " to " << c.out << " in " << c.groups;
  }
}

// On the way to a packed weight the norm is folded into it: that result is as large, and nobody needs it again.
TEST(DerivedMemory, WhatOnlyLedToAValueIsGivenBack) {
  nn::HybridSequential net;
  net.add(nn::Conv2D(256, 3, {.padding = 1, .use_bias = false}), nn::BatchNorm());
  net.initialize();
  const Tensor x = ones({1, 256, 4, 4});
  net(x);
  net.hybridize();
  release_cached_memory();
  net(x);
  const int64_t weight = 256 * 256 * 3 * 3 * 4;
  EXPECT_LT(memory_stats().cached, weight);
}

}  // namespace
}  // namespace gluino::test
