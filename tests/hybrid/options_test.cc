// The options of hybridize(), what refuses to be exported, and names of exported inputs.
#include <unistd.h>

#include <filesystem>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

TEST(HybridOptions, VerifyAcceptsWhatAgreesAndNamesWhatDoesNot) {
  auto good = hybrid([](const Tensor& x) { return softmax(x * 2 + 1); }, {.verify = true});
  const Tensor x = random_tensor({3, 4}, DType::float32, 1);
  EXPECT_TRUE(same_bits(good(x), softmax(x * 2 + 1)));
  // Depends on how often it ran: the compiled program keeps the first answer.
  int runs = 0;
  auto bad = hybrid([&](const Tensor& in) { return in + ++runs; }, {.verify = true});
  GLUINO_EXPECT_ERROR(UserError, "verify: output 0 differs", bad(x));
}

TEST(HybridOptions, VerifyKnowsHowHalfNumbersAreRounded) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    auto good = hybrid([](const Tensor& in) { return exp(in) / exp(in).sum(1, true) * sqrt(abs(in) + 1); }, {.verify = true});
    Tensor x = random_tensor({2, 300}, dtype, 1);
    x.attach_grad();
    const auto recording = autograd::record();
    EXPECT_NO_THROW(good(x)) << dtype_name(dtype);
    int runs = 0;
    auto bad = hybrid([&](const Tensor& in) { return in * (1 + 0.05 * ++runs); }, {.verify = true});
    GLUINO_EXPECT_ERROR(UserError, "verify: output 0 differs", bad(x));
    // An error in what is small beside the rest is one in the gradient, too.
    int others = 0;
    auto worse = hybrid([&](const Tensor& in) { return in + 0.1 * (in.detach() - in) * (++others > 1); }, {.verify = true});
    GLUINO_EXPECT_ERROR(UserError, "the gradient of", worse(x));
  }
}

TEST(HybridOptions, StaticShapeRefusesOthers) {
  auto f = hybrid([](const Tensor& x) { return x * 2; }, {.static_alloc = true, .static_shape = true});
  f(ones({2, 3}));
  GLUINO_EXPECT_ERROR(ShapeError, "static_shape", f(ones({4, 3})));
  EXPECT_TRUE(same_bits(f(ones({2, 3})), full({2, 3}, 2)));
}

TEST(HybridOptions, StaticAllocKeepsTheArena) {
  auto f = hybrid([](const Tensor& x) { return exp(x.reshape({8, 8})).transpose().sum(); }, {.static_alloc = true});
  f(ones({64}));
  const int64_t before = memory_stats().allocations;
  f(ones({64}));
  const int64_t with = memory_stats().allocations - before;
  auto g = hybrid([](const Tensor& x) { return exp(x.reshape({8, 8})).transpose().sum(); });
  g(ones({64}));
  const int64_t start = memory_stats().allocations;
  g(ones({64}));
  EXPECT_EQ(memory_stats().allocations - start, with + 1);
}

TEST(HybridOptions, PlansAreBounded) {
  auto f = hybrid([](const Tensor& x) { return x * 2; }, {.max_plans = 3});
  for (int64_t n : {1, 2, 3, 4, 4, 3, 2, 1}) EXPECT_TRUE(same_bits(f(ones({n})), full({n}, 2)));
  EXPECT_EQ(f.cache().stats().traces, 1);
  EXPECT_EQ(f.cache().stats().plans, 5);  // the plan for 1 had gone
}

TEST(HybridOptions, APrefixThatOnlyGrowsIsNotPlannedPerToken) {
  auto f = hybrid([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 20; ++i) y = tanh(y) * 1.5;
    return y;
  });
  for (int64_t n = 1; n <= 60; ++n) EXPECT_TRUE(same_bits(f(ones({n})), f(ones({n + 1}))[Slice(0, n)])) << n;
  EXPECT_EQ(f.cache().stats().traces, 1);
  const int64_t planned = f.cache().stats().plans;
  for (int64_t n = 100; n <= 200; ++n) f(ones({n}));  // never met before, never met again
  EXPECT_EQ(f.cache().stats().plans, planned);
  for (int64_t n = 100; n <= 200; ++n) f(ones({n}));  // the next text
  EXPECT_EQ(f.cache().stats().plans, planned + 101);
  EXPECT_EQ(f.cache().stats().traces, 1);
}

struct Branching : nn::HybridBlock {
  Tensor forward(const Tensor& x) override { return x.sum() > 0 ? x : -x; }
};

TEST(Export, OfAProgramThatReadsValuesExplainsWhy) {
  Branching net;
  net.hybridize();
  net(ones({2}));
  GLUINO_EXPECT_ERROR(UserError, "it is several graphs and not one; use where, cond, foreach or while_loop",
                      net.export_model("/nowhere/model"));
  EXPECT_NE(net.explain().find("segment of"), std::string::npos);
}

struct TwoInputs : nn::HybridBlock {
  nn::Dense left{3}, right{3}, unused{5, {.in_units = 4}};
  TwoInputs() { GLUINO_CHILDREN(left, right, unused); }
  Tensor forward(const Tensor& a, const Tensor& b) override { return left(a) + right(b); }
};

TEST(Export, NamesInputsAndLeavesOutUnusedParameters) {
  const std::string path = (fs::temp_directory_path() / ("gluino_two_inputs_" + std::to_string(::getpid()))).string();
  TwoInputs net;
  net.initialize();
  net.hybridize();
  const Tensor a = random_tensor({2, 4}, DType::float32, 1), b = random_tensor({2, 6}, DType::float32, 2), want = net(a, b);
  net.export_model(path, 12);
  const NamedTensors file = load_tensors(path + "-0012.params");
  EXPECT_EQ(file.size(), 4u);
  auto loaded = SymbolBlock::imports(path + "-symbol.json", {}, path + "-0012.params");
  EXPECT_EQ(loaded->inputs(), (std::vector<std::string>{"data0", "data1"}));
  EXPECT_TRUE(same_bits((*loaded)(a, b), want));
  fs::remove(path + "-symbol.json");
  fs::remove(path + "-0012.params");
}

TEST(Export, WorksRightAfterInitializeWhenShapesAreGiven) {
  const std::string path = (fs::temp_directory_path() / ("gluino_built_" + std::to_string(::getpid()))).string();
  nn::HybridSequential net;
  net.add(nn::Dense(4, {.activation = "relu", .in_units = 3}), nn::Dense(2, {.in_units = 4}));
  net.initialize();
  net.export_model(path);
  auto loaded = SymbolBlock::imports(path + "-symbol.json", {"data"}, path + "-0000.params");
  EXPECT_TRUE(same_bits((*loaded)(ones({1, 3})), net(ones({1, 3}))));
  fs::remove(path + "-symbol.json");
  fs::remove(path + "-0000.params");
}

TEST(Export, TakesWhatPredictsAfterTraining) {
  struct Modal : nn::HybridBlock {
    Tensor last;
    Tensor forward(const Tensor& x) override {
      last = x * 3;
      return autograd::is_training() ? x * 2 : x + 1;
    }
  } net;
  net.hybridize();
  const Tensor x = ones({2, 3});
  const auto exported = [&] { return net.symbol().eval({{"data", x * 3}})[0].to_vector<float>()[0]; };
  {
    const auto train = autograd::train_mode();
    net(x);
  }
  GLUINO_EXPECT_ERROR(UserError, "call it once outside of training first", net.symbol());
  EXPECT_FALSE(net.last.is_symbolic()) << "forward was run for the export";
  net(x);
  EXPECT_EQ(exported(), 4);
  {
    const auto train = autograd::train_mode();
    net(x);
    net(ones({2, 5}));
  }
  EXPECT_EQ(exported(), 4);
}

TEST(Import, TrainsFurther) {
  nn::HybridSequential net;
  net.add(nn::Dense(4, {.activation = "relu"}), nn::BatchNorm(), nn::Dense(2));
  net.initialize();
  const Tensor x = random_tensor({8, 3}, DType::float32, 1), y = zeros({8});
  net(x);
  const std::string path = (fs::temp_directory_path() / ("gluino_train_" + std::to_string(::getpid()))).string();
  net.export_model(path);
  auto loaded = SymbolBlock::imports(path + "-symbol.json", {"data"}, path + "-0000.params");
  loss::SoftmaxCrossEntropyLoss loss_of;
  Trainer trainer(loaded->collect_params(), optimizer::sgd({.learning_rate = 0.1}));
  std::vector<double> losses;
  for (int step = 0; step < 20; ++step) {
    if (step == 10) loaded->hybridize();
    Tensor loss;
    {
      const auto record = autograd::record();
      loss = loss_of((*loaded)(x), y);
    }
    loss.backward();
    trainer.step(8);
    losses.push_back(loss.mean().item<double>());
  }
  EXPECT_LT(losses.back(), losses.front() / 2);
  fs::remove(path + "-symbol.json");
  fs::remove(path + "-0000.params");
}

}  // namespace
}  // namespace gluino::test
