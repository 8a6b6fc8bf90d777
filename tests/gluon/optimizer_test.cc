// Every optimizer of the registry: recorded runs, the same step in every mode, states that survive a file; schedules; the trainer.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

struct Net : nn::HybridBlock {
  nn::Dense hidden{6, {.activation = "tanh"}}, output{3};
  Net() { GLUINO_CHILDREN(hidden, output); }
  Tensor forward(const Tensor& x) override { return output(hidden(x)); }
};

// As if backward() had written it.
void set_gradient(Parameter& p, const Tensor& gradient) {
  p.grad().assign(gradient);
  autograd::set_fresh_grad(p.data(), true);
}

double train_step(Block& net, Trainer& trainer, const Tensor& x, const Tensor& y) {
  loss::L2Loss loss_of;
  Tensor loss;
  {
    const auto record = autograd::record();
    loss = loss_of(net(x), y);
  }
  loss.backward();
  trainer.step(static_cast<double>(x.extent(0)));
  return loss.mean().item<double>();
}

Tensor flat_parameters(const Block& net) {
  Tensors parts;
  for (const auto& [name, p] : net.collect_params()) parts.push_back(p->reduced().reshape({-1}));
  return concat(parts, {.dim = 0});
}

// ---- recorded runs of 12 updates of one weight

nlohmann::json recorded_runs() {
  const auto shared = shared_folder();
  return shared ? nlohmann::json::parse(std::ifstream(*shared + "/golden/optimizers.json")) : nlohmann::json::object();
}
AttrValue option_value(const nlohmann::json& v) {
  if (v.is_boolean()) return v.get<bool>();
  return v.get<double>();
}

TEST(RecordedOptimizers, AreFollowedStepByStep) {
  if (!shared_folder()) GTEST_SKIP() << "no folder of golden vectors: set GLUINO_SHARED to run them";
  const nlohmann::json runs = recorded_runs();
  ASSERT_GE(runs.size(), 13u);
  for (const auto& [key, run] : runs.items()) {
    SCOPED_TRACE(key);
    optimizer::NamedOptions options;
    for (const auto& [name, value] : run.at("params").items()) options.emplace_back(name, option_value(value));
    const NamedTensors file = load_tensors(*shared_folder() + "/golden/opt_" + key + ".npz");
    const Tensor grads = *find_tensor(file, "grads"), weights = *find_tensor(file, "weights");
    ParameterDict dict;
    dict.add("weight", std::make_shared<Parameter>("weight", ParameterOptions{.shape = {4, 5}}));
    dict["weight"]->set_data(weights[0]);
    Trainer trainer(dict, run.at("name").get<std::string>(), options);
    for (int step = 0; step < 12; ++step) {
      set_gradient(*dict["weight"], grads[step]);
      trainer.step(1);
      ASSERT_TRUE(close(dict["weight"]->data(), weights[step + 1], 1e-4, 1e-6)) << "step " << step;
    }
  }
}

// ---- every optimizer

class EveryOptimizer : public ::testing::TestWithParam<std::string> {
 protected:
  const Tensor x_ = random_tensor({8, 4}, DType::float32, 1), y_ = random_tensor({8, 3}, DType::float32, 2);
  optimizer::NamedOptions options_{{"learning_rate", 0.003}, {"wd", 0.001}};
  void start(Net& net) const {
    seed(5);
    net.initialize(init::xavier());
  }
};

TEST_P(EveryOptimizer, LowersTheLossTheSameEagerAndHybridized) {
  Tensor results[2];
  for (const bool hybridized : {false, true}) {
    Net net;
    start(net);
    if (hybridized) net.hybridize();
    Trainer trainer(net.collect_params(), GetParam());
    double first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
      last = train_step(net, trainer, x_, y_);
      if (i == 0) first = last;
    }
    EXPECT_TRUE(last < first || GetParam() == "sgld") << last << " after " << first;  // sgld samples: it need not go down
    results[hybridized] = flat_parameters(net);
  }
  EXPECT_TRUE(close(results[1], results[0], 1e-4, 1e-5));
}

TEST_P(EveryOptimizer, GoesOnFromAFileAsIfNeverInterrupted) {
  const std::string folder = ::testing::TempDir() + "gluino_optimizer_" + GetParam();
  std::filesystem::create_directories(folder);
  Net straight;
  start(straight);
  Trainer trainer(straight.collect_params(), GetParam(), options_);
  for (int i = 0; i < 3; ++i) train_step(straight, trainer, x_, y_);
  straight.save_parameters(folder + "/net.params");
  trainer.save_states(folder + "/net.states");
  Net resumed;
  resumed.load_parameters(folder + "/net.params");
  Trainer second(resumed.collect_params(), GetParam(), options_);
  second.load_states(folder + "/net.states");
  EXPECT_EQ(second.num_update(), 3);
  for (int i = 0; i < 3; ++i) {
    seed(100 + i);
    train_step(straight, trainer, x_, y_);
    seed(100 + i);
    train_step(resumed, second, x_, y_);
  }
  EXPECT_TRUE(same_bits(flat_parameters(resumed), flat_parameters(straight)));
  std::filesystem::remove_all(folder);
}

TEST_P(EveryOptimizer, RescalesClipsAndMultiplies) {
  auto weight_after = [&](double gradient, optimizer::NamedOptions options, double batch, double lr_mult) {
    ParameterDict dict;
    dict.add("weight", std::make_shared<Parameter>("weight", ParameterOptions{.shape = {2, 3}, .lr_mult = lr_mult}));
    dict["weight"]->set_data(random_tensor({2, 3}, DType::float32, 3));
    Trainer trainer(dict, GetParam(), options);
    for (int i = 0; i < 3; ++i) {
      seed(9);
      set_gradient(*dict["weight"], random_tensor({2, 3}, DType::float32, 4 + i) * gradient);
      trainer.step(batch);
    }
    return dict["weight"]->data();
  };
  // 10 g in a batch of 10 is g; clipping at 0.25 of what is 4 g is clipping of g at 0.25 of the same.
  EXPECT_TRUE(close(weight_after(10, options_, 10, 1), weight_after(1, options_, 1, 1), 1e-4, 1e-6));
  optimizer::NamedOptions clip = options_;
  clip.emplace_back("clip_gradient", 1e-3);
  clip[1].second = 0.0;
  EXPECT_TRUE(close(weight_after(1, clip, 1, 1), weight_after(50, clip, 1, 1), 1e-3, 2e-5)) << "both are clipped to the same signs";
  optimizer::NamedOptions twice = options_;
  twice[0].second = 0.006;
  EXPECT_TRUE(close(weight_after(1, options_, 1, 2), weight_after(1, twice, 1, 1), 1e-4, 1e-6));
}

TEST_P(EveryOptimizer, KeepsAFloat32CopyOf16BitWeights) {
  optimizer::NamedOptions options{{"learning_rate", 1e-4}, {"multi_precision", true}};
  ParameterDict narrow, wide;
  narrow.add("weight", std::make_shared<Parameter>("weight", ParameterOptions{.shape = {2, 3}, .dtype = DType::float16}));
  wide.add("weight", std::make_shared<Parameter>("weight", ParameterOptions{.shape = {2, 3}}));
  const Tensor start = random_tensor({2, 3}, DType::float16, 3), grad = random_tensor({2, 3}, DType::float16, 4);
  narrow["weight"]->set_data(start);
  wide["weight"]->set_data(start.astype(DType::float32));
  Trainer a(narrow, GetParam(), options), b(wide, GetParam(), options);
  for (int i = 0; i < 20; ++i) {
    seed(9);
    set_gradient(*narrow["weight"], grad);
    a.step(1);
    seed(9);
    set_gradient(*wide["weight"], grad.astype(DType::float32));
    b.step(1);
  }
  EXPECT_TRUE(same_bits(narrow["weight"]->data(), wide["weight"]->data().astype(DType::float16)));
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryOptimizer, ::testing::ValuesIn(optimizer::names()), [](const auto& info) { return info.param; });

// ---- many weights in one call

struct StepOnMany {
  std::string many, one;
  size_t states;
  std::vector<std::pair<std::string_view, AttrValue>> common;
};
const std::vector<StepOnMany>& steps_on_many() {
  static const std::vector<StepOnMany> all{
      {"multi_sgd_update", "sgd_update", 0, {}},
      {"multi_sgd_mom_update", "sgd_mom_update", 1, {{"momentum", 0.9}}},
      {"_multi_nag_mom_update", "nag_mom_update", 1, {{"momentum", 0.9}}},
      {"_multi_signsgd_update", "signsgd_update", 0, {}},
      {"_multi_signum_update", "signum_update", 1, {{"momentum", 0.9}, {"wd_lh", 0.01}}},
      {"_multi_adam_update", "adam_update", 2, {{"beta1", 0.8}}},
      {"_multi_rmsprop_update", "rmsprop_update", 1, {{"clip_weights", 1.5}}},
      {"_multi_rmspropalex_update", "rmspropalex_update", 3, {}},
      {"_multi_adagrad_update", "_sparse_adagrad_update", 1, {}},
      {"_multi_ftrl_update", "ftrl_update", 2, {}},
      {"_multi_ftml_update", "ftml_update", 3, {{"t", int64_t{3}}}},
  };
  return all;
}

// Weights, gradients and states; a thread's share of the elements may begin anywhere.
std::vector<Tensors> weights_and_states(size_t states, DType dtype) {
  std::vector<Tensors> out;
  for (const Shape& shape : {Shape{3}, Shape{70001}, Shape{5, 7}, Shape{0}, Shape{33000}}) {
    const auto seed = static_cast<int>(10 * out.size());
    Tensors group{random_tensor(shape, dtype, seed), random_tensor(shape, dtype, seed + 1)};
    for (size_t i = 0; i < states; ++i) group.push_back(call("abs", {random_tensor(shape, dtype, seed + 2)}) * 0.1 + 0.5);
    out.push_back(group);
  }
  return out;
}

TEST(StepsOnManyWeights, GiveTheBitsOfStepsOnOne) {
  const OpRegistry& registry = OpRegistry::global();
  for (const StepOnMany& s : steps_on_many())
    for (const DType dtype : {DType::float32, DType::float64})
      for (const double clip : {-1.0, 0.3}) {
        SCOPED_TRACE(s.many);
        auto common = s.common;
        if (s.one != "ftml_update") common.emplace_back("clip_gradient", clip);
        common.emplace_back("rescale_grad", 0.7);
        std::vector<Tensors> apart = weights_and_states(s.states, dtype), together = weights_and_states(s.states, dtype);
        Floats lrs, wds;
        Tensors inputs, outputs;
        for (size_t w = 0; w < apart.size(); ++w) {
          lrs.push_back(0.01 * static_cast<double>(w + 1));
          wds.push_back(0.02 * static_cast<double>(w));
          auto attrs = common;
          attrs.insert(attrs.end(), {{"lr", lrs.back()}, {"wd", wds.back()}});
          const OpDef& op = registry.get(s.one);
          Tensor out[] = {apart[w][0]};
          apply_into(op, apart[w], op.make_attrs(attrs), out);
          inputs.insert(inputs.end(), together[w].begin(), together[w].end());
          outputs.push_back(together[w][0]);
        }
        common.insert(common.end(), {{"lrs", lrs}, {"wds", wds}, {"num_weights", static_cast<int64_t>(apart.size())}});
        const OpDef& op = registry.get(s.many);
        apply_into(op, inputs, op.make_attrs(common), outputs);
        for (size_t w = 0; w < apart.size(); ++w)
          for (size_t i = 0; i < apart[w].size(); ++i)
            EXPECT_TRUE(same_bits(together[w][i], apart[w][i])) << "weight " << w << ", input " << i;
      }
}

TEST(StepsOnManyWeights, MayHaveWeightsOfSeveralDTypes) {
  const Tensor wide = random_tensor({4}, DType::float64, 1), narrow = random_tensor({5}, DType::float16, 2);
  const Tensors inputs{wide, wide, narrow, narrow};
  const OpDef& op = OpRegistry::global().get("multi_sgd_update");
  const std::pair<std::string_view, AttrValue> attrs[] = {{"lrs", Floats{0.5, 0.25}}, {"wds", Floats{0, 0}}, {"num_weights", int64_t{2}}};
  const Tensors result = apply(op, inputs, op.make_attrs(attrs));
  EXPECT_TRUE(same_bits(result[0], wide * 0.5));
  EXPECT_TRUE(same_bits(result[1], (narrow.astype(DType::float32) * 0.75).astype(DType::float16)));
}

// Parameters of several sizes and dtypes; some have rates of their own, and LARS treats a bias in its own way.
std::vector<ParameterPtr> many_parameters(int count) {
  std::vector<ParameterPtr> all;
  for (int i = 0; i < count; ++i) {
    constexpr DType kDTypes[] = {DType::float32, DType::float32, DType::float64, DType::float16};
    const Shape shape{i % 5 == 4 ? 20000 : 2 + i, 3};
    const ParameterOptions options{
        .shape = shape, .dtype = kDTypes[i % 4], .lr_mult = i % 3 == 1 ? 0.5 : 1, .wd_mult = i % 4 == 2 ? 0.0 : 1};
    all.push_back(std::make_shared<Parameter>(std::to_string(i).append(i % 3 == 2 ? "bias" : "weight"), options));
    all.back()->set_data(random_tensor(shape, options.dtype, i));
  }
  return all;
}
void set_gradients(const std::vector<ParameterPtr>& parameters, int step) {
  for (const ParameterPtr& p : parameters) set_gradient(*p, random_tensor(p->shape(), p->data().dtype(), 20 + step));
}
Trainer trainer_of(const std::vector<ParameterPtr>& parameters, const std::string& name, const optimizer::NamedOptions& options) {
  ParameterDict dict;
  for (const ParameterPtr& p : parameters) dict.add(p->name(), p);
  return {dict, name, options};
}
// The common options, and with each further one that this optimizer has: they choose among its operators.
std::vector<optimizer::NamedOptions> variants_of(const std::string& name, const optimizer::NamedOptions& common) {
  const optimizer::NamedOptions further{{"clip_gradient", 0.01}, {"multi_precision", true},  {"momentum", 0.0},       {"momentum", 0.9},
                                        {"centered", true},      {"bias_correction", false}, {"correct_bias", false}, {"upper_bound", 0.5}};
  std::vector<optimizer::NamedOptions> all{common};
  for (const auto& option : further) {
    optimizer::NamedOptions options = common;
    options.push_back(option);
    try {
      optimizer::create(name, options);
      all.push_back(options);
    } catch (const UserError&) {  // it has no such option
    }
  }
  return all;
}

TEST_P(EveryOptimizer, UpdatesManyParametersAsOneByOne) {
  if (GetParam() == "nadam") GTEST_SKIP() << "its schedule of the momentum goes on from weight to weight, as in MXNet";
  for (const optimizer::NamedOptions& options : variants_of(GetParam(), options_)) {
    SCOPED_TRACE(options.back().first);
    const std::vector<ParameterPtr> apart = many_parameters(10), together = many_parameters(10);
    Trainer all = trainer_of(together, GetParam(), options);
    std::vector<Trainer> each;
    for (const ParameterPtr& p : apart) each.push_back(trainer_of({p}, GetParam(), options));
    for (int step = 0; step < 3; ++step) {
      set_gradients(apart, step);
      set_gradients(together, step);
      seed(step);
      all.set_learning_rate(0.003 * (step + 1));
      all.step(2);
      seed(step);
      for (Trainer& t : each) {
        t.set_learning_rate(0.003 * (step + 1));
        t.step(2);
      }
    }
    for (size_t i = 0; i < apart.size(); ++i) EXPECT_TRUE(same_bits(together[i]->data(), apart[i]->data())) << i;
  }
}

// Counts the calls that run an operator, for as long as it lives.
class CallCount {
 public:
  CallCount() {
    for (const auto& op : OpRegistry::global().all()) {
      originals_.emplace_back(op->kernel, op->expression);
      if (op->kernel)
        op->kernel = [this, run = op->kernel](const void* attrs, KernelContext& k) {
          ++count_;
          run(attrs, k);
        };
      else if (op->expression)
        op->expression = [this, run = op->expression](const void* attrs, std::span<const Expr> x) {
          ++count_;
          return run(attrs, x);
        };
    }
  }
  ~CallCount() {
    const auto& ops = OpRegistry::global().all();
    for (size_t i = 0; i < ops.size(); ++i) std::tie(ops[i]->kernel, ops[i]->expression) = originals_[i];
  }
  CallCount(const CallCount&) = delete;
  CallCount& operator=(const CallCount&) = delete;
  int count() const { return count_; }

 private:
  std::vector<std::pair<decltype(OpDef::kernel), decltype(OpDef::expression)>> originals_;
  int count_ = 0;
};

TEST_P(EveryOptimizer, CallsAsManyOperatorsForFewWeightsAsForMany) {
  for (const optimizer::NamedOptions& options : variants_of(GetParam(), options_)) {
    SCOPED_TRACE(options.back().first);
    const auto calls_of_a_step = [&](int weights) {
      const std::vector<ParameterPtr> parameters = many_parameters(weights);
      Trainer trainer = trainer_of(parameters, GetParam(), options);
      set_gradients(parameters, 0);
      trainer.step(2);  // makes the states
      set_gradients(parameters, 1);
      const CallCount calls;
      trainer.step(2);
      return calls.count();
    };
    const int few = calls_of_a_step(4);
    EXPECT_EQ(calls_of_a_step(24), few);
    EXPECT_GE(few, 1);
    EXPECT_LE(few, 4);  // a step, another for what LARS does not scale, and conversions of 16-bit gradients and weights
  }
}

TEST(Optimizers, TheRegistryHoldsAllThatTheHeaderDeclares) {
  std::ifstream header(std::string(GLUINO_SOURCE_DIR) + "/include/gluino/optimizer.h");
  size_t declared = 0;
  for (std::string line; std::getline(header, line);)
    declared += line.starts_with("OptimizerPtr ") && line.find("Options options") != std::string::npos;
  EXPECT_EQ(optimizer::names().size(), declared);
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'adam'?", optimizer::create("adan"));
  GLUINO_EXPECT_ERROR(UserError, "did you mean 'momentum'?", optimizer::create("sgd", {{"momentun", 0.9}}));
  GLUINO_EXPECT_ERROR(UserError, "option 'momentum'", optimizer::create("sgd", {{"momentum", std::string("much")}}));
}

// ---- schedules: the rates that MXNet's documentation derives

TEST(Schedules, FactorAndMultiFactor) {
  const auto f = lr_scheduler::factor(10, {.factor = 0.5, .stop_factor_lr = 0.2, .base_lr = 1});
  EXPECT_DOUBLE_EQ((*f)(10), 1);
  EXPECT_DOUBLE_EQ((*f)(11), 0.5);
  EXPECT_DOUBLE_EQ((*f)(21), 0.25);
  EXPECT_DOUBLE_EQ((*f)(500), 0.2);
  const auto m = lr_scheduler::multi_factor({3, 8}, {.factor = 0.1, .base_lr = 2});
  EXPECT_DOUBLE_EQ((*m)(3), 2);
  EXPECT_DOUBLE_EQ((*m)(4), 0.2);
  EXPECT_DOUBLE_EQ((*m)(9), 0.02);
  GLUINO_EXPECT_ERROR(UserError, "must be positive and grow", lr_scheduler::multi_factor({8, 3}));
  GLUINO_EXPECT_ERROR(UserError, "would grow", lr_scheduler::factor(1, {.factor = 2}));
}
TEST(Schedules, PolyAndCosineWithWarmUp) {
  const auto p = lr_scheduler::poly(110, {.pwr = 2, .final_lr = 0.1, .base_lr = 1.1, .warmup_steps = 10, .warmup_begin_lr = 0.1});
  EXPECT_DOUBLE_EQ((*p)(0), 0.1);
  EXPECT_DOUBLE_EQ((*p)(5), 0.6);
  EXPECT_DOUBLE_EQ((*p)(10), 1.1);
  EXPECT_DOUBLE_EQ((*p)(60), 0.35);
  EXPECT_DOUBLE_EQ((*p)(1000), 0.1);
  const auto c =
      lr_scheduler::cosine(100, {.final_lr = 0, .base_lr = 1, .warmup_steps = 20, .warmup_begin_lr = 0.3, .warmup_mode = "constant"});
  EXPECT_DOUBLE_EQ((*c)(19), 0.3);
  EXPECT_NEAR((*c)(60), 0.5, 1e-12);
  EXPECT_NEAR((*c)(100), 0, 1e-12);
}
TEST(Schedules, DecideInATrainer) {
  Net net;
  net.initialize();
  Trainer trainer(net.collect_params(), optimizer::sgd({.lr_scheduler = lr_scheduler::factor(1, {.factor = 0.5, .base_lr = 1})}));
  const Tensor x = ones({2, 4}), y = ones({2, 3});
  train_step(net, trainer, x, y);
  train_step(net, trainer, x, y);
  EXPECT_DOUBLE_EQ(trainer.learning_rate(), 0.5);
  GLUINO_EXPECT_ERROR(UserError, "a scheduler decides", trainer.set_learning_rate(1));
}

// ---- several devices

class DataParallel : public ::testing::TestWithParam<bool> {};

TEST_P(DataParallel, GivesWhatOneDeviceGives) {
  const Tensor x = random_tensor({8, 4}, DType::float32, 1), y = random_tensor({8, 3}, DType::float32, 2);
  Net one, two;
  seed(5);
  one.initialize(init::xavier());
  one.build({{8, 4}});
  seed(5);
  const std::vector<Device> devices{cpu(0), cpu(1)};
  two.initialize(init::xavier(), devices);
  two.build({{8, 4}});
  if (GetParam()) two.hybridize();
  Trainer a(one.collect_params(), "adam"), b(two.collect_params(), "adam");
  loss::L2Loss loss_of;
  for (int step = 0; step < 4; ++step) {
    train_step(one, a, x, y);
    const Tensors xs = split_and_load(x, devices), ys = split_and_load(y, devices);
    Tensors losses;
    {
      const auto record = autograd::record();
      for (size_t i = 0; i < devices.size(); ++i) losses.push_back(loss_of(two(xs[i]), ys[i]));
    }
    for (const Tensor& l : losses) l.backward();
    b.step(8);
  }
  for (const auto& [name, p] : two.collect_params()) {
    ASSERT_EQ(p->list_data().size(), 2u);
    EXPECT_EQ(p->data(cpu(1)).device(), cpu(1));
    EXPECT_TRUE(same_bits(p->data(cpu(1)).to(cpu(0)), p->data(cpu(0))));
  }
  EXPECT_TRUE(close(flat_parameters(two), flat_parameters(one), 1e-4, 1e-6));
  GLUINO_EXPECT_ERROR(UserError, "no copy on cpu(2)", two.hidden.weight->data(cpu(2)));
}
INSTANTIATE_TEST_SUITE_P(Devices, DataParallel, ::testing::Bool(), [](const auto& info) { return info.param ? "Hybridized" : "Eager"; });

TEST(Trainer, UpdatesNothingTwiceWithOneGradient) {
  Net net;
  net.initialize();
  Trainer trainer(net.collect_params(), optimizer::sgd({.learning_rate = 0.1}));
  {
    const auto record = autograd::record();
    net.hidden(ones({1, 4})).sum().backward();
    const Tensor all = net(ones({1, 4}));  // completes the shapes
  }
  const Tensor before = flat_parameters(net).copy();
  GLUINO_EXPECT_ERROR(UserError, "has not reached parameter", trainer.step(1));
  EXPECT_TRUE(same_bits(flat_parameters(net), before));
  trainer.step(1, true);
  const Tensor after = flat_parameters(net).copy();
  EXPECT_FALSE(same_bits(after, before));
  trainer.step(1, true);
  EXPECT_TRUE(same_bits(flat_parameters(net), after)) << "nothing is fresh any more";
}

TEST(Trainer, ErrorsNameTheMistake) {
  Net net;
  net.initialize();
  net(ones({1, 4}));
  Trainer trainer(net.collect_params(), optimizer::sgd({.learning_rate = 0.1}));
  GLUINO_EXPECT_ERROR(UserError, "batch_size is 0", trainer.step(0));
  GLUINO_EXPECT_ERROR(UserError, "cannot be cut evenly into 2 parts", split_data(ones({3, 2}), 2));
  GLUINO_EXPECT_ERROR(UserError, "cannot be cut into 4 parts", split_data(ones({3, 2}), 4));
  const std::string path = ::testing::TempDir() + "gluino_trainer.states";
  trainer.save_states(path);
  Trainer other(net.collect_params(), "adam");
  GLUINO_EXPECT_ERROR(UserError, "states of the optimizer sgd, but this trainer's is adam", other.load_states(path));
  std::filesystem::remove(path);
}

TEST(Trainer, ClipGlobalNorm) {
  Tensor a = full({2}, 3), b = full({1}, 4);  // norm sqrt(9 + 9 + 16)
  EXPECT_NEAR(clip_global_norm({a, b}, 100), std::sqrt(34.0), 1e-6);
  EXPECT_FLOAT_EQ(a[0].item(), 3);
  clip_global_norm({a, b}, 1);
  EXPECT_NEAR(a[0].item(), 3 / std::sqrt(34.0), 1e-6);
  EXPECT_NEAR(b[0].item(), 4 / std::sqrt(34.0), 1e-6);
  GLUINO_EXPECT_ERROR(UserError, "the norm is inf", clip_global_norm({full({1}, INFINITY)}, 1));
}

}  // namespace
}  // namespace gluino::test
