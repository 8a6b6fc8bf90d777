// The whole job on real digits: a network written imperatively, trained both ways, explained, exported, loaded by a
// second process, and drawn.
#include <gluino/gluino.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <random>

using namespace gluino;

struct DigitNet : nn::HybridBlock {
  nn::Conv2D conv{16, 3, {.padding = 1, .activation = "relu"}};
  nn::MaxPool2D pool{2};
  nn::Dense hidden{64, {.activation = "relu"}}, output{10};
  int forwards = 0;
  DigitNet() { GLUINO_CHILDREN(conv, pool, hidden, output); }
  Tensor forward(const Tensor& x) override {
    if (forwards++ == 0) std::cout << "  inside forward, the first time: " << (x.is_symbolic() ? x : Tensor(x[{0, 0}])) << "\n";
    return output(hidden(pool(conv(x))));
  }
};

struct Digits {
  Tensor train_x, train_y, test_x, test_y;
};

static Digits load_digits() {
  seed(3);
  const Tensor table = random::shuffle(data::load_csv(std::string(GLUINO_DATA_DIR) + "/digits.csv.gz"));
  const int64_t rows = table.extent(0), train = rows * 4 / 5;
  const Tensor x = (table[{Slice(), Slice(0, 64)}] / 16).reshape({rows, 1, 8, 8}), y = table[{Slice(), 64}];
  return {x[Slice(0, train)], y[Slice(0, train)], x[Slice(train, rows)], y[Slice(train, rows)]};
}

static double accuracy(DigitNet& net, const Tensor& x, const Tensor& y) { return (argmax(net(x), {.axis = 1}) == y).mean().item<double>(); }

struct Result {
  double seconds_per_epoch = 0, test_accuracy = 0;
  int64_t peak_bytes = 0;
  std::vector<double> losses;
};

static Result train(DigitNet& net, const Digits& d, int epochs) {
  constexpr int64_t kBatch = 64;
  loss::SoftmaxCrossEntropyLoss loss_of;
  net(d.train_x[Slice(0, kBatch)]);  // completes the shapes of the parameters
  Trainer trainer(net.collect_params(), optimizer::sgd({.learning_rate = 0.1, .momentum = 0.9}));
  std::mt19937 engine(7);
  Result r;
  const int64_t live = memory_stats().live;
  reset_peak();
  const auto start = std::chrono::steady_clock::now();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::vector<int64_t> order(static_cast<size_t>(d.train_x.extent(0)));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), engine);
    double total = 0;
    int batches = 0;
    for (size_t at = 0; at + kBatch <= order.size(); at += kBatch, ++batches) {
      const Tensor rows = from_data(order.data() + at, {kBatch});
      const Tensor x = d.train_x[rows], y = d.train_y[rows];
      Tensor loss;
      {
        const auto record = autograd::record();
        loss = loss_of(net(x), y);
      }
      loss.backward();
      trainer.step(kBatch);
      total += loss.mean().item<double>();
    }
    r.losses.push_back(total / batches);
    std::cout << "\r  epoch " << epoch + 1 << "/" << epochs << "  loss " << std::fixed << std::setprecision(4) << r.losses.back()
              << std::flush;
  }
  r.seconds_per_epoch = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / epochs;
  r.peak_bytes = memory_stats().peak - live;
  r.test_accuracy = accuracy(net, d.test_x, d.test_y);
  std::cout << "  test accuracy " << r.test_accuracy << "\n";
  return r;
}

static void draw_curve(const std::string& path, const std::vector<std::pair<std::string, std::vector<double>>>& curves) {
  const double width = 480, height = 280, margin = 50;
  double top = 0;
  for (const auto& [name, values] : curves) top = std::max(top, *std::max_element(values.begin(), values.end()));
  std::ofstream svg(path);
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='600' height='380' font-family='sans-serif' font-size='12'>"
      << "<rect width='600' height='380' fill='white'/><g stroke='#444' fill='none'><path d='M50 20 V330 H560'/></g>"
      << "<text x='300' y='365'>epoch</text><text x='6' y='16'>training loss</text>";
  const char* colours[] = {"#c0392b", "#2471a3"};
  for (size_t k = 0; k < curves.size(); ++k) {
    const auto& values = curves[k].second;
    svg << "<polyline fill='none' stroke='" << colours[k] << "' stroke-width='" << (k == 0 ? 5 : 2) << "' points='";
    for (size_t i = 0; i < values.size(); ++i)
      svg << margin + width * static_cast<double>(i) / static_cast<double>(std::max<size_t>(1, values.size() - 1)) << ","
          << 330 - height * values[i] / top << " ";
    svg << "'/><text x='420' y='" << 40 + 18 * k << "' fill='" << colours[k] << "'>" << curves[k].first << "</text>";
  }
  svg << "</svg>\n";
}

static int check(const std::string& model, const std::string& vectors) {
  auto net = SymbolBlock::imports(model + "-symbol.json", {}, model + "-0000.params");
  net->hybridize();
  const NamedTensors file = load_tensors(vectors);
  const bool same = all_close((*net)(*find_tensor(file, "x")), *find_tensor(file, "y"), 1e-5, 1e-6);
  std::cout << "  second process: the loaded model gives " << (same ? "the same answers" : "OTHER answers") << "\n";
  return same ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--check") return check(argv[2], argv[3]);
  const int epochs = std::getenv("GLUINO_EXAMPLE_QUICK") ? 2 : 12;
  const Digits d = load_digits();
  std::cout << d.train_x.extent(0) << " training and " << d.test_x.extent(0) << " test digits of 8 x 8 pixels\n\nimperative:\n";
  seed(1);
  DigitNet eager;
  eager.initialize(init::xavier());
  const Result a = train(eager, d, epochs);
  std::cout << "\nhybridized:\n";
  seed(1);
  DigitNet hybrid;
  hybrid.initialize(init::xavier());
  hybrid.hybridize();
  const Result b = train(hybrid, d, epochs);

  std::cout << "\n                 imperative  hybridized\n"
            << "ms per epoch     " << std::setw(10) << a.seconds_per_epoch * 1e3 << "  " << std::setw(10) << b.seconds_per_epoch * 1e3
            << "\n"
            << "peak KB          " << std::setw(10) << a.peak_bytes / 1024 << "  " << std::setw(10) << b.peak_bytes / 1024 << "\n"
            << "last loss        " << std::setw(10) << a.losses.back() << "  " << std::setw(10) << b.losses.back() << "\n"
            << "test accuracy    " << std::setw(10) << a.test_accuracy << "  " << std::setw(10) << b.test_accuracy << "\n\n";

  hybrid(d.test_x[Slice(0, 1)]);
  std::cout << "what hybridize did:\n" << hybrid.explain() << "\n";
  const Tensor x = d.test_x[Slice(0, 32)].copy();
  save_tensors("demo-vectors.npz", {{"x", x}, {"y", hybrid(x)}});
  hybrid.export_model("demo");
  draw_curve("demo-loss.svg", {{"imperative", a.losses}, {"hybridized", b.losses}});
  std::ofstream("demo-before.svg") << hybrid.to_svg(true);
  std::ofstream("demo-after.svg") << hybrid.to_svg();
  std::cout << "written: demo-symbol.json, demo-0000.params, demo-loss.svg, demo-before.svg, demo-after.svg\n" << std::flush;
  return std::system((std::string("\"") + argv[0] + "\" --check demo demo-vectors.npz").c_str()) == 0 ? 0 : 1;
}
