// The whole job on real digits: a network written imperatively, trained both ways, explained, exported, loaded by a second
// process, and drawn.
#include "cli/demo/demo.h"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>

#include "base/file.h"
#include "cli/demo/chart.h"
#include "gluino/gluino.h"

namespace gluino::cli {
namespace {

struct DigitNet : nn::HybridBlock {
  nn::Conv2D conv1{16, 3, {.padding = 1, .activation = "relu"}}, conv2{32, 3, {.padding = 1, .activation = "relu"}};
  nn::MaxPool2D pool1{2}, pool2{2};
  nn::Dense hidden{64, {.activation = "relu"}}, output{10};
  nn::Dropout dropout{0.2};
  int forwards = 0;
  DigitNet() { GLUINO_CHILDREN(conv1, pool1, conv2, pool2, hidden, dropout, output); }
  Tensor forward(const Tensor& x) override {
    // An ordinary C++ program: imperatively this runs at every call and may look at values; hybridized it runs while tracing.
    if (forwards++ == 0)
      std::cout << "inside forward, the first time, x is " << (x.is_symbolic() ? x : Tensor(x[{0, 0}])) << "\n" << std::flush;
    return output(dropout(hidden(pool2(conv2(pool1(conv1(x)))))));
  }
};

// Remembers the loss of every epoch and the fastest time.
class Curve : public estimator::Handler {
 public:
  void epoch_begin(estimator::Estimator&) override { start_ = std::clock(); }
  void epoch_end(estimator::Estimator& e) override {
    losses.push_back(e.value("loss"));
    fastest = std::min(fastest, static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC);
  }
  std::vector<double> losses;
  double fastest = std::numeric_limits<double>::infinity();  // processor time: other programs do not count

 private:
  std::clock_t start_ = 0;
};

struct Result {
  std::vector<double> losses;
  double milliseconds_per_epoch, accuracy;
  int64_t peak_bytes;
};

Result train(DigitNet& net, int64_t epochs) {
  seed(1);
  net.initialize(init::xavier());
  data::DataLoader train_data(data::digits(), 32, {.shuffle = true, .last_batch = "discard", .seed = 7}),
      test_data(data::digits(false), 359);
  net((*test_data.begin())[0]);  // the first call completes the shapes of the parameters
  const auto steps = epochs * train_data.size();
  auto loss = std::make_shared<loss::SoftmaxCrossEntropyLoss>();
  if (net.is_hybridized()) loss->hybridize();
  estimator::Estimator e(
      net, loss,
      {.optimizer = optimizer::adam({.lr_scheduler = lr_scheduler::cosine(steps, {.base_lr = 0.005, .warmup_steps = steps / 20})})});
  auto curve = std::make_shared<Curve>();
  const int64_t live = memory_stats().live;
  reset_peak();
  e.fit(train_data, {.epochs = epochs, .handlers = {estimator::progress_bar(), curve}, .seed = 3});
  const int64_t peak = memory_stats().peak - live;
  return {curve->losses, curve->fastest * 1e3, e.evaluate(test_data).at(1).second, peak};
}

}  // namespace

int run_demo(const DemoOptions& options, const std::string& check_command) {
  set_num_threads(1);  // digits of 64 pixels are too small to share
  std::filesystem::create_directories(options.folder);
  auto path = [&](const std::string& name) { return options.folder + "/" + name; };
  fmt::print("{} training and {} test digits of 8 x 8 pixels\n\n-- imperative\n", data::digits()->size(), data::digits(false)->size());
  std::fflush(stdout);
  DigitNet eager, hybrid;
  const Result a = train(eager, options.epochs);
  std::cout << "\n-- hybridized\n" << std::flush;
  hybrid.hybridize();
  const Result b = train(hybrid, options.epochs);

  fmt::print("\n{:20}{:>12}{:>12}{:>10}\n", "", "imperative", "hybridized", "ratio");
  fmt::print("{:20}{:>12.1f}{:>12.1f}{:>9.2f}x\n", "processor ms/epoch", a.milliseconds_per_epoch, b.milliseconds_per_epoch,
             a.milliseconds_per_epoch / b.milliseconds_per_epoch);
  fmt::print("{:20}{:>12}{:>12}{:>9.2f}x\n", "peak KB in training", a.peak_bytes / 1024, b.peak_bytes / 1024,
             static_cast<double>(a.peak_bytes) / static_cast<double>(b.peak_bytes));
  fmt::print("{:20}{:>12.4f}{:>12.4f}\n{:20}{:>12.4f}{:>12.4f}\n\n", "last training loss", a.losses.back(), b.losses.back(),
             "test accuracy", a.accuracy, b.accuracy);

  const Tensor x = (*data::DataLoader(data::digits(false), 32).begin())[0], y = hybrid(x);
  fmt::print("what hybridize did:\n{}\n", hybrid.explain());
  save_tensors(path("demo-vectors.npz"), {{"in:data", x}, {"out0", y}});
  hybrid.export_model(path("demo"));
  write_file(path("demo-loss.svg"), line_chart("training loss by epoch", {{"imperative", a.losses}, {"hybridized", b.losses}}));
  write_file(path("demo-before.svg"), hybrid.to_svg(true));
  write_file(path("demo-after.svg"), hybrid.to_svg());
  fmt::print("written to {}: demo-symbol.json, demo-0000.params, demo-loss.svg, demo-before.svg, demo-after.svg\n", options.folder);
  std::fflush(stdout);
  return std::system(check_command.c_str()) == 0 ? 0 : 1;
}

int check_demo(const DemoOptions& options) {
  const std::string stem = options.folder + "/demo";
  const NamedTensors recorded = load_tensors(stem + "-vectors.npz");
  const Tensor x = *find_tensor(recorded, "in:data"), wanted = *find_tensor(recorded, "out0");
  const auto net = SymbolBlock::imports(stem + "-symbol.json", {}, stem + "-0000.params");
  fmt::print("a second process loads it and compares with the answers of the first:\n");
  bool same = true;
  const auto compare = [&](const std::string& way, const Tensor& answer) {
    const auto largest = abs(answer - wanted).max().item<double>();
    same = same && largest < 1e-4;
    fmt::print("  {:30}largest difference {:.2g}\n", way, largest);
  };
  compare("operator by operator", (*net)(x));
  net->hybridize();
  compare("hybridized", (*net)(x));
  compare("hybridized, the second call", (*net)(x));
  return same ? 0 : 1;
}

}  // namespace gluino::cli
