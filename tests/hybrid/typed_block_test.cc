// Blocks whose forward takes tensors, numbers, optionals and structs: the same eager and hybridized, alone, in containers and in files.
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

struct Attend : nn::HybridBlockOf<Attend> {
  nn::Dense query{4, {.flatten = false, .in_units = 3}};
  int runs = 0;
  Attend() { GLUINO_CHILDREN(query); }
  Tensor forward(const Tensor& x, const std::optional<Tensor>& mask, double temperature) {
    ++runs;
    const Tensor scores = query(x) * temperature;
    return mask ? scores * *mask : scores;
  }
};

struct Pair {
  Tensor left, right;
  int64_t times = 1;
  auto members() { return std::tie(left, right, times); }
};
struct Swap : nn::HybridBlockOf<Swap> {
  Pair forward(const Pair& p, const std::string& how) {
    return how == "swap" ? Pair{p.right * static_cast<double>(p.times), p.left, p.times + 1} : p;
  }
};

struct Optional : nn::HybridBlockOf<Optional> {
  Tensor forward(const Tensor& x, const std::optional<Tensor>& shift) { return shift ? x + *shift : x * 2; }
};
struct Several : nn::HybridBlockOf<Several> {
  Tensors forward(const Tensor& x, double step) { return {x, x + step}; }
};
struct Counter : nn::HybridBlockOf<Counter> {
  Tensor seen = zeros({1});
  void forward(const Tensor& x, double by) { seen.assign((x * by).sum().reshape({1})); }
};

TEST(TypedBlock, OptionalsAndNumbersArePartOfTheSignature) {
  const Tensor x = random_tensor({2, 3}, DType::float32, 1), mask = tensor({{1, 0, 1, 0}, {0, 1, 0, 1}});
  Attend eager, compiled;
  for (Attend* a : {&eager, &compiled}) {
    seed(3);
    a->initialize();
  }
  compiled.hybridize();
  for (int round = 0; round < 3; ++round)
    for (const bool with_mask : {false, true})
      for (const double temperature : {0.5, 2.0}) {
        const auto given = with_mask ? std::optional(mask) : std::nullopt;
        EXPECT_TRUE(all_close(compiled(x, given, temperature), eager(x, given, temperature), 1e-6, 1e-7));
      }
  EXPECT_EQ(eager.runs, 12);
  EXPECT_EQ(compiled.runs, 4) << "one trace for each signature";
  EXPECT_EQ(compiled.cache().stats().calls, 12);
}

TEST(TypedBlock, GradientsFollow) {
  Tensors gradients;
  for (const bool hybridized : {false, true}) {
    seed(3);
    Attend net;
    net.initialize();
    if (hybridized) net.hybridize();
    Tensor y;
    {
      const auto record = autograd::record();
      y = net(random_tensor({2, 3}, DType::float32, 1), tensor({1, 0, 1, 0}), 3.0).sum();
    }
    y.backward();
    gradients.push_back(net.query.weight->grad());
  }
  EXPECT_TRUE(all_close(gradients[0], gradients[1], 1e-6, 1e-7));
}

TEST(TypedBlock, StructsThatListTheirMembers) {
  Swap block;
  for (const bool hybridized : {false, true}) {
    block.hybridize(hybridized);
    const Pair made = block(Pair{tensor({1}), tensor({2}), 3}, "swap");
    EXPECT_EQ(made.left.item<double>(), 6);
    EXPECT_EQ(made.right.item<double>(), 1);
    EXPECT_EQ(made.times, 4);
    EXPECT_EQ(block(Pair{tensor({1}), tensor({2}), 3}, "keep").times, 3);
  }
  const auto f = hybrid([](const Pair& p) { return Pair{p.left + p.right, p.right, p.times}; });
  EXPECT_EQ(f(Pair{tensor({1}), tensor({2}), 7}).left.item<double>(), 3);
}

TEST(TypedBlock, ResultsOfOtherKinds) {
  Several several;
  several.hybridize();
  const Tensors both = several(tensor({1}), 1);
  EXPECT_EQ(both[1].item<double>(), 2);
  Counter counter;
  counter(tensor({1, 2}), 1);
  EXPECT_EQ(counter.seen.item<double>(), 3);
  counter.hybridize();
  for (const double x : {4.0, 5.0}) counter(tensor({x, 2}), 1);
  EXPECT_EQ(counter.seen.item<double>(), 7);
}

TEST(TypedBlock, InContainersAndFiles) {
  nn::HybridSequential net;
  net.add<Optional>();
  net.add(nn::Dense(2));
  net.initialize();
  const Tensor x = random_tensor({2, 3}, DType::float32, 1), eager = net(x);
  net.hybridize();
  EXPECT_TRUE(all_close(net(x), eager, 1e-6, 1e-7));
  const std::string path = ::testing::TempDir() + "gluino_typed";
  net.export_model(path);
  const auto loaded = SymbolBlock::imports(path + "-symbol.json", {}, path + "-0000.params");
  EXPECT_TRUE(all_close((*loaded)(x), eager, 1e-6, 1e-7));
  Block& plain = net[0];
  EXPECT_TRUE(all_close(plain(x, x), x + x, 1e-6, 1e-7));
}

TEST(TypedBlock, MistakesAreNamed) {
  nn::HybridSequential net;
  net.add<Attend>();
  net.initialize();
  GLUINO_EXPECT_ERROR(UserError, "its forward takes or gives more than tensors", net(ones({2, 3})));
  nn::HybridSequential other;
  other.add<Optional>();
  GLUINO_EXPECT_ERROR(UserError, "3 tensors were given, 1 to 2 are needed", other[0](ones({1}), ones({1}), ones({1})));
  GLUINO_EXPECT_ERROR(UserError, "0 tensors were given", other[0](Tensors{}));
}

}  // namespace
}  // namespace gluino::test
