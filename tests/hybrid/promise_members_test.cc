// hybridize() never changes an answer: members and containers that functions put tensors into, and what their owners do with them.
#include "hybrid/every_mode.h"

namespace gluino::test {
namespace {

// Its owner puts something else where forward puts a tensor: the next call puts its own there again.
TEST(Promise, MembersThatForwardBindsAreBoundWhateverTheirOwnerDid) {
  struct Keeping : nn::HybridBlock {
    Tensor last;
    std::vector<Tensor> all;
    Tensor forward(const Tensor& x) override {
      last = x * 2;
      all.push_back(x + 1);
      return x - 1;
    }
  };
  expect_same([](auto mode, std::ostream& out) {
    Keeping net;
    mode.block(net);
    for (int i = 0; i < 6; ++i) {
      show(out, net(numbers({3}) + i));
      show(out, net.last), show(out, net.all);
      if (i == 1) net.last = zeros({3});
      if (i == 2) net.last = Tensor();
      if (i == 3) net.all.clear();
      if (i == 4) net.all[0] = net.last;
    }
  });
}
TEST(Promise, TheChildrenOfWhatRunsAsItIsAreProgramsAndExplainSaysWhy) {
  struct Keeping : nn::HybridBlock {
    nn::Dense inner{4};
    Tensor last;
    Keeping() { GLUINO_CHILDREN(inner); }
    Tensor forward(const Tensor& x) override {
      last = inner(x);
      return last * 2;
    }
  } net;
  net.initialize();
  net.hybridize();
  for (int i = 0; i < 3; ++i) net(numbers({2, 3}));
  EXPECT_EQ(net.cache().stats().traces, 1);
  EXPECT_NE(net.explain().find("puts tensors into variables"), std::string::npos) << net.explain();
  EXPECT_EQ(net.inner.cache().stats().calls, 2);
  EXPECT_EQ(net.inner.cache().stats().plans, 1);
}
// A variable that is bound to another tensor is seen although somebody keeps the old one.
TEST(Promise, ABindingIsSeenWhoeverHasTheOldTensor) {
  struct Scaled : nn::HybridBlock {
    Tensor scale = full({3}, 2.0), shift = full({3}, 10.0);
    Tensor forward(const Tensor& x) override {
      Tensor y = scale;  // variables of its own say nothing
      y = y * x;
      return y + shift;
    }
  };
  expect_same([](auto mode, std::ostream& out) {
    Scaled net;
    mode.block(net);
    Tensor captured = full({3}, 5.0);
    auto f = mode([&](const Tensor& x) { return x * captured; });
    const auto run = [&] {
      for (int i = 0; i < 2; ++i) show(out, net(numbers({3}))), show(out, f(numbers({3})));
    };
    run();
    const Tensor first = net.scale, kept = captured;
    net.scale = full({3}, 7.0);
    captured = numbers({3});
    run();
    net.scale = first;
    captured = kept;
    run();
    Tensor other = net.shift;
    other = net.scale;  // no variable of the network's
    run();
    net.shift.assign(3.0);
    run();
    if constexpr (std::is_same_v<decltype(mode), Hybridized>) {
      if (!mode.options.verify) {
        EXPECT_LE(net.cache().stats().traces, 4);
      }
    }
  });
}
// Tensors that are exchanged for one another while all of them are kept.
TEST(Promise, TensorsThatChangePlacesAreSettings) {
  struct Exchanging : nn::HybridBlock {
    Setting<Tensor> scale{full({3}, 2.0)}, shift{full({3}, 5.0)};
    Setting<std::optional<Tensor>> mask;
    Setting<std::vector<Tensor>> all{{ones({3}), numbers({3})}};
    Tensor forward(const Tensor& x) override {
      Tensor y = x * scale.get() - shift.get();
      if (const auto m = mask.get()) y = y * *m;
      for (const Tensor& t : all.get()) y = y * 2 + t;
      return y;
    }
  };
  expect_same([](auto mode, std::ostream& out) {
    Exchanging net;
    mode.block(net);
    const Tensor first = net.scale.get(), second = net.shift.get(), one = full({3}, 0.5);
    Tensor scale = first;
    const auto run = [&] {
      for (int i = 0; i < 2; ++i) show(out, net(numbers({3}) + i));
    };
    run();
    net.scale = second;
    net.shift = first;
    run();
    net.mask = one;
    run();
    net.all = std::vector<Tensor>{net.all.get()[1], net.all.get()[0]};
    run();
    net.mask = std::nullopt;
    net.scale = first;
    run();
    one.copy().copy_to(scale);  // the same tensor, another value
    run();
  });
}
struct Rebinding : nn::HybridBlock {
  Tensor hidden = zeros({3}), scale = full({3}, 2.0), last;
  Tensor forward(const Tensor& x) override {
    hidden = tanh(hidden + x) * scale;
    last = hidden + 1;
    return hidden * 2;
  }
};
TEST(Promise, MembersThatAreReboundAreSeen) {
  expect_same([](auto mode, std::ostream& out) {
    Rebinding net;
    mode.block(net);
    Tensor first;
    for (int i = 0; i < 5; ++i) {
      show(out, net(numbers({3})));
      show(out, net.hidden);
      show(out, net.last);
      if (i == 1) first = net.last;
      if (i == 2) net.scale = full({3}, 3.0);
      if (i == 3) net.hidden = ones({3});
    }
    show(out, first);
  });
}
struct Keeping : nn::HybridBlock {
  Tensor seen;
  Tensor forward(const Tensor& x) override {
    seen = x * 10;
    return x + 1;
  }
};
TEST(Promise, WhatForwardKeepsIsAValueAfterEveryCall) {
  expect_same([](auto mode, std::ostream& out) {
    Keeping net;
    mode.block(net);
    Tensor kept;
    for (int i = 0; i < 5; ++i) {
      show(out, net(numbers({2}) + i));
      show(out, net.seen);
      out << net.seen.is_symbolic() << '\n';
      if (i == 2) kept = net.seen;
    }
    show(out, kept);
    if constexpr (std::is_same_v<decltype(mode), Hybridized>) {
      EXPECT_LE(net.cache().stats().traces, 3);
    }
  });
}

}  // namespace
}  // namespace gluino::test
