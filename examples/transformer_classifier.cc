// A transformer that classifies sequences: does the first token occur again? Only by looking from one place to another can it tell.
#include <gluino/gluino.h>

#include <cstdlib>
#include <iostream>
#include <random>

using namespace gluino;

constexpr int64_t kTokens = 10, kTime = 8, kUnits = 32;

struct Classifier : nn::HybridBlock {
  nn::Embedding token{kTokens, kUnits};
  ParameterPtr position = add_parameter("position", {.shape = {1, kTime, kUnits}, .init = init::normal(0.1)});
  nn::TransformerEncoderLayer first{kUnits, 64, 4, {.dropout = 0}}, second{kUnits, 64, 4, {.dropout = 0}};
  nn::Dense output{2, {.flatten = false}};
  Classifier() { GLUINO_CHILDREN(token, first, second, output); }
  Tensor forward(const Tensor& x) override {
    const Tensor y = second(first(broadcast_add(token(x), position->data())));
    return output(y.mean(Shape{1}));
  }
};

static Tensors make_sequences(int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_int_distribution<int> draw(0, kTokens - 1);
  std::vector<float> x, y;
  for (int64_t i = 0; i < count; ++i) {
    const int first = draw(engine);
    bool again = false;
    x.push_back(static_cast<float>(first));
    for (int64_t t = 1; t < kTime; ++t) {
      const int token = draw(engine);
      again |= token == first;
      x.push_back(static_cast<float>(token));
    }
    y.push_back(again);
  }
  return {from_vector(x, Shape{count, kTime}), from_vector(y)};
}

int main() {
  const bool quick = std::getenv("GLUINO_EXAMPLE_QUICK") != nullptr;
  data::DataLoader train(data::array_dataset(make_sequences(quick ? 512 : 4096, 1)), 64, {.shuffle = true}),
      test(data::array_dataset(make_sequences(1000, 2)), 500);
  seed(1);
  Classifier net;
  net.initialize(init::xavier());
  net.hybridize();
  const int64_t epochs = quick ? 2 : 20, steps = epochs * train.size();
  estimator::Estimator estimator(
      net, std::make_shared<loss::SoftmaxCrossEntropyLoss>(),
      {.optimizer =
           optimizer::adamw({.wd = 0.01, .lr_scheduler = lr_scheduler::cosine(steps, {.base_lr = 0.002, .warmup_steps = steps / 10})})});
  estimator.fit(train, {.val_data = &test, .epochs = epochs, .handlers = {estimator::progress_bar()}});
  std::cout << "test accuracy " << estimator.value("val_accuracy") << "\n";
  return quick || estimator.value("val_accuracy") > 0.9 ? 0 : 1;
}
