// LeNet on MNIST or Fashion-MNIST, the whole way: files, augmentation, threads, training with checkpoints, export.
//   mnist_lenet FOLDER [EPOCHS]   FOLDER holds the four files, gzipped or not; a run that is interrupted goes on when started again
// Without a folder it trains on the digits that come with gluino, enlarged.
#include <gluino/gluino.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

using namespace gluino;

static data::DatasetPtr images(const std::string& folder, bool train) {
  const auto normalized = vision::compose(vision::ToTensor(), vision::Normalize({0.13}, {0.31}));
  if (!folder.empty()) {
    const auto raw = vision::mnist(folder, train);
    return train ? data::transform_first(
                       raw, vision::compose(vision::RandomCrop({28, 28}, 2), vision::ToTensor(), vision::Normalize({0.13}, {0.31})))
                 : data::transform_first(raw, normalized);
  }
  const auto resize = std::make_shared<vision::Resize>(Shape{28, 28});
  return data::transform_first(data::digits(train), [resize](const Tensor& x) {
    return (*resize)(x.reshape({8, 8, 1})).reshape({1, 28, 28});
  });
}

int main(int argc, char** argv) try {
  const bool quick = std::getenv("GLUINO_EXAMPLE_QUICK") != nullptr;
  const std::string folder = argc > 1 ? argv[1] : "";
  const int64_t epochs = argc > 2 ? std::atoi(argv[2]) : quick ? 2 : 10;
  set_num_threads(std::max(1, num_threads() - 1));  // the loader's thread has a core of its own
  data::DataLoader train(images(folder, true), 64, {.shuffle = true, .last_batch = "discard", .num_workers = 1, .seed = 1}),
      test(images(folder, false), 250, {.num_workers = 1});

  seed(1);
  const auto net = model_zoo::lenet();
  net->initialize(init::xavier());
  net->hybridize();
  auto loss = std::make_shared<loss::SoftmaxCrossEntropyLoss>();
  loss->hybridize();
  const int64_t steps = epochs * train.size();
  estimator::Estimator estimator(
      *net, loss,
      {.optimizer = optimizer::sgd(
           {.momentum = 0.9, .wd = 1e-4, .lr_scheduler = lr_scheduler::cosine(steps, {.base_lr = 0.05, .warmup_steps = steps / 20})})});
  estimator.fit(train, {.val_data = &test,
                        .epochs = epochs,
                        .handlers = {estimator::checkpoint("lenet-checkpoints", {.resume = !quick, .monitor = "val_accuracy"}),
                                     estimator::csv_log("lenet-log.csv"), estimator::progress_bar()},
                        .seed = 1});
  net->export_model("lenet");
  std::cout << "test accuracy " << estimator.value("val_accuracy") << "; written: lenet-symbol.json, lenet-0000.params, lenet-log.csv\n";
  return estimator.value("val_accuracy") > 0.5 ? 0 : 1;
} catch (const Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
