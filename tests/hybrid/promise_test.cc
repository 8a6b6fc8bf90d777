// hybridize() never changes an answer: numbers, texts, structure of results, modes, gradients inside, random numbers, errors.
#include "hybrid/every_mode.h"

namespace gluino::test {
namespace {

// ---- arguments that are no tensors

TEST(Promise, NumbersAreTakenExactly) {
  expect_same([](auto mode, std::ostream& out) {
    auto f =
        mode([](const Tensor& x, double a, float b, int64_t n) { return x * (a * 1e7) + (b - 1) * 1e7 + static_cast<double>(n % 1000); });
    const Tensor x = numbers({2});
    for (double a : {1e-7, 2e-7, 1.0000001, 1.0})
      for (float b : {1.0f, 1.0000001f, -1.0f})
        for (int64_t n : {int64_t{1} << 53, (int64_t{1} << 53) + 1}) show(out, f(x, a, b, n));
  });
}
TEST(Promise, TextsAndContainersDoNotRunIntoEachOther) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& x, const std::string& a, const std::string& b, const std::vector<int>& v) {
      return x * static_cast<double>(a.size() * 100 + b.size() * 10 + v.size());
    });
    const Tensor x = numbers({2});
    show(out, f(x, std::string("a\"\""), std::string("b"), std::vector<int>{1}));
    show(out, f(x, std::string("a"), std::string("\"\"b"), std::vector<int>{1}));
    show(out, f(x, std::string("a"), std::string("b"), std::vector<int>{1, 1}));
    show(out, f(x, std::string("a;1"), std::string(), std::vector<int>{}));
  });
}

// ---- the structure of results

TEST(Promise, ResultsHaveTheStructureOfTheirOwnCall) {
  expect_same([](auto mode, std::ostream& out) {
    auto rows = mode([](const Tensor& x) {
      std::vector<Tensor> all;
      for (int64_t i = 0; i < x.extent(0); ++i) all.push_back(x[i] * 2);
      return all;
    });
    for (int64_t n : {3, 2, 3, 1, 2}) show(out, rows(numbers({n, 2})));
    auto chosen = mode([](const Tensor& x) -> std::vector<Tensor> {
      if (x.sum() > 0) return {x + 1};
      return {x, x * 2, Tensor()};
    });
    for (double v : {1.0, -1.0, 1.0, -2.0}) show(out, chosen(full({2}, v)));
  });
}
TEST(Promise, NumbersThatAreReturnedAreRight) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& x) { return std::pair(x * 2, static_cast<double>(x.extent(0)) + 0.5); });
    for (int64_t n : {3, 2, 3}) show(out, f(numbers({n, 2})).second);
    auto g = mode([](const Tensor& x) { return std::pair(x * 2, x.sum().template item<double>()); });
    for (double v : {1.0, 2.0, 1.0, 5.0}) show(out, g(full({2}, v)).second);
  });
}
TEST(Promise, ANullTensorIsAResult) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& x, bool both) { return std::pair(x + 1, both ? x * 2 : Tensor()); });
    for (bool both : {true, false, true}) {
      const auto [a, b] = f(numbers({2}), both);
      show(out, a);
      show(out, b);
    }
  });
}
TEST(Promise, AFunctionMayReturnNothing) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](Tensor x) { x += 1; });
    Tensor x = numbers({3}).copy();
    for (int i = 0; i < 3; ++i) f(x), show(out, x);
  });
}

// ---- modes inside

TEST(Promise, PauseStopsWhatFlowsBack) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& x) {
      Tensor scale;
      {
        const auto pause = autograd::pause(true);
        scale = x * x + x.reshape({-1}).reshape({3});
      }
      return x * scale + x * x;
    });
    for (int i = 0; i < 3; ++i) {
      Tensor x = leaf({3});
      {
        const auto record = autograd::record();
        f(x).backward();
      }
      show(out, x.grad());
    }
  });
}
TEST(Promise, RecordingInsideIsRecording) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor w = leaf({3});
    auto f = mode([w](const Tensor& x) {
      const Tensor before = x * w;
      const auto record = autograd::record();
      return before * 3 + x * w * w;
    });
    for (int i = 0; i < 3; ++i) {
      f(numbers({3})).backward();
      show(out, w.grad());
    }
  });
}
TEST(Promise, ModesInsideDecideWhatDropoutDoes) {
  expect_same([](auto mode, std::ostream& out) {
    auto monte_carlo = mode([](const Tensor& x) {
      const auto train = autograd::train_mode();
      return dropout(x, {.p = 0.5});
    });
    auto calm = mode([](const Tensor& x) {
      const auto predict = autograd::predict_mode();
      return dropout(x, {.p = 0.5}) + x;
    });
    auto asks = mode([](const Tensor& x) { return autograd::is_training() ? x * 2 : autograd::is_recording() ? x * 3 : x; });
    for (int i = 0; i < 3; ++i) {
      show(out, monte_carlo(ones({8})));
      {
        const auto record = autograd::record();
        show(out, calm(ones({8})));
        show(out, asks(ones({2})));
      }
      show(out, asks(ones({2})));
      const auto record = autograd::record(false);
      show(out, asks(ones({2})));
    }
  });
}

// ---- gradients inside

struct Cubed final : autograd::Function {
  Tensor kept;  // not through save_for_backward
  Tensors forward(const Tensors& in) override {
    kept = in[0] * in[0];
    return {kept * in[0], in[1] + 1};
  }
  Tensors backward(const Tensors& heads) override { return {heads[0] * kept * 100, Tensor()}; }
};
TEST(Promise, AFunctionKeepsItsGradient) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& x) {
      const Tensors y = autograd::call(std::make_shared<Cubed>(), {x * 2, x});
      return y[0] + y[1] * x;
    });
    for (int i = 0; i < 3; ++i) {
      Tensor x = leaf({3});
      {
        const auto record = autograd::record();
        const Tensor y = f(x);
        show(out, y);
        y.backward();
      }
      show(out, x.grad());
      show(out, f(x));
    }
  });
}
TEST(Promise, GradInsideIsPartOfTheProgram) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor w = leaf({3});
    auto penalty = mode([w](const Tensor& x) {
      const auto record = autograd::record();
      const Tensor y = (x * x * w).sum();
      const Tensor g = autograd::grad({y}, {x}, {}, {.create_graph = true})[0];
      return y + (g * g).sum();
    });
    for (int i = 0; i < 3; ++i) {
      Tensor x = leaf({3});
      {
        const auto record = autograd::record();
        const Tensor y = penalty(x);
        show(out, y);
        y.backward();
      }
      show(out, x.grad());
      show(out, w.grad());
    }
    auto without = mode([](const Tensor& x) { return autograd::grad({x * 2}, {x})[0]; });
    EXPECT_THROW(without(numbers({2})), UserError);
  });
}
TEST(Promise, BackwardInsideWritesGradients) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor w = leaf({3});
    Tensor sum = leaf({3});
    sum.attach_grad(GradReq::add);
    auto step = mode([w, sum](const Tensor& x) {
      const auto record = autograd::record();
      const Tensor loss = (x * w * w + sum * x).sum();
      loss.backward();
      return loss;
    });
    for (int i = 0; i < 4; ++i) {
      show(out, step(numbers({3}) * (i + 1)));
      show(out, w.grad());
      show(out, sum.grad());
      out << autograd::has_fresh_grad(w) << '\n';
      autograd::set_fresh_grad(w, false);
    }
  });
}
TEST(Promise, ATensorMadeInsideMayHaveAGradient) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& x) {
      Tensor z = x * 2;
      z.attach_grad();
      {
        const auto record = autograd::record();
        (z * z * z).backward();
      }
      return z.grad() + x;
    });
    for (int i = 0; i < 3; ++i) show(out, f(numbers({3}) + i));
  });
}

// ---- higher orders, order of random numbers

TEST(Promise, SecondOrderSeesTheSameCall) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor counter = zeros({1});
    nn::HybridSequential net;
    net.add(nn::Dense(4, {.in_units = 3}), nn::BatchNorm({.in_channels = 4}), nn::Dropout(0.3), nn::Dense(1, {.in_units = 4}));
    net.initialize();
    auto f = mode([&net, counter](const Tensor& x) mutable {
      counter += 1;
      return tanh(net(x)) * counter;
    });
    for (int i = 0; i < 2; ++i) {
      Tensor x = leaf({5, 3});
      {
        const auto record = autograd::record();
        const Tensor y = f(x);
        const Tensor g = autograd::grad({y}, {x}, {}, {.create_graph = true})[0];
        show(out, y);
        show(out, g);
        (g * g).sum().backward();
      }
      for (float v : x.grad().to_vector()) out << std::round(v * 1e3) << ' ';
      show(out, counter);
      for (const auto& [name, p] : net.collect_params())
        if (name.find("running") != std::string::npos) show(out, p->data());
    }
  });
}
// The call is made again for second order: from what it was given, not from what it made of it.
TEST(Promise, SecondOrderOfACallThatChangesItsArgument) {
  expect_same([](auto mode, std::ostream& out) {
    const auto f = mode([](const Tensor& x, const Tensor& y) {
      Tensor changed = y;
      changed *= 0.5;
      changed[0] = changed[0] + 1;
      return x * x * changed;
    });
    for (int i = 0; i < 3; ++i) {
      Tensor x = leaf({4});
      const Tensor y = numbers({4});
      {
        const auto record = autograd::record();
        const Tensor g = autograd::grad({f(x, y)}, {x}, {}, {.create_graph = true})[0];
        show(out, g);
        (g * g).sum().backward();
      }
      show(out, x.grad());
      show(out, y);
    }
  });
}
TEST(Promise, SecondOrderRefusesWhatWasChangedMeanwhile) {
  for (bool captured : {false, true}) {
    Tensor x = leaf({3}), w = ones({3}), y = ones({3});
    const auto f = hybrid([w](const Tensor& a, const Tensor& b) { return a * a * (w + 1) * (b + 1); });
    for (int i = 0; i < 2; ++i) {
      const auto record = autograd::record();
      const Tensor z = f(x, y);
      {
        const auto pause = autograd::pause();
        (captured ? w : y) += 1;
      }
      GLUINO_EXPECT_ERROR(UserError, "was changed in place", autograd::grad({z}, {x}, {}, {.create_graph = true}));
    }
  }
}
TEST(Promise, DeferredShapesDrawInTheSameOrder) {
  for (bool recorded : {false, true})
    expect_same([recorded](auto mode, std::ostream& out) {
      nn::HybridSequential net;
      net.add(nn::Dense(4), nn::Dropout(0.5), nn::Dense(3), nn::Dropout(0.5));
      net.initialize(init::uniform(0.5));
      mode.block(net);
      for (int i = 0; i < 3; ++i) {
        const autograd::Scope scope(recorded, true);
        show(out, net(ones({2, 3})));
        show(out, random::uniform(0, 1, {2}));
      }
    });
}
TEST(Promise, BranchesSeeWholeNumbersExactly) {
  expect_same([](auto mode, std::ostream& out) {
    auto f = mode([](const Tensor& n) { return n * (n.template item<int64_t>() % 2 == 0 ? 2.0 : 3.0); });
    for (int64_t v : {int64_t{1} << 53, (int64_t{1} << 53) + 1, int64_t{1} << 53})
      show(out, f(from_vector(std::vector<int64_t>{v}, Shape{1})));
  });
}

// ---- hooks, changed gradients, interleaved calls

TEST(Promise, HooksOfInnerBlocksRunAtEveryCall) {
  expect_same([](auto mode, std::ostream& out) {
    nn::HybridSequential net;
    net.add(nn::Dense(4, {.in_units = 3}), nn::Dense(2, {.in_units = 4}));
    net.initialize();
    mode.block(net);
    auto f = mode([&net](const Tensor& x) { return net(x) + 1; });
    net(numbers({1, 3}));
    f(numbers({1, 3}));
    const int number =
        net.child("0").add_hook([&](Block&, const Tensors&, const Tensors& y) { out << "hook " << y[0].sum().item<float>() << '\n'; });
    for (int i = 0; i < 3; ++i) show(out, net(numbers({1, 3})));
    net.child("0").remove_hook(number);
    show(out, net(numbers({1, 3})));
  });
}
TEST(Promise, CallsWaitForTheirBackwardPasses) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor w = leaf({3});
    auto f = mode([w](const Tensor& x) { return dropout(tanh(x * w), {.p = 0.4}); });
    Tensors xs, ys;
    {
      const auto record = autograd::record();
      for (int i = 0; i < 4; ++i) {
        xs.push_back(leaf({3}));
        ys.push_back(f(xs.back() * (i + 1)));
      }
    }
    for (int i : {2, 0, 3, 1}) {
      ys[i].backward();
      show(out, xs[i].grad());
      show(out, w.grad());
    }
  });
}
TEST(Promise, WhatHasAGradientMayChange) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor a = leaf({3}), b = numbers({3}).copy();
    auto f = mode([a, b](const Tensor& x) { return (a * b * x).sum(); });
    const auto step = [&] {
      Tensor x = numbers({3});
      {
        const auto record = autograd::record();
        f(x).backward();
      }
      show(out, a.grad());
      show(out, b.grad());
    };
    step();
    b.attach_grad(GradReq::add);
    step();
    step();
    a.attach_grad(GradReq::null);
    step();
    a.attach_grad();
    step();
  });
}
TEST(Promise, ACastIsSeen) {
  expect_same([](auto mode, std::ostream& out) {
    nn::Dense net(2, {.in_units = 3});
    net.initialize(init::constant(0.25));
    mode.block(net);
    show(out, net(numbers({1, 3})));
    net.cast(DType::float64);
    show(out, net(numbers({1, 3}).astype(DType::float64)));
    net.cast(DType::float16);
    show(out, net(numbers({1, 3}).astype(DType::float16)));
  });
}

// ---- errors, in every mode the same

TEST(Promise, AChangeBetweenForwardAndBackwardIsAnError) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor w = leaf({3});
    auto f = mode([w](const Tensor& x) { return x * x * w; });
    for (int i = 0; i < 2; ++i) {
      Tensor x = leaf({3});
      Tensor y;
      {
        const auto record = autograd::record();
        y = f(x);
      }
      w += 1;
      try {
        y.backward();
        out << "no error\n";
      } catch (const UserError& e) {
        out << (std::string_view(e.what()).find("was changed in place after it was recorded") != std::string_view::npos) << '\n';
      }
    }
  });
}
TEST(Promise, ALeafIsNotChangedWhileItIsRecorded) {
  expect_same([](auto mode, std::ostream& out) {
    Tensor w = leaf({3});
    auto f = mode([w](const Tensor& x) mutable {
      w += x;
      return w * 2;
    });
    const auto record = autograd::record();
    try {
      f(numbers({3}));
      out << "no error\n";
    } catch (const UserError& e) {
      out << e.what() << '\n';
    }
  });
}
TEST(Promise, ABlockThatWritesMemoryWhileTracedSaysSo) {
  Tensor outside = zeros({2});
  auto f = hybrid([outside](const Tensor& x) mutable {
    *outside.mutable_data<float>() += 1;
    return x + outside;
  });
  EXPECT_THROW(f(ones({2})), UserError);
}

}  // namespace
}  // namespace gluino::test
