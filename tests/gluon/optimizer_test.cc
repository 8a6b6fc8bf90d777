// Every optimizer of the registry: recorded runs, the same step in every mode, states that survive a file.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "gluon/small_training.h"
#include "support/support.h"

namespace gluino::test {
namespace {

// As if backward() had written it.
void set_gradient(Parameter& p, const Tensor& gradient) {
  p.grad().assign(gradient);
  autograd::set_fresh_grad(p.data(), true);
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
  void start(SmallNet& net) const {
    seed(5);
    net.initialize(init::xavier());
  }
};

TEST_P(EveryOptimizer, LowersTheLossTheSameEagerAndHybridized) {
  Tensor results[2];
  for (const bool hybridized : {false, true}) {
    SmallNet net;
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
  SmallNet straight;
  start(straight);
  Trainer trainer(straight.collect_params(), GetParam(), options_);
  for (int i = 0; i < 3; ++i) train_step(straight, trainer, x_, y_);
  straight.save_parameters(folder + "/net.params");
  trainer.save_states(folder + "/net.states");
  SmallNet resumed;
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

// What a step would make NaN of, or walk away from the minimum with, is an error of the constructor.
TEST_P(EveryOptimizer, RefusesNumbersThatMeanNothing) {
  const std::set<std::string> free_below_0{"rescale_grad", "clip_gradient", "clip_weights", "lower_bound", "upper_bound"};
  const std::set<std::string> shares{"beta1", "beta2", "rho", "gamma1", "gamma2"};
  for (const Option& option : optimizer::options_of(GetParam())) {
    if (option.default_text.find_first_of("0123456789") == std::string::npos) continue;  // a truth value
    const auto with = [&](double value) { return optimizer::create(GetParam(), {{option.name, value}}); };
    const std::string named = "optimizer " + GetParam() + ": option '" + option.name + "' ";
    GLUINO_EXPECT_ERROR(UserError, named + "is not a number", with(std::nan("")));
    if (free_below_0.contains(option.name))
      EXPECT_NO_THROW(with(-1)) << option.name;
    else
      GLUINO_EXPECT_ERROR(UserError, named + "must not be below 0, and is -1", with(-1));
    if (shares.contains(option.name)) GLUINO_EXPECT_ERROR(UserError, named + "must ", with(1.5));
    EXPECT_NO_THROW(with(0)) << option.name;
  }
}
TEST(Optimizers, RefuseOptionsOfTheirStructs) {
  GLUINO_EXPECT_ERROR(UserError, "optimizer sgd: option 'learning_rate' must not be below 0, and is -1",
                      optimizer::sgd({.learning_rate = -1}));
  GLUINO_EXPECT_ERROR(UserError, "optimizer adam: option 'beta2' must be below 1, and is 1", optimizer::adam({.beta2 = 1}));
  GLUINO_EXPECT_ERROR(UserError, "optimizer adadelta: option 'rho' must not be above 1, and is 1.25", optimizer::adadelta({.rho = 1.25}));
  EXPECT_NO_THROW(optimizer::adadelta({.rho = 1}));
  EXPECT_NO_THROW(optimizer::sgd({.learning_rate = 0, .momentum = 1, .clip_gradient = -1}));
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

}  // namespace
}  // namespace gluino::test
