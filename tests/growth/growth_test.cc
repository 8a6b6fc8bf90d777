// Costs grow with the work: programs of 1,000 and 4,000 calls, of every form that a graph can have, take four times the steps and not
// sixteen, at every stage.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "gluino/gluino.h"
#include "growth/work_counter.h"

namespace gluino::test {
namespace {

constexpr int kShort = 1000, kLong = 4000;
constexpr double kMostGrowth = 1.5;  // times what the number of calls grows by: sorting, and tables that are enlarged

// A function over tensors that makes about n calls, with what it reads from outside.
struct Program {
  Tensors inputs, captured;
  std::function<Tensors(const Tensors&)> function;
};
Tensors make_tensors(int n) {
  Tensors all;
  for (int i = 0; i < n; ++i) {
    all.push_back(full({4}, 0.5 + 0.1 * (i % 7)));
    all.back().attach_grad();
  }
  return all;
}
Tensor sum_in_pairs(Tensors level) {
  while (level.size() > 1) {
    Tensors next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2) next.push_back(level.back());
    level = std::move(next);
  }
  return level[0];
}

Program chain(int n) {
  Program p{make_tensors(1), make_tensors(n / 2), {}};
  p.function = [w = p.captured](const Tensors& in) -> Tensors {
    Tensor h = in[0];
    for (const Tensor& each : w) h = softmax(h * each);
    return {h};
  };
  return p;
}
// Every value is read twice: by the next one, and by one twice as far from the beginning.
Program skips(int n) {
  Program p{make_tensors(1), make_tensors(n / 2), {}};
  p.function = [w = p.captured](const Tensors& in) -> Tensors {
    Tensors all{in[0]};
    for (const Tensor& each : w) all.push_back(softmax(all.back() * each + all[all.size() / 2]));
    return {all.back()};
  };
  return p;
}
Program wide(int n) {
  Program p{make_tensors(1), make_tensors(n), {}};
  p.function = [w = p.captured](const Tensors& in) -> Tensors {
    Tensors all;
    for (const Tensor& each : w) all.push_back(softmax(in[0] * each));
    return {add_n(all), concat(all, {.dim = 0})};
  };
  return p;
}
Program tree(int n) {
  Program p{make_tensors(1), make_tensors(n / 2), {}};
  p.function = [w = p.captured](const Tensors& in) -> Tensors {
    Tensors all;
    for (const Tensor& each : w) all.push_back(relu(in[0] * each));
    return {sum_in_pairs(all)};
  };
  return p;
}
// One value that all others read, and one of which only the shape is asked.
Program hub(int n) {
  Program p{make_tensors(1), {}, {}};
  p.function = [n](const Tensors& in) -> Tensors {
    const Tensor scale = exp(mean(in[0]));
    Tensor h = in[0];
    for (int i = 0; i < n / 3; ++i) h = softmax(h * scale) + zeros_like(in[0]);
    return {h};
  };
  return p;
}
Program many_results(int n) {
  Program p{make_tensors(1), make_tensors(n), {}};
  p.function = [w = p.captured](const Tensors& in) {
    Tensors all;
    for (const Tensor& each : w) all.push_back(softmax(in[0] + each).reshape({2, 2}));
    return all;
  };
  return p;
}
Program many_inputs(int n) {
  Program p{make_tensors(n), {}, {}};
  p.function = [](const Tensors& in) -> Tensors { return {sum_in_pairs(in)}; };
  return p;
}
Program views(int n) {
  Program p{make_tensors(1), {}, {}};
  p.function = [n](const Tensors& in) -> Tensors {
    Tensor h = in[0] * 2;
    for (int i = 0; i < n; ++i) h = h.reshape(i % 2 ? Shape{4} : Shape{2, 2});
    return {h + 1};
  };
  return p;
}
// Values that follow from parameters alone.
Program derived(int n) {
  Program p{make_tensors(1), make_tensors(n / 4), {}};
  p.function = [w = p.captured](const Tensors& in) -> Tensors {
    Tensor h = in[0];
    for (const Tensor& each : w) h = softmax(h + softmax(softmax(each)));
    return {h};
  };
  return p;
}
Program updates(int n) {
  Program p{make_tensors(1), {}, {}};
  for (int i = 0; i < n; ++i) p.captured.push_back(ones({4}));
  p.function = [w = p.captured](const Tensors& in) -> Tensors {
    for (Tensor each : w) each -= in[0];
    return {in[0] + 1};
  };
  return p;
}
// A value that is read decides what is done: two segments, of which each reads many tensors from outside.
Program decided(int n) {
  Program p{make_tensors(1), make_tensors(n / 2), {}};
  p.function = [w = p.captured](const Tensors& in) -> Tensors {
    Tensor h = in[0];
    const size_t half = w.size() / 2;
    for (size_t i = 0; i < half; ++i) h = softmax(h * w[i]);
    const bool is_decided = sum(h).item<float>() > 0;
    for (size_t i = half; i < w.size(); ++i) h = is_decided ? softmax(h + w[i]) : softmax(h - w[i]);
    return {h};
  };
  return p;
}
// What forward leaves in tensors from outside while gradients flow back to others.
Program averages(int n) {
  Program p{make_tensors(1), make_tensors(n / 4), {}};
  for (int i = 0; i < n / 4; ++i) p.captured.push_back(ones({4}));
  p.function = [w = p.captured](const Tensors& in) -> Tensors {
    Tensor h = in[0];
    const size_t half = w.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      h = softmax(h * w[i]);
      const autograd::Scope paused = autograd::pause();
      Tensor average = w[half + i];
      average *= 0.5;
    }
    return {h};
  };
  return p;
}
// One operator on one value many times, told apart by its attributes alone.
Program alike(int n) {
  Program p{make_tensors(1), {}, {}};
  p.function = [n](const Tensors& in) -> Tensors {
    Tensors all;
    for (int i = 0; i < n / 2; ++i) all.push_back(softmax(in[0] + i));
    return {add_n(all)};
  };
  return p;
}
Program states(int n) {
  Program p{{ones({2, 4})}, {}, {}};
  auto net = std::make_shared<nn::HybridSequential>();
  for (int i = 0; i < n / 2; ++i) net->add(nn::BatchNorm(), nn::Activation("tanh"));
  net->initialize();
  p.function = [net](const Tensors& in) -> Tensors { return {(*net)(in[0])}; };
  return p;
}

struct Form {
  const char* name;
  Program (*make)(int);
  bool is_differentiated = true;
  bool is_one_graph = true;
};
const Form kForms[] = {{"chain", chain},
                       {"skips", skips},
                       {"wide", wide},
                       {"tree", tree},
                       {"hub", hub},
                       {"many results", many_results},
                       {"many inputs", many_inputs},
                       {"views", views},
                       {"derived", derived},
                       {"updates", updates, false},
                       {"averages", averages},
                       {"alike", alike},
                       {"decided", decided, true, false},
                       {"states", states}};

using Stages = std::vector<std::pair<std::string, Work>>;

Stages work_of_stages(const Form& form, int n) {
  const Program program = form.make(n);
  Stages stages;
  const auto stage = [&](std::string name, const auto& f) { stages.emplace_back(std::move(name), work_of(f)); };
  auto cache = std::make_unique<HybridCache>();
  const auto call = [&] {
    return cache->call([&](const Tensors& in) { return HybridCache::Result{program.function(in), nullptr}; }, program.inputs).tensors;
  };
  const auto step = [&] {
    Tensors results;
    {
      const autograd::Scope recording = autograd::record();
      results = call();
    }
    autograd::backward(results);
  };
  stage("first call", call);
  stage("call", call);
  if (form.is_differentiated) {
    stage("first step", step);
    stage("step", step);
  }
  if (form.is_one_graph) {
    Symbol symbol;
    stage("symbol", [&] { symbol = cache->symbol(); });
    std::string json;
    stage("to JSON", [&] { json = symbol.to_json(); });
    stage("from JSON", [&] { Symbol::from_json(json, "test"); });
  }
  stage("explain", [&] { cache->explain(); });
  stage("release", [&] { cache = nullptr; });
  return stages;
}

void compare(const std::string& what, const Stages& few, const Stages& many, double factor) {
  ASSERT_EQ(few.size(), many.size());
  for (size_t i = 0; i < few.size(); ++i) {
    const auto& [stage, little] = few[i];
    const Work& much = many[i].second;
    EXPECT_GT(much.allocations + much.blocks, 0) << what << ", " << stage;
    EXPECT_LE(static_cast<double>(much.blocks), kMostGrowth * factor * static_cast<double>(little.blocks) + 1000) << what << ", " << stage;
    EXPECT_LE(static_cast<double>(much.allocations), kMostGrowth * factor * static_cast<double>(little.allocations) + 1000)
        << what << ", " << stage;
  }
}

class Growth : public testing::TestWithParam<Form> {};
TEST_P(Growth, IsThatOfTheWork) {
  work_of_stages(GetParam(), 10);  // what only the first call of a process does
  compare(GetParam().name, work_of_stages(GetParam(), kShort), work_of_stages(GetParam(), kLong), double{kLong} / kShort);
}
INSTANTIATE_TEST_SUITE_P(Forms, Growth, testing::ValuesIn(kForms), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

Stages work_of_network(int layers) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / fmt::format("growth-{}", getpid());
  std::filesystem::create_directory(folder);
  const std::string path = folder / "net";
  Stages stages;
  const auto stage = [&](std::string name, const auto& f) { stages.emplace_back(std::move(name), work_of(f)); };
  nn::HybridSequential net;
  stage("build", [&] {
    for (int i = 0; i < layers; ++i) net.add(nn::Dense(4), nn::LayerNorm());
  });
  stage("initialize", [&] { net.initialize(); });
  const Tensor x = ones({2, 4});
  stage("eager call", [&] { net(x); });
  const auto step = [&] {
    Tensor y;
    {
      const autograd::Scope recording = autograd::record();
      y = net(x);
    }
    y.backward();
  };
  stage("eager step", step);
  net.hybridize();
  stage("first call", [&] { net(x); });
  stage("first step", step);
  stage("step", step);
  Trainer trainer(net.collect_params(), optimizer::sgd({.learning_rate = 0.1, .momentum = 0.9}));
  stage("first update", [&] { trainer.step(1); });
  step();
  stage("update", [&] { trainer.step(1); });
  stage("save", [&] { net.save_parameters(path + ".params"); });
  stage("load", [&] { net.load_parameters(path + ".params"); });
  net(x);
  stage("export", [&] { net.export_model(path); });
  std::unique_ptr<SymbolBlock> imported;
  stage("import", [&] { imported = SymbolBlock::imports(path + "-symbol.json", {"data"}, path + "-0000.params"); });
  stage("call of the imported", [&] { (*imported)(x); });
  stage("summary", [&] { net.summary({{2, 4}}); });
  stage("release", [&] { imported = nullptr; });
  std::filesystem::remove_all(folder);
  return stages;
}
TEST(Growth, OfANetworkIsThatOfItsLayers) {
  work_of_network(4);
  compare("network", work_of_network(kShort / 4), work_of_network(kLong / 4), double{kLong} / kShort);
}

// Passes hand nodes on instead of copying them: about 700 for a layer of two calls and four parameters, and 2,400 with copies.
TEST(Growth, AFirstCallAllocatesLittleForEachLayer) {
  const int layers = kShort / 4, most_per_layer = 1200;
  nn::HybridSequential net;
  for (int i = 0; i < layers; ++i) net.add(nn::Dense(4), nn::LayerNorm());
  net.initialize();
  const Tensor x = ones({2, 4});
  net(x);
  net.hybridize();
  EXPECT_LE(work_of([&] { net(x); }).allocations, int64_t{most_per_layer} * layers);
}

}  // namespace
}  // namespace gluino::test
