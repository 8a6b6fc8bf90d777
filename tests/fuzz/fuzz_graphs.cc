// Graph files with any operators, also those that only passes make: read, bound, run, differentiated, and run as a compiled block, on
// guarded memory. A file may give a result or an error of the user's; it may not crash, hang, or write out of bounds.
//
//   fuzz_graphs [COUNT]          so many files (GLUINO_FUZZ_GRAPHS, or 5000)
//   fuzz_graphs COUNT NUMBER     one file, in this process
#include <cstdio>
#include <cstdlib>

#include "fuzz/guarded_memory.h"
#include "fuzz/isolated_runs.h"
#include "fuzz/random_graphs.h"
#include "fuzz/wrong_errors.h"
#include "gluino/block.h"
#include "gluino/random.h"

namespace gluino::fuzz {
namespace {

constexpr int64_t kFilesPerProcess = 1000;

class GraphFuzz {
 public:
  GraphFuzz() { install_memory_source(&memory_); }

  void run_case(int64_t number) {
    using Place = GuardedMemory::Place;
    memory_.start({static_cast<unsigned char>(number % 3 ? 0xff : 0x4b), number % 2 ? Place::before_guard : Place::behind_guard});
    const RandomGraph graph = random_graph(number);
    runs.describe(graph.json);
    try {
      run_graph(graph, number);
      runs.count_result();
    } catch (...) {
      if (const Caught caught = caught_error(); !caught.problem.empty()) runs.fail(caught.problem);
    }
    if (const std::string damage = memory_.take_damage(); !damage.empty()) runs.fail(damage);
  }
  IsolatedRuns runs;

 private:
  static void run_graph(const RandomGraph& graph, int64_t number) {
    seed(7);
    const Symbol symbol = Symbol::from_json(graph.json, "file");
    symbol.infer_shape_partial({});
    TensorMap tensors;
    RandomCall values{nullptr, {}, {}};
    std::vector<std::string> names = symbol.list_inputs();
    Random random = random_of("values", number);
    for (const std::string& name : names) {
      const auto it = graph.variables.find(name);
      values.inputs.push_back(it == graph.variables.end() ? random_input(random) : it->second);
    }
    const Tensors made = values.make_inputs();
    for (size_t i = 0; i < names.size(); ++i) tensors.insert_or_assign(names[i], made[i]);
    if (number % 3 == 0) return run_block(symbol, names, made);
    run_bound(symbol, tensors);
  }
  static void run_bound(const Symbol& symbol, const TensorMap& tensors) {
    TensorMap gradients;
    for (const std::string& name : symbol.list_arguments())
      if (const Tensor& t = tensors.at(name); is_floating(t.dtype())) gradients[name] = zeros(t.shape(), {t.dtype()});
    Executor executor = symbol.bind(tensors, gradients);
    executor.forward(false);
    executor.forward(true);
    executor.backward();
  }
  static void run_block(const Symbol& symbol, const std::vector<std::string>& names, const Tensors& values) {
    SymbolBlock block(symbol, names);
    block.hybridize();
    for (int i = 0; i < 2; ++i) block(values);
  }
  GuardedMemory memory_;
};

int run_all(int64_t count) {
  GraphFuzz fuzz;
  for (int64_t first = 0; first < count; first += kFilesPerProcess)
    fuzz.runs.run("graph", first, std::min(count, first + kFilesPerProcess), [&](int64_t number) { fuzz.run_case(number); });
  for (const Failure& f : fuzz.runs.failures())
    std::printf("%ld: %s\n    %s\n", static_cast<long>(f.number), f.what.c_str(), f.call.c_str());
  std::printf("%ld graphs, %ld with a result: %zu failures\n", static_cast<long>(count), static_cast<long>(fuzz.runs.results()),
              fuzz.runs.failures().size());
  return fuzz.runs.failures().empty() ? 0 : 1;
}

}  // namespace
}  // namespace gluino::fuzz

int main(int argc, char** argv) {
  using namespace gluino;
  setenv("GLUINO_JIT", "off", 0);
  if (argc > 2) {
    fuzz::GraphFuzz fuzz;
    std::printf("%s\n", fuzz::random_graph(std::atoll(argv[2])).json.c_str());
    fuzz.run_case(std::atoll(argv[2]));
    return 0;
  }
  const char* wanted = argc > 1 ? argv[1] : std::getenv("GLUINO_FUZZ_GRAPHS");
  return fuzz::run_all(wanted ? std::atoll(wanted) : 5000);
}
