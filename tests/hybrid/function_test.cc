// hybrid(): plain functions traced, cached, guarded and differentiated.
#include "gluino/hybrid.h"

#include "gluino/autograd.h"
#include "gluino/ops.h"
#include "support/support.h"

namespace gluino::test {
namespace {

TEST(HybridFunction, ASingleElementHasNoAxis) {
  const auto body = [](const Tensors& in) -> Tensors {
    const Tensor &x = in[0], element = x[0];
    return {element, element + 1, element * x, Tensor(x[{kNewAxis, -1}]), full({}, element.ndim())};
  };
  const auto f = hybrid(body);
  for (const int64_t extent : {3, 1, 2}) {
    const Tensors in{random_tensor({extent}, DType::float32, 1)}, found = f(in), expected = body(in);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].shape(), expected[i].shape()) << i;
      EXPECT_TRUE(same_bits(found[i], expected[i])) << i;
    }
  }
}

TEST(HybridFunction, RunsTheFunctionOncePerSignature) {
  int runs = 0;
  auto f = hybrid([&](const Tensor& a, const Tensor& b) {
    ++runs;
    return relu(a * b + 1) - a;
  });
  const Tensor a = random_tensor({3, 4}, DType::float32, 1), b = random_tensor({4}, DType::float32, 2);
  const Tensor want = relu(a * b + 1) - a;
  EXPECT_TRUE(same_bits(f(a, b), want));
  EXPECT_TRUE(same_bits(f(a, b), want));
  EXPECT_EQ(runs, 1);
  // Another batch needs a plan, not a trace; another dtype is another program.
  const Tensor c = random_tensor({7, 4}, DType::float32, 3);
  EXPECT_TRUE(same_bits(f(c, b), relu(c * b + 1) - c));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(f.cache().stats().plans, 2);
  f(a.astype(DType::float64), b.astype(DType::float64));
  EXPECT_EQ(runs, 2);
}

// What a state was before an operator updated it is read before, also where the reader is computed together with later ones.
TEST(HybridFunction, ReadsAStateBeforeItIsUpdated) {
  const auto run = [](bool compiled) {
    const Tensor gamma = ones({4}), beta = zeros({4}), mean = full({4}, 0.5), var = ones({4});
    const auto body = [=](const Tensor& x) -> Tensors {
      const Tensor before = broadcast_sub(x, mean), total = (x * mean.reshape({1, 4})).sum(Shape{1}, true);
      const Tensor y = batch_norm(x, gamma, beta, mean, var);
      return {tanh(before) * 2 + y, softmax(tanh(before)), broadcast_mul(y, total)};
    };
    auto f = hybrid(body);
    const autograd::Scope training(false, true);
    const Tensor x = random_tensor({3, 4}, DType::float32, 5);
    Tensors all;
    for (int call = 0; call < 2; ++call)
      for (const Tensor& t : compiled ? f(x) : body(x)) all.push_back(t.copy());
    all.push_back(mean.copy());
    return all;
  };
  const Tensors eager = run(false), compiled = run(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same_bits(compiled[i], eager[i])) << "value " << i;
}

TEST(HybridFunction, GuardsOnlyTheExtentsThatWereRead) {
  int runs = 0;
  auto f = hybrid([&](const Tensor& x) {
    ++runs;
    return x * static_cast<double>(x.extent(1));
  });
  EXPECT_TRUE(same_bits(f(ones({2, 3})), ones({2, 3}) * 3));
  EXPECT_TRUE(same_bits(f(ones({5, 3})), ones({5, 3}) * 3));
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(same_bits(f(ones({2, 4})), ones({2, 4}) * 4));
  EXPECT_EQ(runs, 2);
}

TEST(HybridFunction, MemoryOfTheDocumentsExample) {
  // Four arrays of ten float64. Run line by line each takes 80 bytes of its own; planned, b, c and d share one.
  auto body = [](const Tensor& x) {
    const Tensor a = relu(x);
    const Tensor b = x * 2;
    const Tensor c = b * a;
    const Tensor d = c + 1;
    return d;
  };
  const Tensor x = ones({10}, {DType::float64});
  auto peak_of = [&](auto&& g) {
    const int64_t live = memory_stats().live;
    reset_peak();
    const Tensor result = g(x);
    return memory_stats().peak - live;
  };
  EXPECT_EQ(peak_of(body), 320);
  {
    const SkippedPasses planning_alone("fuse_elementwise");
    auto f = hybrid(body);
    EXPECT_TRUE(same_bits(f(x), body(x)));
    EXPECT_EQ(peak_of(f), 160);
    EXPECT_EQ(f.cache().memory().planned, 80);
    EXPECT_EQ(f.cache().memory().unplanned, 240);
  }
  // Computed in one sweep nothing is left between x and d.
  auto f = hybrid(body);
  EXPECT_TRUE(same_bits(f(x), body(x)));
  EXPECT_EQ(peak_of(f), 80);
}

TEST(HybridFunction, DifferentiatesInOneTapeNode) {
  Tensor w = random_tensor({4, 3}, DType::float64, 5), x = random_tensor({2, 3}, DType::float64, 6);
  auto body = [&](const Tensor& in) { return tanh(fully_connected(in, w, {.num_hidden = 4, .no_bias = true})).sum(Shape{1}); };
  auto f = hybrid(body);
  Tensors gradients;
  for (int round = 0; round < 3; ++round) {
    w.attach_grad();
    x.attach_grad();
    Tensor y;
    {
      const auto record = autograd::record();
      y = round == 0 ? body(x) : f(x);
    }
    y.backward();
    gradients.push_back(w.grad());
    gradients.push_back(x.grad());
  }
  EXPECT_TRUE(close(gradients[2], gradients[0]));
  EXPECT_TRUE(close(gradients[3], gradients[1]));
  EXPECT_TRUE(close(gradients[4], gradients[0]));
  EXPECT_TRUE(close(gradients[5], gradients[1]));
}

// Gradients have the dtype of what they belong to, wherever they come from: a head of another one, or arithmetic with another one.
TEST(HybridFunction, GradientsOfAnotherDtypeAreConverted) {
  const Tensor w = random_tensor({4, 3}, DType::float32, 2), wide = random_tensor({2, 3}, DType::float64, 3);
  const auto body = [&](const Tensor& x) { return tanh(dot(x, w)); };
  const auto gradient = [&](const auto& f, auto finish) {
    Tensor x = random_tensor({2, 4}, DType::float32, 1);
    x.attach_grad();
    {
      const auto scope = autograd::record();
      finish(f(x));
    }
    return x.grad();
  };
  auto f = hybrid(body);
  const auto with_head = [&](const Tensor& y) { y.backward(wide); };
  const auto with_product = [&](const Tensor& y) { (y.astype(DType::float64) * wide).sum().backward(); };
  const auto with_promotion = [&](const Tensor& y) { (y * wide).backward(); };
  EXPECT_TRUE(same_bits(gradient(f, with_head), gradient(body, with_head)));
  EXPECT_TRUE(same_bits(gradient(f, with_product), gradient(body, with_product)));
  EXPECT_TRUE(same_bits(gradient(f, with_promotion), gradient(body, with_promotion)));
}

TEST(HybridFunction, SecondOrder) {
  auto f = hybrid([](const Tensor& x) { return x * x * x; });
  Tensor x = tensor({1, 2, 3});
  x.attach_grad();
  Tensor first;
  {
    const auto record = autograd::record();
    first = autograd::grad({f(x)}, {x}, {}, {.create_graph = true})[0];
  }
  EXPECT_TRUE(close(first, tensor({3, 12, 27})));
  first.backward();
  EXPECT_TRUE(close(x.grad(), tensor({6, 12, 18})));
}

TEST(HybridFunction, BackwardTwiceWithRetainGraph) {
  auto f = hybrid([](const Tensor& x) { return exp(x) * x; });
  Tensor x = tensor({1, 2});
  x.attach_grad();
  Tensor y;
  {
    const auto record = autograd::record();
    y = f(x);
  }
  y.backward({}, true);
  const Tensor once = x.grad().copy();
  y.backward();
  EXPECT_TRUE(same_bits(x.grad(), once));
  GLUINO_EXPECT_ERROR(UserError, "retain_graph", y.backward());
}

TEST(HybridFunction, ChangedCapturedValuesAreSeen) {
  Tensor w = ones({3});
  auto f = hybrid([&](const Tensor& x) { return x * (w * 2); });
  EXPECT_TRUE(same_bits(f(ones({3})), full({3}, 2)));
  w += ones({3});
  EXPECT_TRUE(same_bits(f(ones({3})), full({3}, 4)));
}

TEST(HybridFunction, BranchesOnValues) {
  int runs = 0;
  auto body = [&](const Tensor& x) {
    ++runs;
    Tensor y = x * 2;
    if (y.sum() > 0) return y + 1;
    while ((y.sum() < -1).item<float>() != 0) y = y / 2;
    return y;
  };
  auto f = hybrid(body);
  for (int round = 0; round < 2; ++round)
    for (double v : {1.0, -1.0, -8.0, 3.0}) {
      Tensor x = full({2}, v);
      const int before = runs;
      const Tensor want = body(x);
      runs = before;
      EXPECT_TRUE(same_bits(f(x), want)) << v;
    }
  EXPECT_EQ(runs, 3);  // positive, two lengths of the loop
}

TEST(HybridFunction, GradientsThroughBranches) {
  auto body = [](const Tensor& x) { return x.sum() > 0 ? x * x : x * 3; };
  auto f = hybrid(body);
  for (double v : {2.0, -2.0, 2.0, -2.0}) {
    Tensor x = full({2}, v);
    x.attach_grad();
    {
      const auto record = autograd::record();
      f(x).backward();
    }
    EXPECT_TRUE(same_bits(x.grad(), full({2}, v > 0 ? 4 : 3)));
  }
}

TEST(HybridFunction, StrictNamesTheRead) {
  auto f = hybrid([](const Tensor& x) { return x.sum().item() > 0 ? x : -x; }, {.strict = true});
  GLUINO_EXPECT_ERROR(UserError, "is read while the function is being traced", f(ones({2})));
}

TEST(HybridFunction, InPlaceIndexingAndCreationTrace) {
  auto body = [](const Tensor& x) {
    Tensor y = x.copy();
    y[{Slice(0, 1), Slice()}] = zeros({1, 3});
    y += ones({3});
    y[1] *= full({3}, 2);
    return y[{Slice(), Slice({}, {}, -1)}];
  };
  auto f = hybrid(body);
  const Tensor x = random_tensor({4, 3}, DType::float32, 9);
  EXPECT_TRUE(same_bits(f(x), body(x)));
  EXPECT_TRUE(same_bits(f(x), body(x)));
}

TEST(HybridFunction, ViewsAndTheirBasesStayInStep) {
  auto body = [](const Tensor& x) {
    Tensor y = x.copy();
    Tensor row = y[1], rows = y[Slice(0, 2)], flat = y.reshape({-1}), part = flat[Slice(4, 9)];
    row += ones({3});        // a view changes its base and its sisters
    y *= full({3}, 2);       // the base changes its views
    part -= full({5}, 0.5);  // a view of a view
    Tensor whole = rows.reshape({6});
    whole[0] = full({}, 7);
    return y + row + flat.reshape({3, 3}) + rows.sum();
  };
  auto f = hybrid(body);
  Tensor x = random_tensor({3, 3}, DType::float32, 4);
  const Tensor want = body(x);
  EXPECT_TRUE(same_bits(f(x), want));
  EXPECT_TRUE(same_bits(f(x), want));
  // On the tape the same program has the same answer, and a gradient.
  Tensors gradients;
  for (int round = 0; round < 3; ++round) {
    x.attach_grad();
    Tensor y;
    {
      const auto record = autograd::record();
      y = round == 0 ? body(x) : f(x);
    }
    EXPECT_TRUE(same_bits(y.detach(), want)) << round;
    y.backward();
    gradients.push_back(x.grad().copy());
  }
  EXPECT_TRUE(close(gradients[1], gradients[0]));
  EXPECT_TRUE(close(gradients[2], gradients[0]));
}

TEST(HybridFunction, UpdatesOfTheCallersTensorsHappen) {
  Tensor counter = zeros({1});
  auto f = hybrid([&](Tensor x) {
    counter += ones({1});
    x += ones({2});
    return x * 2;
  });
  Tensor x = zeros({2});
  EXPECT_TRUE(same_bits(f(x), full({2}, 2)));
  EXPECT_TRUE(same_bits(x, ones({2})));
  f(x);
  EXPECT_TRUE(same_bits(x, full({2}, 2)));
  EXPECT_TRUE(same_bits(counter, full({1}, 2)));
}

TEST(HybridFunction, StructuredArgumentsAndResults) {
  auto f = hybrid([](const std::vector<Tensor>& xs, double scale, const std::optional<Tensor>& bias) {
    Tensor sum = xs[0] * scale;
    for (size_t i = 1; i < xs.size(); ++i) sum = sum + xs[i];
    return std::tuple{bias ? sum + *bias : sum, std::vector<Tensor>{xs[0], sum}};
  });
  const Tensor a = ones({2}), b = full({2}, 3);
  auto [sum, list] = f(std::vector<Tensor>{a, b}, 2.0, std::optional<Tensor>(b));
  EXPECT_TRUE(same_bits(sum, full({2}, 8)));
  EXPECT_TRUE(same_bits(list[1], full({2}, 5)));
  auto [plain, other] = f(std::vector<Tensor>{a, b, b}, 1.0, std::optional<Tensor>());
  EXPECT_TRUE(same_bits(plain, full({2}, 7)));
}

TEST(HybridFunction, ExplainTellsWhatHappened) {
  auto f = hybrid([](const Tensor& x) { return exp(x * 1) + x.extent(0); });
  f(ones({2, 3}));
  const std::string text = f.explain();
  for (const char* part : {"1 traces", "extent 2 of axis 0 was read", "bytes planned", "before the passes", "after the passes", "exp0"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
}

TEST(HybridFunction, CallsKeepTheAttributesOfTheirScope) {
  auto f = hybrid([](const Tensor& x) {
    const AttrScope scope(StringMap{{"__ctx_group__", "one"}});
    return relu(x);
  });
  f(ones({2}));
  EXPECT_EQ(f.cache().symbol().attr("__ctx_group__"), "one");
}

}  // namespace
}  // namespace gluino::test
