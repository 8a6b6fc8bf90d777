// How costs grow with a network's length: n times (dense 8, layer norm), for each n given. Prints milliseconds of the first hybridized
// call, the first recorded step, a cached call and step, a step that is not hybridized, export and import, and how many times a layer of
// the longest network costs what one of the second costs. Usage: growth [N...]
#include <gluino/gluino.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "runner.h"

using namespace gluino;

namespace {

constexpr const char* kNames[] = {"first call", "first step", "cached call", "cached step", "eager step", "export", "import"};
constexpr size_t kMeasures = std::size(kNames);

nn::HybridSequential network(int64_t layers) {
  nn::HybridSequential net;
  for (int64_t i = 0; i < layers; ++i) net.add(nn::Dense(8), nn::LayerNorm());
  net.initialize();
  return net;
}

double milliseconds(const std::function<void()>& call) {
  const double start = bench::processor_seconds();
  call();
  return (bench::processor_seconds() - start) * 1e3;
}
double fastest(const std::function<void()>& call) {
  double best = milliseconds(call);
  const double end = bench::seconds() + 0.2;
  for (int i = 0; i < 3 || bench::seconds() < end; ++i) best = std::min(best, milliseconds(call));
  return best;
}

std::vector<double> measure(int64_t layers) {
  const Tensor x = ones({4, 8});
  std::vector<double> ms(kMeasures);
  nn::HybridSequential net = network(layers);
  const auto step = [&] {
    Tensor y;
    {
      const autograd::Scope recording = autograd::record();
      y = net(x);
    }
    y.backward();
  };
  net(x);
  ms[4] = fastest(step);
  net.hybridize();
  ms[0] = milliseconds([&] { net(x); });
  ms[2] = fastest([&] { net(x); });
  ms[1] = milliseconds(step);
  ms[3] = fastest(step);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("growth-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "net";
  ms[5] = milliseconds([&] { net.export_model(path); });
  ms[6] = milliseconds([&] { (*SymbolBlock::imports(path + "-symbol.json", {"data"}, path + "-0000.params"))(x); });
  std::filesystem::remove_all(folder);
  return ms;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> lengths;
  for (int i = 1; i < argc; ++i) lengths.push_back(std::atoll(argv[i]));
  if (lengths.empty()) lengths = {50, 200, 800, 3200};
  std::vector<std::vector<double>> columns;
  measure(2);  // what only the first call of a process does
  for (int64_t n : lengths) columns.push_back(measure(n));
  std::printf("%-14s", "layers");
  for (int64_t n : lengths) std::printf("%11lld", static_cast<long long>(n));
  std::printf("%14s\n", "per layer");
  for (size_t m = 0; m < kMeasures; ++m) {
    std::printf("%-14s", kNames[m]);
    for (const auto& c : columns) std::printf("%11.2f", c[m]);
    const size_t second = std::min<size_t>(1, columns.size() - 1);
    const double ratio =
        columns.back()[m] / static_cast<double>(lengths.back()) / (columns[second][m] / static_cast<double>(lengths[second]));
    std::printf("%14.2f\n", ratio);
  }
}
