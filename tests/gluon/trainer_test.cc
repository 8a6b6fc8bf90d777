// Schedules of rates, training on several devices, and what a trainer refuses.
#include <cmath>
#include <filesystem>

#include "gluon/small_training.h"
#include "support/support.h"

namespace gluino::test {
namespace {

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
  SmallNet net;
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
  SmallNet one, two;
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
  SmallNet net;
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
  SmallNet net;
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
