// Training on ranks gives the numbers of one process.
#include <cmath>
#include <set>

#include "distributed/compression.h"
#include "distributed/gradient_exchange.h"
#include "gluino/gluino.h"
#include "support/support.h"

namespace gluino::test {
namespace {

namespace dist = gluino::distributed;

struct Net : nn::HybridBlock {
  nn::Conv2D conv{8, 3, {.padding = 1, .activation = "relu"}};
  nn::MaxPool2D pool{2};
  nn::Dense hidden{32, {.activation = "relu"}}, output{10};
  Net() { GLUINO_CHILDREN(conv, pool, hidden, output); }
  Tensor forward(const Tensor& x) override { return output(hidden(pool(conv(x)))); }
};

struct Curve {
  std::vector<double> losses;
  Tensors weights;
};

struct Training {
  int steps = 100;
  int64_t batch = 32;  // of all ranks together
  bool hybridize = false;
  TrainerOptions options{.kvstore = "dist_sync"};
  data::DatasetPtr dataset = data::digits();
  int64_t micro_batches = 1;  // whose gradients are added up before a step
  std::string optimizer = "sgd";
  double learning_rate = 0.05;  // larger ones carry differences in the last bit on to the third digit within a hundred steps

  bool is_distributed() const { return options.kvstore.starts_with("dist"); }
  Curve run() const {
    seed(7);
    Net net;
    net.initialize(init::xavier());
    net(expand_dims(dataset->get(0)[0], {.axis = 0}).astype(DType::float32));
    if (hybridize) net.hybridize();
    Trainer trainer(net.collect_params(), optimizer, {{"learning_rate", learning_rate}}, options);
    if (micro_batches > 1)
      for (const auto& [name, p] : net.collect_params()) p->set_grad_req(GradReq::add);
    const int64_t ranks = is_distributed() ? dist::size() : 1, part = is_distributed() ? dist::rank() : 0;
    loss::SoftmaxCrossEntropyLoss loss_of;
    data::DataLoader loader(
        dataset, batch / ranks / micro_batches,
        {.sampler = data::split_sampler(data::random_sampler(dataset->size() / batch * batch, 3), ranks, part), .last_batch = "discard"});
    Curve curve;
    int micro = 0;
    double total = 0;
    while (true)
      for (const Tensors& b : loader) {
        Tensor loss;
        {
          const auto scope = autograd::record();
          loss = loss_of(net(b[0].astype(DType::float32)), b[1]);
        }
        autograd::backward({loss});
        const Tensor sum = loss.sum();
        total += (is_distributed() ? dist::all_reduce(sum) : sum).item<double>();
        if (++micro < micro_batches) continue;
        trainer.step(static_cast<double>(batch));
        if (micro_batches > 1)
          for (const auto& [name, p] : net.collect_params()) p->zero_grad();
        curve.losses.push_back(total / static_cast<double>(batch));
        micro = 0;
        total = 0;
        if (static_cast<int>(curve.losses.size()) == steps) {
          for (const auto& [name, p] : net.collect_params()) curve.weights.push_back(p->data().detach().copy());
          return curve;
        }
      }
  }
};

void expect_same_curve(const Curve& got, const Curve& want, double relative) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i)
    ASSERT_NEAR(got.losses[i], want.losses[i], relative * std::abs(want.losses[i])) << "step " << i;
}
void expect_same_bits(const Curve& a, const Curve& b) {
  for (size_t i = 0; i < a.losses.size(); ++i) ASSERT_EQ(a.losses[i], b.losses[i]) << "step " << i;
  for (size_t i = 0; i < a.weights.size(); ++i) EXPECT_TRUE(same_bits(a.weights[i], b.weights[i])) << "weight " << i;
}

// N ranks with batch B are one process with batch N * B.
TEST(Training, RanksFollowOneProcess) {
  const Curve alone = Training{.options = {.kvstore = "device"}}.run();
  EXPECT_LT(alone.losses.back(), 0.8 * alone.losses.front());
  for (const bool hybridize : {false, true}) {
    SCOPED_TRACE(hybridize ? "hybridized" : "eager");
    expect_same_curve(Training{.hybridize = hybridize}.run(), alone, 1e-5);
  }
}

TEST(Training, TwiceTheSameBits) {
  const Training training{.steps = 20, .hybridize = true};
  expect_same_bits(training.run(), training.run());
  // When buckets leave changes nothing.
  expect_same_bits(training.run(), Training{.steps = 20, .hybridize = true, .options = {.kvstore = "dist_sync", .overlap = false}}.run());
}

TEST(Training, FashionMnist) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << "needs Fashion-MNIST beside the checkout";
  const auto dataset = vision::fashion_mnist(*shared + "/data/fashion-mnist");
  const auto scaled = data::transform_first(dataset, [](const Tensor& x) {
    return call("transpose", {x.astype(DType::float32)}, {{"axes", Shape{2, 0, 1}}}) / 255;
  });
  const Curve alone = Training{.options = {.kvstore = "device"}, .dataset = scaled}.run();
  expect_same_curve(Training{.hybridize = true, .dataset = scaled}.run(), alone, 1e-5);
}

TEST(Training, StatesThatAreDealtOutGiveTheSameWeights) {
  for (const char* optimizer : {"sgd", "adam", "lamb"}) {
    SCOPED_TRACE(optimizer);
    const Training whole{.steps = 10, .optimizer = optimizer};
    Training dealt_out = whole;
    dealt_out.options.shard_states = true;
    expect_same_bits(dealt_out.run(), whole.run());
  }
}

TEST(Training, AccumulatedGradientsAreThoseOfOneBatch) {
  const Curve alone = Training{.steps = 30, .options = {.kvstore = "device"}}.run();
  expect_same_curve(Training{.steps = 30, .micro_batches = 2}.run(), alone, 1e-4);
}

TEST(Training, CompressedGradientsTrainToo) {
  Training training{.steps = 60, .options = {.kvstore = "device"}, .learning_rate = 0.2};
  const Curve alone = training.run();
  for (const char* compression : {"fp16", "bf16", "2bit"}) {
    SCOPED_TRACE(compression);
    training.options = {.kvstore = "dist_sync", .compression = compression};
    const Curve got = training.run();
    EXPECT_LT(got.losses.back(), 0.7 * alone.losses.front());
    // Rounded gradients follow the exact ones for a while; those of two bits do not.
    for (size_t i = 0; std::string(compression) != "2bit" && i < 5; ++i)
      EXPECT_NEAR(got.losses[i], alone.losses[i], 5e-3 * alone.losses[i]);
  }
}

TEST(Training, WrongOptionsAreNamed) {
  const ParameterDict none;
  GLUINO_EXPECT_ERROR(UserError, "dist_sync", Trainer(none, "sgd", {}, {.kvstore = "dist_sink"}));
  GLUINO_EXPECT_ERROR(UserError, "fp16, bf16 or 2bit", Trainer(none, "sgd", {}, {.kvstore = "dist_sync", .compression = "1bit"}));
  GLUINO_EXPECT_ERROR(UserError, "needs kvstore", Trainer(none, "sgd", {}, {.shard_states = true}));
}

Tensor leaf(const Shape& shape, double value = 1) {
  Tensor w = full(shape, value);
  w.attach_grad();
  return w;
}

// Buckets leave while the rest is being computed, eagerly and inside one plan.
TEST(Exchange, GradientsLeaveBeforeBackwardIsOver) {
  for (const bool compiled : {false, true}) {
    SCOPED_TRACE(compiled ? "hybridized" : "eager");
    const Tensors weights{leaf({300, 300}), leaf({300, 300}), leaf({300, 300}), leaf({5})};
    dist::GradientExchange exchange({});
    const std::function<Tensor(const Tensor&)> f = [&](const Tensor& x) {
      Tensor y = dot(dot(dot(x, weights[0]), weights[1]), weights[2]) * 1e-5;
      return y.sum() + weights[3].sum();
    };
    auto g = hybrid(f);
    const Tensor x = full({4, 300}, dist::rank() + 1.0);
    for (int step = 0; step < 3; ++step) {
      {
        const auto scope = autograd::record();
        autograd::backward({compiled ? g(x) : f(x)});
      }
      exchange.sum_over_ranks(weights);
      EXPECT_EQ(weights[3].grad().to_vector<float>()[0], dist::size());
    }
    const Tensor sum = weights[0].grad().copy();
    {
      const auto scope = autograd::record();
      autograd::backward({f(x)});
    }
    exchange.sum_over_ranks(weights);
    EXPECT_TRUE(close(sum, weights[0].grad(), 1e-6, 1e-6));
    if (dist::size() > 1) {
      EXPECT_GE(exchange.early_buckets(), 6) << "of four buckets in each of three steps";
    }
  }
}

// Small gradients travel together, and theirs is the last bucket to be full: those of large weights do not wait for it.
TEST(Exchange, LargeGradientsDoNotWaitForTheFirstLayersBias) {
  struct Probe final : autograd::Function {
    std::function<void()> look;
    Tensors forward(const Tensors& inputs) override { return {inputs[0] * 1}; }
    Tensors backward(const Tensors& heads) override {
      look();
      return heads;
    }
  };
  Tensors weights;
  for (int layer = 0; layer < 3; ++layer) weights.insert(weights.end(), {leaf({300, 300}, 1e-3), leaf({300})});
  dist::GradientExchange exchange({});
  int64_t before = 0, seen = 0;
  const auto probe = std::make_shared<Probe>();
  probe->look = [&] { seen = exchange.early_buckets() - before; };
  for (int step = 0; step < 2; ++step) {
    before = exchange.early_buckets();
    {
      const auto scope = autograd::record();
      Tensor y = full({4, 300}, 1.0);
      for (size_t layer = 0; layer < 3; ++layer) {
        y = dot(y, weights[2 * layer]) + weights[2 * layer + 1];
        if (layer == 0) y = autograd::call(probe, {y})[0];
      }
      autograd::backward({y.sum()});
    }
    exchange.sum_over_ranks(weights);
  }
  if (dist::size() > 1) {
    EXPECT_GE(seen, 1) << "the last layer's weight, when backward came to the first layer";
  }
}

// Two backward passes before a step: what counts is the second.
TEST(Exchange, SecondBackwardReplacesTheFirst) {
  const Tensors weights{leaf({400, 400}), leaf({3})};
  dist::GradientExchange exchange({});
  for (int step = 0; step < 3; ++step) {
    for (const double factor : {5.0, 2.0}) {
      const auto scope = autograd::record();
      autograd::backward({weights[0].sum() * factor + weights[1].sum() * factor});
    }
    exchange.sum_over_ranks(weights);
    for (const Tensor& w : weights) EXPECT_EQ(w.grad().to_vector<float>()[2], 2 * (dist::size() > 1 ? dist::size() : 1));
  }
}

// A weight that some ranks have not reached: they add nothing, and all update it.
TEST(Exchange, WeightsThatOnlySomeRanksReach) {
  const Tensors weights{leaf({3}), leaf({2}), leaf({600, 200})};
  dist::GradientExchange exchange({});
  for (int step = 0; step < 3; ++step) {
    for (const Tensor& w : weights) autograd::set_fresh_grad(w, false);
    {
      const auto scope = autograd::record();
      Tensor y = weights[0].sum();
      if (dist::rank() == 0) y = y + weights[2].sum();
      autograd::backward({y});
    }
    exchange.sum_over_ranks(weights);
    EXPECT_EQ(weights[0].grad().to_vector<float>()[0], dist::size());
    EXPECT_EQ(weights[2].grad().to_vector<float>()[0], 1);
    EXPECT_TRUE(autograd::has_fresh_grad(weights[2]));
    EXPECT_FALSE(autograd::has_fresh_grad(weights[1]));
  }
}

// Of a large embedding only the touched rows travel.
TEST(Exchange, TouchedRowsTravel) {
  const Tensors weights{leaf({20000, 16})};
  dist::GradientExchange exchange({});
  const Tensor ids = from_vector(std::vector<float>{3, static_cast<float>(100 + dist::rank()), 19999});
  for (int step = 0; step < 2; ++step) {
    {
      const auto scope = autograd::record();
      autograd::backward({embedding(ids, weights[0], {.input_dim = 20000, .output_dim = 16}).sum()});
    }
    exchange.sum_over_ranks(weights);
    const std::vector<float> grad = weights[0].grad().to_vector<float>();
    EXPECT_EQ(grad[3 * 16], dist::size());
    EXPECT_EQ(grad[100 * 16 + 5], 1);
    EXPECT_EQ(grad[50 * 16], 0);
    double total = 0;
    for (const float v : grad) total += v;
    EXPECT_EQ(total, 3 * 16 * dist::size());
  }
  EXPECT_LE(exchange.bytes_sent(), 2 * 3 * (16 * 4 + 8) * (dist::size() - 1));
}

// What is left out of a gradient comes with the next ones: nothing is lost.
TEST(Compression, TwoBitsKeepTheError) {
  const int64_t count = 1003;
  seed(5);
  const Tensor values = random::normal(0, 0.3, {count});
  std::vector<float> residual(count, 0), sent(count, 0);
  std::vector<uint8_t> codes((count + 3) / 4);
  const float threshold = 0.5;
  for (int round = 0; round < 50; ++round) {
    dist::quantize_two_bit(values.data<float>(), residual.data(), codes.data(), count, threshold);
    for (int64_t i = 0; i < count; ++i) {
      const int code = codes[static_cast<size_t>(i / 4)] >> (2 * (i % 4)) & 3;
      sent[static_cast<size_t>(i)] += code == 1 ? threshold : code == 2 ? -threshold : 0;
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const double given = 50.0 * values.data<float>()[i];
    EXPECT_NEAR(sent[static_cast<size_t>(i)] + residual[static_cast<size_t>(i)], given, 1e-3);
  }
}

TEST(Shards, PartsOfAnOrderAreTheWhole) {
  for (const int64_t length : {0, 1, 10, 12, 17}) {
    std::multiset<int64_t> seen;
    for (int64_t part = 0; part < 4; ++part) {
      const auto even = data::split_sampler(data::random_sampler(length, 9), 4, part),
                 exact = data::split_sampler(data::random_sampler(length, 9), 4, part, false);
      EXPECT_EQ(static_cast<int64_t>(even->order(2).size()), (length + 3) / 4);
      for (const int64_t i : exact->order(2)) seen.insert(i);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), length);
    EXPECT_EQ(static_cast<int64_t>(std::set<int64_t>(seen.begin(), seen.end()).size()), length);
  }
  const auto own = data::rank_sampler(103, true, 1)->order(0);
  const Tensor all = dist::all_gather(from_vector(std::vector<int64_t>(own.begin(), own.end())));
  const std::vector<int64_t> taken = all.to_vector<int64_t>();
  EXPECT_EQ(std::set<int64_t>(taken.begin(), taken.end()).size(), size_t{103});
}

// One seed for all: the same first values, other masks.
TEST(Seeds, WeightsAreTheSameAndDropoutDiffers) {
  seed(11);
  const Tensor drawn = random::normal(0, 1, {64});
  Tensor mask;
  {
    const auto scope = autograd::train_mode();
    mask = dropout(ones({256}), {.p = 0.5});
  }
  const Tensor all_drawn = dist::all_gather(drawn.reshape({1, 64})), all_masks = dist::all_gather(mask.reshape({1, 256}));
  for (int r = 0; r < dist::size(); ++r) {
    EXPECT_TRUE(same_bits(all_drawn[r], drawn));
    if (r != dist::rank()) {
      EXPECT_FALSE(same_bits(all_masks[r], mask));
    }
  }
}

}  // namespace
}  // namespace gluino::test
