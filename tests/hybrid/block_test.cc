// Blocks: names, files, hybridize, export, import; the reference documents' examples in C++.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  TemporaryFolder() : path(fs::temp_directory_path() / ("gluino_block_test_" + std::to_string(::getpid()))) {
    fs::create_directories(path);
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  fs::path path;
};

TEST(SymbolBlocks, AreCastAsTheirLayersAre) {
  const TemporaryFolder folder;
  nn::HybridSequential net;
  net.add(nn::Dense(3, {.in_units = 2}), nn::BatchNorm({.in_channels = 3}));
  net.initialize();
  net.hybridize();
  net(ones({2, 2}));
  net.export_model(folder / "net");
  auto imported = SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0000.params");
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float64}) {
    net.cast(dtype);
    imported->cast(dtype);
    std::map<std::string, DType> expected, found;
    for (const auto& [name, p] : net.collect_params()) expected[name] = p->dtype();
    for (const auto& [name, p] : imported->collect_params()) found[name.substr(name.find("hybrid"))] = p->dtype();
    EXPECT_EQ(found, expected) << dtype_name(dtype);
  }
}

struct Net : nn::HybridBlock {
  nn::Dense hidden{10}, output{2};
  int forwards = 0;
  Net() { GLUINO_CHILDREN(hidden, output); }
  Tensor forward(const Tensor& x) override {
    ++forwards;
    return output(relu(hidden(x)));
  }
};

std::unique_ptr<nn::HybridSequential> make_mlp() {
  auto net = std::make_unique<nn::HybridSequential>();
  net->add(nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}), nn::Dense(2));
  net->initialize();
  return net;
}

TEST(Block, HybridizeKeepsTheAnswerAndRunsForwardOnce) {
  Net net;
  net.initialize();
  const Tensor x = random_tensor({1, 4}, DType::float32, 1);
  const Tensor eager = net(x);
  net(x);
  EXPECT_EQ(net.forwards, 2);
  net.hybridize();
  EXPECT_TRUE(same_bits(net(x), eager));
  EXPECT_EQ(net.forwards, 3);
  EXPECT_TRUE(same_bits(net(x), eager));
  EXPECT_EQ(net.forwards, 3);
  net.hybridize(false);
  EXPECT_TRUE(same_bits(net(x), eager));
  EXPECT_EQ(net.forwards, 4);
}

TEST(Block, DeferredShapesAreCompletedByAHybridFirstCall) {
  Net net;
  net.initialize();
  net.hybridize();
  EXPECT_FALSE(net.hidden.weight->is_initialized());
  const Tensor y = net(ones({3, 7}));
  EXPECT_EQ(net.forwards, 1);
  EXPECT_EQ(net.hidden.weight->shape().str(), "(10, 7)");
  EXPECT_EQ(y.shape().str(), "(3, 2)");
  Net built;
  built.initialize();
  built.build({{3, 7}});
  EXPECT_EQ(built.output.weight->data().shape().str(), "(2, 10)");
}

TEST(Block, NamesAndPrefixes) {
  Net net;
  EXPECT_EQ(net.hidden.weight->name(), net.prefix() + "dense0_weight");
  EXPECT_EQ(net.output.bias->name(), net.prefix() + "dense1_bias");
  EXPECT_TRUE(net.prefix().starts_with("net"));
  const ParameterDict weights = net.collect_params(".*weight");
  EXPECT_EQ(weights.size(), 2u);
  EXPECT_TRUE(net.collect_structural_params().contains("hidden.weight"));
  EXPECT_EQ(net.str(), "Net(\n  (hidden): Dense(None -> 10, linear)\n  (output): Dense(None -> 2, linear)\n)");
}

TEST(Block, ErrorsNameTheMistake) {
  Net net;
  GLUINO_EXPECT_ERROR(UserError, "call initialize() on the network first", net(ones({1, 4})));
  net.initialize();
  net(ones({1, 4}));
  GLUINO_EXPECT_ERROR(ShapeError, "(in net.hidden, a Dense)", net(ones({1, 5})));
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'hidden'?", net.child("hiden"));
  struct Plain : nn::Block {
    Tensor forward(const Tensor& x) override { return x; }
  };
  nn::HybridSequential hybrid;
  GLUINO_EXPECT_ERROR(UserError, "its child '0' is a Plain, which is not", hybrid.add(Plain()));
}

TEST(Block, TheInnermostBlockNamesItselfWhateverTheMessageSays) {
  struct Picky : nn::Block {
    Tensor forward(const Tensor&) override { throw UserError("the size (in bytes) is odd"); }
  };
  struct Outer : nn::Block {
    Picky inner;
    Outer() { GLUINO_CHILDREN(inner); }
    Tensor forward(const Tensor& x) override { return inner(x); }
  };
  struct Outermost : nn::Block {
    Outer outer;
    Outermost() { GLUINO_CHILDREN(outer); }
    Tensor forward(const Tensor& x) override { return outer(x); }
  } net;
  try {
    net(ones({1}));
    FAIL();
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()), "the size (in bytes) is odd (in outermost.outer.inner, a Picky)");
  }
}

TEST(Block, APlainBlockHybridizesWhatIsBelow) {
  nn::Sequential net;
  auto& inner = net.add<Net>();
  net.initialize();
  const Tensor x = random_tensor({2, 4}, DType::float32, 3), want = net(x);
  net.hybridize();
  net(x);
  const int before = inner.forwards;
  EXPECT_TRUE(same_bits(net(x), want));
  EXPECT_EQ(inner.forwards, before);
}

TEST(Block, CacheIsInvalidatedByReinitCastAndReplacementButNotByValues) {
  Net net;
  net.initialize();
  net.hybridize();
  const Tensor x = random_tensor({2, 4}, DType::float32, 3);
  net(x);
  net.hidden.weight->set_data(net.hidden.weight->data() * 2);
  const int before = net.forwards;
  const Tensor doubled = net(x);
  EXPECT_EQ(net.forwards, before);
  net.hybridize(false);
  EXPECT_TRUE(same_bits(net(x), doubled));
  net.hybridize();
  net(x);
  net.initialize(init::one(), cpu(), true);
  const Tensor fresh = net(x);
  net.hybridize(false);
  EXPECT_TRUE(same_bits(net(x), fresh));
  net.hybridize();
  net.cast(DType::float64);
  EXPECT_EQ(net(x.astype(DType::float64)).dtype(), DType::float64);
  nn::HybridSequential sequence;
  sequence.add(nn::Dense(3));
  sequence.initialize();
  sequence.hybridize();
  sequence(x);
  sequence.replace_child("0", std::make_shared<nn::Dense>(5));
  sequence.initialize();
  EXPECT_EQ(sequence(x).shape().str(), "(2, 5)");
}

TEST(Block, ExportsForMXNetAndImports) {
  const TemporaryFolder folder;
  auto net = make_mlp();
  const Tensor x = random_tensor({4, 512}, DType::float32, 5);
  net->hybridize();
  const Tensor want = (*net)(x);
  net->export_model(folder / "my_mlp", 1);
  ASSERT_TRUE(fs::exists(folder / "my_mlp-symbol.json"));
  ASSERT_TRUE(fs::exists(folder / "my_mlp-0001.params"));
  auto loaded = SymbolBlock::imports(folder / "my_mlp-symbol.json", {"data"}, folder / "my_mlp-0001.params");
  EXPECT_TRUE(same_bits((*loaded)(x), want));
  loaded->hybridize();
  EXPECT_TRUE(same_bits((*loaded)(x), want));
  EXPECT_TRUE(same_bits((*loaded)(random_tensor({9, 512}, DType::float32, 6)), (*net)(random_tensor({9, 512}, DType::float32, 6))));
  auto inferred = SymbolBlock::imports(folder / "my_mlp-symbol.json", {}, folder / "my_mlp-0001.params");
  EXPECT_EQ(inferred->inputs(), std::vector<std::string>{"data"});
  net->save(folder / "my_mlp.gluino");
  auto one_file = SymbolBlock::load(folder / "my_mlp.gluino");
  EXPECT_TRUE(same_bits((*one_file)(x), want));
}

TEST(Block, CallWithASymbolGivesTheProgram) {
  auto net = make_mlp();
  const Symbol y = (*net)(sym::var("data"));
  EXPECT_EQ(y.list_arguments().front(), "data");
  EXPECT_EQ(y.list_arguments().size(), 7u);
  EXPECT_NE(y.to_json().find("FullyConnected"), std::string::npos);
  (*net)(ones({1, 512}));
  EXPECT_EQ((*net)(sym::var("data")).list_arguments(), y.list_arguments());
}

TEST(Block, SavesAndLoadsParametersUnderAllNames) {
  const TemporaryFolder folder;
  Net net;
  net.initialize();
  const Tensor x = random_tensor({2, 4}, DType::float32, 3), want = net(x);
  net.save_parameters(folder / "structural.params");
  net.collect_params().save(folder / "prefixed.params");
  for (const char* file : {"structural.params", "prefixed.params"}) {
    Net other;  // another prefix: net1_ for net0_
    other.load_parameters(folder / file);
    EXPECT_TRUE(same_bits(other(x), want));
  }
  net.load_parameters(folder / "prefixed.params");
  NamedTensors missing = load_tensors(folder / "structural.params");
  missing.pop_back();
  missing.front().first = "hiden.weight";
  save_tensors(folder / "missing.params", missing);
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'hidden.weight'", net.load_parameters(folder / "missing.params"));
  GLUINO_EXPECT_ERROR(UserError, "does not hold parameter 'hidden.weight'", net.load_parameters(folder / "missing.params", false, true));
  net.load_parameters(folder / "missing.params", true, true);
}

TEST(Block, HooksRunAtEveryCall) {
  Net net;
  net.initialize();
  int before = 0, after = 0;
  net.add_pre_hook([&](Block&, const Tensors& inputs) { before += static_cast<int>(inputs.size()); });
  const int number = net.add_hook([&](Block&, const Tensors&, const Tensors& outputs) { after += static_cast<int>(outputs[0].extent(0)); });
  net.hybridize();
  for (int i = 0; i < 3; ++i) net(ones({2, 4}));
  EXPECT_EQ(before, 3);
  EXPECT_EQ(after, 6);
  net.remove_hook(number);
  net(ones({2, 4}));
  EXPECT_EQ(after, 6);
}

TEST(Block, SummaryCountsParameters) {
  Net net;
  net.initialize();
  const std::string text = net.summary({{1, 4}});
  EXPECT_NE(text.find("72 parameters"), std::string::npos) << text;
  EXPECT_EQ(net.forwards, 1);
}

TEST(Block, WhatTheDocumentsSayCannotBeHybridizedCan) {
  struct Everything : nn::HybridBlock {
    Tensor forward(const Tensor& x) override {
      Tensor y = x + ones({1, 1});             // broadcasting +
      y = y * (x == x) + (x >= y) - (x != y);  // comparisons
      y += tensor({1, 2, 3});                  // in place, and creation from numbers
      y -= full({3}, 0.5);
      y = y[{Slice(), Slice(0, 2)}];                    // []
      y = y.reshape({y.extent(0), -1}) * y.shape()[1];  // shape
      return y % 3 / linspace(1, 2, 2);
    }
  };
  Everything net;
  const Tensor x = random_tensor({4, 3}, DType::float32, 11), eager = net(x);
  net.hybridize();
  EXPECT_TRUE(same_bits(net(x), eager));
  EXPECT_TRUE(same_bits(net(x), eager));
}

TEST(Block, RandomShapesNeedNoNewTraceAndNoMoreMemory) {
  auto net = make_mlp();
  net->hybridize();
  (*net)(ones({64, 512}));
  const int64_t baseline = memory_stats().live;
  std::mt19937 engine(5);
  reset_peak();
  { const Tensor largest = (*net)(ones({64, 512})); }
  const int64_t largest_peak = memory_stats().peak;
  reset_peak();
  for (int i = 0; i < 1000; ++i) (*net)(ones({1 + static_cast<int64_t>(engine() % 64), 512}));
  EXPECT_EQ(net->cache().stats().traces, 1);
  EXPECT_LE(memory_stats().peak, largest_peak * 11 / 10);
  EXPECT_LE(memory_stats().live, baseline * 11 / 10);
}

TEST(Threads, HybridizeAndExplainWhileOthersCall) {
  nn::HybridSequential net;
  net.add(nn::Dense(8, {.activation = "tanh", .in_units = 4}), nn::Dense(3, {.in_units = 8}));
  net.initialize();
  const Tensor x = random_tensor({2, 4}, DType::float32, 5);
  const Tensor want = net(x);
  net.hybridize();
  net(x);
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      while (!done)
        if (!close(net(x), want)) ++wrong;
    });
  for (int i = 0; i < 100; ++i) {
    net.hybridize(i % 5 != 4);
    net.explain();
    if (i % 7 == 0) net.clear_caches();
    std::this_thread::yield();
  }
  done = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Block, RandomLengthsNeedNoNewTraceAndNoMoreMemory) {
  nn::HybridSequential net;
  net.add(nn::Dense(32, {.activation = "tanh", .flatten = false}), nn::HybridLambda([](const Tensor& x) { return x.mean(Shape{1}); }),
          nn::Dense(4));
  net.initialize();
  net.hybridize();
  net(ones({16, 40, 8}));
  const int64_t baseline = memory_stats().live;
  reset_peak();
  { const Tensor largest = net(ones({16, 40, 8})); }
  const int64_t largest_peak = memory_stats().peak;
  reset_peak();
  std::mt19937 engine(7);
  for (int i = 0; i < 1000; ++i) net(ones({1 + static_cast<int64_t>(engine() % 16), 1 + static_cast<int64_t>(engine() % 40), 8}));
  EXPECT_EQ(net.cache().stats().traces, 1);
  EXPECT_LE(memory_stats().peak, largest_peak * 11 / 10);
  EXPECT_LE(memory_stats().live, baseline * 11 / 10);
}

TEST(Block, EightThreadsShareOneNet) {
  auto net = make_mlp();
  net->hybridize();
  std::vector<Tensor> inputs, wants;
  for (int i = 0; i < 8; ++i) {
    inputs.push_back(random_tensor({1 + i, 512}, DType::float32, static_cast<uint64_t>(i)));
    wants.push_back((*net)(inputs.back()));
  }
  net->clear_caches();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 50; ++k) wrong += !same_bits((*net)(inputs[t]), wants[t]);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Block, ChildrenAndParentsMayEndInAnyOrder) {
  nn::HybridSequential parent;
  {
    nn::Dense child(3);
    parent.add_child("child", child);
    EXPECT_EQ(parent.children().size(), 1u);
  }
  EXPECT_TRUE(parent.children().empty());
  EXPECT_EQ(parent.collect_params().size(), 0u);

  const auto shared = std::make_shared<nn::Dense>(3);
  ParameterPtr weight;
  std::string name;
  {
    nn::HybridSequential owner;
    owner.own_child("0", shared);
    weight = shared->weight;
    name = weight->name();
  }
  shared->initialize();
  EXPECT_EQ((*shared)(ones({2, 4})).shape(), (Shape{2, 3}));
}

TEST(Block, ParametersKeepTheirNamesWhenTheirBlockEnds) {
  ParameterPtr weight;
  std::string name;
  {
    nn::Dense layer(3);
    weight = layer.weight;
    name = weight->name();
  }
  EXPECT_EQ(weight->name(), name);
}

TEST(Block, NoBlockIsBelowItself) {
  auto outer = std::make_shared<nn::HybridSequential>(), inner = std::make_shared<nn::HybridSequential>();
  outer->own_child("inner", inner);
  GLUINO_EXPECT_ERROR(UserError, "cannot be a child of itself", outer->add_child("self", *outer));
  GLUINO_EXPECT_ERROR(UserError, "cannot be a child of itself", inner->own_child("outer", outer));
}

struct Wide : nn::HybridBlock {
  nn::Dense a{1}, b{1}, c{1}, d{1}, e{1}, f{1}, g{1}, h{1}, i{1}, j{1};
  Wide() { GLUINO_CHILDREN(a, b, c, d, e, f, g, h, i, j); }
  Tensor forward(const Tensor& x) override { return a(x) + j(x); }
};
TEST(Block, LayersThatAreMadeOfLayersCanBeAdded) {
  nn::HybridSequential net;
  net.add(nn::TransformerEncoderLayer(4, 8, 2, {.dropout = 0}), nn::MultiHeadAttention(4, 2));
  net.initialize();
  const Tensor x = random_tensor({2, 3, 4}, DType::float32, 1), want = net(x);
  EXPECT_EQ(net[0].child("attention").path(), "hybridsequential.0.attention");
  net.hybridize();
  EXPECT_TRUE(close(net(x), want));
  nn::SequentialRNNCell cells;
  cells.add(std::make_shared<nn::DropoutCell>(nn::DropoutCell(0.5)));  // moved
  EXPECT_EQ(cells.child(0).children().size(), 1u);
}

TEST(Block, AnyNumberOfMembersAreChildren) {
  const Wide net;
  ASSERT_EQ(net.children().size(), 10u);
  EXPECT_EQ(net.children()[0].name, "a");
  EXPECT_EQ(net.children()[9].name, "j");
}

}  // namespace
}  // namespace gluino::test
