// Whether the loader keeps the trainer fed: images per second that a DataLoader delivers (uint8 28 x 28 to normalized floats,
// shuffled, batches of 64), against what training LeNet on the same batches consumes. Processor time, one thread each.
#include <benchmark/benchmark.h>

#include "gluino/gluino.h"

using namespace gluino;

namespace {

constexpr int64_t kBatch = 64, kImages = 64 * 64;

data::DatasetPtr images(bool normalized) {
  seed(1);
  const auto raw =
      data::array_dataset({random::randint(0, 256, {kImages, 28, 28, 1}).astype(DType::uint8), random::randint(0, 10, {kImages})});
  if (!normalized) return raw;
  return data::transform_first(raw, vision::compose(vision::ToTensor(), vision::Normalize({0.13}, {0.31})));
}

void load(benchmark::State& state, const data::DatasetPtr& dataset) {
  set_num_threads(1);
  data::DataLoader loader(dataset, kBatch, {.shuffle = true});
  for (auto _ : state)
    for (const Tensors& batch : loader) benchmark::DoNotOptimize(batch[0].size());
  state.SetItemsProcessed(state.iterations() * kImages);
}
void loader_stacks(benchmark::State& state) { load(state, images(false)); }
BENCHMARK(loader_stacks)->Unit(benchmark::kMillisecond);
void loader_transforms(benchmark::State& state) { load(state, images(true)); }
BENCHMARK(loader_transforms)->Unit(benchmark::kMillisecond);

void lenet_trains(benchmark::State& state) {
  set_num_threads(1);
  const auto net = model_zoo::lenet();
  net->initialize(init::xavier());
  net->hybridize();
  loss::SoftmaxCrossEntropyLoss loss_of;
  loss_of.hybridize();
  Trainer trainer(net->collect_params(), optimizer::sgd({.learning_rate = 0.01, .momentum = 0.9}));
  const Tensor x = random::normal(0, 1, {kBatch, 1, 28, 28}), y = random::randint(0, 10, {kBatch});
  for (auto _ : state) {
    Tensor loss;
    {
      const auto record = autograd::record();
      loss = loss_of((*net)(x), y);
    }
    loss.backward();
    trainer.step(kBatch);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(lenet_trains)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
