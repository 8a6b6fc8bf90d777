// hybridize() never changes an answer: state that functions carry on, and memory that tensors share.
#include "hybrid/every_mode.h"
#include "tensor/impl.h"

namespace gluino::test {
namespace {

// ---- state

TEST(Promise, AMovingAverageTrains) {
  for (bool paused : {true, false})
    expect_same([paused](auto mode, std::ostream& out) {
      Tensor average = zeros({3});
      Tensor w = leaf({3});
      auto f = mode([=](const Tensor& x) mutable {
        const Tensor y = x * w;
        {
          const autograd::Scope scope(paused ? std::optional(false) : std::nullopt, std::nullopt);
          average *= 0.5;
          average += y * 0.5;
        }
        return y * y;
      });
      for (int i = 0; i < 4; ++i) {
        {
          const auto record = autograd::record();
          f(numbers({3}) + i).backward();
        }
        show(out, w.grad());
        show(out, average);
        show(out, f(numbers({3})));
        show(out, average);
      }
    });
}
TEST(Promise, ARecurrentStateIsCarriedOn) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor state = zeros({3});
    auto f = mode([state](const Tensor& x) mutable {
      state.assign(tanh(state + x));
      return state * 2;
    });
    for (int i = 0; i < 4; ++i) show(out, f(numbers({3}))), show(out, state);
  });
}
TEST(Promise, UpdatesWithOutsideTensorsAloneHappenAtEveryCall) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor a = ones({2}), b = full({2}, 2.0), w = leaf({2});
    w.grad().assign(ones({2}));
    auto f = mode([=](const Tensor& x) mutable {
      a += b;
      b.assign(a);
      b[0] = a[1];
      w.zero_grad();
      return x * a;
    });
    for (int i = 0; i < 3; ++i) {
      show(out, f(numbers({2})));
      show(out, a), show(out, b), show(out, w.grad());
      w.grad().assign(numbers({2}));
    }
  });
}
TEST(Promise, TheValueOfATensorFromOutsideIsNotBakedIn) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor flag = zeros({1}, {DType::int64});
    auto f = mode([flag](const Tensor& x) { return x * static_cast<double>(flag.item<int64_t>() + 1); });
    for (double v : {0.0, 1.0, 0.0, 7.0, 1.0}) {
      flag.assign(v);
      show(out, f(numbers({2})));
    }
  });
}
struct WithSetting : nn::HybridBlock {
  Setting<double> temperature{1.0};
  Setting<std::string> kind{"plain"};
  Tensor forward(const Tensor& x) override { return kind.get() == "plain" ? x / temperature : x * temperature; }
};
struct Alternating : nn::HybridBlock {
  Setting<bool> is_odd{false};
  Tensor forward(const Tensor& x) override {
    const bool was_odd = is_odd.get();
    is_odd = !was_odd;
    return was_odd ? x : x * 2;
  }
};
TEST(Promise, ASettingThatForwardWritesIsWrittenAtEveryCall) {
  expect_same([](auto mode, std::ostream& out) {
    Alternating net;
    mode.block(net);
    for (int i = 0; i < 7; ++i) {
      show(out, net(numbers({2})));
      out << net.is_odd.get();
    }
  });
}
struct Nested : nn::HybridBlock {
  std::shared_ptr<Nested> inner;
  int& calls;
  Nested(int levels, int& c) : calls(c) {
    if (levels == 0) return;
    inner = std::make_shared<Nested>(levels - 1, c);
    add_child("inner", *inner);
  }
  Tensor forward(const Tensor& x) override {
    ++calls;
    return inner ? (*inner)(x)*1.5 : x;
  }
};
TEST(Promise, VerifyMakesTheCallsOfDeepNetworksOnce) {
  int calls = 0;
  Nested net(15, calls);
  net.hybridize(true, {.verify = true});
  EXPECT_TRUE(close(net(numbers({2})), numbers({2}) * std::pow(1.5, 15), 1e-5, 1e-5));
  EXPECT_LE(calls, 3 * 16);
}
TEST(Promise, ASettingIsPartOfTheSignature) {
  expect_same([](auto mode, std::ostream& out) {
    WithSetting net;
    mode.block(net);
    for (double t : {1.0, 2.0, 1.0, 4.0}) {
      net.temperature = t;
      show(out, net(numbers({2})));
    }
    net.kind = "other";
    show(out, net(numbers({2})));
    if constexpr (std::is_same_v<decltype(mode), Hybridized>) {
      EXPECT_EQ(net.cache().stats().traces, 4);
    }
  });
}

// ---- memory that is shared

TEST(Promise, OneTensorGivenTwiceIsOneTensor) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](Tensor a, const Tensor& b) {
      a += 1;
      return a * 10 + b;
    });
    Tensor x = numbers({3}).copy(), y = numbers({3}).copy();
    for (int i = 0; i < 2; ++i) {
      show(out, f(x, x));
      show(out, f(x, y));
      show(out, x);
    }
  });
}
TEST(Promise, AViewAndItsBaseShareTheirMemory) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](Tensor a, const Tensor& b) {
      a += 1;
      return a.sum() + b.sum() * 100;
    });
    Tensor x = numbers({4, 2}).copy();
    for (int i = 0; i < 2; ++i) {
      show(out, f(x, x[Slice(0, 2)]));
      show(out, f(x[Slice(1, 3)], x));
      show(out, f(x.reshape({8}), x));
      show(out, f(x[Slice(0, 2)], x[Slice(2, 4)]));
      show(out, x);
    }
  });
}
TEST(Promise, AnInputMayBeKnownFromOutside) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor known = numbers({3}).copy();
    auto f = mode([known](Tensor x) mutable {
      x += 1;
      known *= 2;
      return x * 100 + known;
    });
    Tensor other = numbers({3}).copy();
    for (int i = 0; i < 2; ++i) {
      show(out, f(known));
      show(out, f(other));
      show(out, f(known[Slice(0, 3)]));
      show(out, known);
    }
  });
}
TEST(Promise, DetachSharesMemory) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& x) {
      Tensor y = x * 2;
      Tensor d = y.detach();
      d += 1;
      return std::pair(y, d);
    });
    for (int i = 0; i < 2; ++i) {
      auto [y, d] = f(numbers({3}));
      d *= 10;
      show(out, y);
      show(out, d);
    }
    auto g = mode([](const Tensor& x) { return x.detach() * x; });
    for (int i = 0; i < 2; ++i) {
      Tensor x = leaf({3});
      {
        const auto record = autograd::record();
        g(x).backward();
      }
      show(out, x.grad());
    }
  });
}
TEST(Promise, ResultsThatAreTheCallersTensorsStayThat) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor outside = numbers({3}).copy();
    auto same = mode([](const Tensor& x) { return x; });
    auto view = mode([](const Tensor& x) { return x.reshape({-1}); });
    auto row = mode([](const Tensor& x) { return x[1]; });
    auto both = mode([](const Tensor& x) {
      const Tensor y = x * 2;
      return std::tuple(y, y, y.reshape({-1}));
    });
    auto parts = mode([](const Tensor& x) {
      const Tensor y = x * 2;
      return std::pair(y.reshape({-1}), y.reshape({1, -1}));
    });
    auto kept = mode([outside](const Tensor&) { return outside; });
    auto constant = mode([](const Tensor&) { return tensor({1, 2, 3}); });
    for (int i = 0; i < 2; ++i) {
      Tensor x = numbers({2, 2}).copy();
      same(x) += 1;
      view(x) *= 2;
      Tensor(row(x)) -= 3;
      show(out, x);
      auto [a, b, c] = both(x);
      a += 1;
      c *= 2;
      show(out, a), show(out, b), show(out, c);
      auto [p, q] = parts(x);
      p += 5;
      show(out, q);
      kept(x) += 1;
      show(out, outside);
      constant(x) += 1;
      show(out, constant(x));
    }
  });
}

// y, its gradient by x, and what flows back from both to x and w.
void show_second_order(std::ostream& out, const Tensor& y, const Tensor& x, const Tensor& w) {
  const Tensor g = autograd::grad({y}, {x}, {}, {.create_graph = true})[0];
  ((g * g).sum() + y.sum()).backward();
  for (const Tensor& t : {y, g, x.grad(), w.grad()}) show(out, t);
}
TEST(Promise, SecondOrderTakesArgumentsThatDependOnEachOtherApart) {
  expect_same([](auto mode, std::ostream& out) {
    const Tensor x = leaf({3}), w = leaf({3});
    auto f = mode([&](const Tensor& a, const Tensor& b) { return a * b * b + sin(w * a); });
    for (int i = 0; i < 3; ++i) {
      const auto record = autograd::record();
      const Tensor y = f(x, f(x * w, tanh(x)));
      show_second_order(out, y, x, w);
    }
  });
}

// Layers write their averages in training alone: what predicts, here or elsewhere, leaves them as they were recorded.
TEST(Promise, AveragesThatOnlyAreReadWaitForTheirBackwardPasses) {
  expect_same([](auto mode, std::ostream& out) {
    nn::BatchNorm layer({.in_channels = 3});
    layer.initialize();
    mode.block(layer);
    const Tensor x = leaf({2, 3}), y = leaf({4, 3});
    Tensor first, second;
    {
      const auto record = autograd::record(false);
      first = (layer(x) * 2).sum();
      second = (layer(y) * layer(y)).sum();
    }
    second.backward();
    first.backward();
    show(out, x.grad());
    show(out, y.grad());
  });
}
TEST(Promise, PredictingWritesNoAverages) {
  nn::BatchNorm layer({.in_channels = 3});
  layer.initialize();
  Tensor mean = layer.running_mean->data();
  for (DType dtype : {DType::float32, DType::float16}) {
    const uint64_t before = impl_of(mean).storage->writes();
    layer(numbers({2, 3}).astype(dtype));
    EXPECT_EQ(impl_of(mean).storage->writes(), before);
    const auto train = autograd::train_mode();
    layer(numbers({2, 3}).astype(dtype));
    EXPECT_GT(impl_of(mean).storage->writes(), before);
  }
}

TEST(Promise, AGradientThatNothingFlowsToIsLeftAlone) {
  expect_same([](auto mode, std::ostream& out) {
    const Tensor x = leaf({3}), w = leaf({3});
    auto f = mode([&](const Tensor& a, double how) {
      const Tensor with_w = sin(a * w);
      return how > 0 ? a * with_w : a * a * a;
    });
    for (double how : {1.0, -1.0, -1.0, 1.0, -1.0}) {
      const auto record = autograd::record();
      const Tensor y = f(x, how);
      show_second_order(out, y, x, w);
    }
  });
}

// Values that are written into memory beside the tape are no way back: their gradients stay what they were.
TEST(Promise, WhatMemoryIsWrittenWithGetsNoGradient) {
  expect_same([](auto mode, std::ostream& out) {
    const Tensor x = leaf({3}), y = leaf({3});
    auto f = mode([](const Tensor& a, const Tensor& b) {
      Tensor z = a * 0.5, memory = z.detach();
      memory.assign(b * 2);
      return std::pair(z * a, b * b);
    });
    for (int i = 0; i < 4; ++i) {
      std::pair<Tensor, Tensor> results;
      {
        const auto record = autograd::record();
        results = f(x, y);
      }
      (i % 2 ? results.first : results.second).backward();
      show(out, x.grad());
      show(out, y.grad());
    }
  });
}

// The second of a function's two results, and the first, in turn.
template <class F>
void differentiate_one_of_two(const F& f, const Tensors& leaves, std::ostream& out) {
  for (int i = 0; i < 4; ++i) {
    std::pair<Tensor, Tensor> results;
    {
      const auto record = autograd::record();
      results = f(numbers({3}) + i);
    }
    (i % 2 ? results.first : results.second).backward();
    for (const Tensor& leaf : leaves) show(out, leaf.grad());
  }
}
TEST(Promise, AResultThatIsNotDifferentiatedLeavesGradientsAlone) {
  expect_same([](auto mode, std::ostream& out) {
    const Tensor w = leaf({3}), v = leaf({3});
    auto f = mode([&](const Tensor& x) { return std::pair{x * v, sin(x * w)}; });
    differentiate_one_of_two(f, {w, v}, out);
  });
}

// Its gradient is not zero where nothing flows in.
struct Pulled final : autograd::Function {
  Tensors forward(const Tensors& in) override { return {in[0] * 2}; }
  Tensors backward(const Tensors& heads) override { return {heads[0] * 2 + 0.25}; }
};
TEST(Promise, AGradientOfItsOwnIsNotAskedForWhatIsNotDifferentiated) {
  expect_same([](auto mode, std::ostream& out) {
    const Tensor w = leaf({3});
    auto f = mode([&](const Tensor& x) { return std::pair{x * w, autograd::call(std::make_shared<Pulled>(), {w})[0] + x}; });
    differentiate_one_of_two(f, {w}, out);
  });
}
TEST(Promise, AnAverageThatIsRecordedKeepsNothingOfEarlierCalls) {
  Tensor average = zeros({64, 64}), w = leaf({64, 64});
  const auto f = hybrid([&](const Tensor& x) {
    const Tensor y = x * w;
    average *= 0.5;
    average += y * 0.5;
    return y * y;
  });
  const auto live_after = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto record = autograd::record();
      f(numbers({64, 64})).backward();
    }
    return memory_stats(cpu()).live;
  };
  const auto first = live_after(3);
  EXPECT_LE(live_after(30), first + 64 * 64 * 4);
}

// ---- calls that fail

enum class Fails { by_number, by_shape, by_index };
void run_and_fail(Fails fails, bool reads_values, bool recorded, bool fails_first) {
  SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(fails) << (reads_values ? ", reads values" : "")
                                  << (recorded ? ", recorded" : "") << (fails_first ? ", fails first" : ""));
  expect_same([=](auto mode, std::ostream& out) {
    Tensor state = zeros({3}), average = zeros({3}), member = ones({3}), w = leaf({3}), at = zeros({1}, {DType::int64});
    auto f = mode([&](const Tensor& x, double number) {
      state += x * 0.5;
      member = member * 2;
      {
        const auto pause = autograd::pause();
        average.assign(average * 0.5 + x);
      }
      const Tensor noise = random::uniform(0, 1, {3});
      Tensor y = x * w + noise;
      if (reads_values && y.sum().item<float>() > 4) y = y * 2;
      if (fails == Fails::by_number && number < 0) throw std::logic_error("half way");
      if (fails == Fails::by_shape && number < 0) y = y + ones({4});
      if (fails == Fails::by_index) y = y + x[at];
      state += noise;
      average += 1;
      return y + state;
    });
    for (int i = 0; i < 6; ++i) {
      const bool is_bad = (i + (fails_first ? 1 : 0)) % 3 == 1;
      at.assign(is_bad ? 3.0 : 1.0);
      try {
        const autograd::Scope scope(recorded, std::nullopt);
        const Tensor y = f(numbers({3}) * (i + 1), is_bad ? -1.0 : 1.0);
        if (recorded) y.backward();
        show(out, y), show(out, w.grad());
      } catch (const std::exception& e) {
        out << "failed " << (dynamic_cast<const Error*>(&e) ? "ours" : e.what()) << '\n';
      }
      show(out, state), show(out, average), show(out, member);
      show(out, random::uniform(0, 1, {2}));
    }
  });
}
TEST(Promise, ACallThatFailsHalfWayLeavesWhatEagerCodeLeaves) {
  for (Fails fails : {Fails::by_number, Fails::by_shape, Fails::by_index})
    for (bool reads_values : {false, true})
      for (bool recorded : {false, true})
        for (bool fails_first : {false, true}) run_and_fail(fails, reads_values, recorded, fails_first);
}

// ---- what a program cannot do again

TEST(Promise, SeedingInsideIsDoneAtEveryCall) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& x) {
      const Tensor before = random::uniform(0, 1, {3});
      seed(7);
      return x + before + random::uniform(0, 1, {3}) * 2;
    });
    for (int i = 0; i < 4; ++i) {
      show(out, f(numbers({3})));
      show(out, random::uniform(0, 1, {2}));
    }
  });
}
TEST(Promise, ResultsThatAreNotDifferentiatedNeedNothing) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor state = numbers({3}).copy(), w = leaf({3});
    auto f = mode([&](const Tensor& x) { return std::pair{x * w, sin(state * w)}; });
    for (int i = 0; i < 3; ++i) {
      std::pair<Tensor, Tensor> results;
      {
        const auto record = autograd::record();
        results = f(numbers({3}) + i);
      }
      state += 1;
      results.first.backward();
      show(out, w.grad());
    }
  });
}

TEST(Promise, WhatZerosFlowToIsNotReleased) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor w = leaf({3}), v = leaf({3}), state = numbers({3}).copy();
    auto f = mode([&](const Tensor& x) {
      state.assign(state * 0.5 + x * w);
      return x * v + call("BlockGrad", {state});
    });
    for (int i = 0; i < 3; ++i) {
      Tensor y;
      {
        const auto record = autograd::record();
        y = f(numbers({3}) + i);
      }
      y.backward();
      show(out, w.grad());
    }
    const auto record = autograd::record();
    (state * 2).backward();  // through all three calls
    show(out, w.grad());
  });
}
TEST(Promise, AnotherBackwardPassLeavesAloneWhatItDoesNotReach) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor a = leaf({3}), b = leaf({3});
    auto f = mode([&](const Tensor& x) { return std::tuple{x * a, x * b, a * b}; });
    for (int i = 0; i < 3; ++i) {
      const auto [first, second, both] = [&] {
        const auto record = autograd::record();
        return f(numbers({3}) + i);
      }();
      for (const Tensor& head : {first, second, both, first}) {
        a.grad().assign(7), b.grad().assign(7);
        head.backward({}, true);
        show(out, a.grad());
        show(out, b.grad());
      }
    }
  });
}

}  // namespace
}  // namespace gluino::test
