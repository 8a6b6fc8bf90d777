// What one call of a small network costs in C++ and through the C interface, in one process and in turns: call_cost STEM
// Prints {"C++": microseconds, ...}, the best of many rounds, of processor time.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

#include "gluino/block.h"
#include "gluino/c_api.h"

namespace {

double processor_microseconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
}

template <class F>
double one_round(F f) {
  constexpr int kCalls = 2000;
  const double start = processor_microseconds();
  for (int i = 0; i < kCalls; ++i) f();
  return (processor_microseconds() - start) / kCalls;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace gluino;
  const std::string stem = argc > 1 ? argv[1] : "mlp", graph = stem + "-symbol.json", params = stem + "-0000.params";
  set_num_threads(1);
  const auto net = SymbolBlock::imports(graph, {"data"}, params);
  net->hybridize();
  const Tensor x = zeros({1, 512});
  std::vector<float> in(512), out((*net)(x).size());
  gluino_model model;
  if (gluino_model_load(graph.c_str(), params.c_str(), nullptr, &model) != GLUINO_OK) {
    std::fprintf(stderr, "%s\n", gluino_last_error_message());
    return 1;
  }
  const gluino_buffer input{in.data(), in.size() * sizeof(float), GLUINO_FLOAT32, 2, {1, 512}, nullptr};
  gluino_buffer output{out.data(), out.size() * sizeof(float), GLUINO_ANY_DTYPE, 0, {}, nullptr};
  std::map<std::string, double> best;
  const auto note = [&](const char* name, double us) {
    const auto [it, is_new] = best.emplace(name, us);
    if (!is_new) it->second = std::min(it->second, us);
  };
  for (int round = 0; round < 30; ++round) {
    note("C++", one_round([&] { (*net)(x); }));
    note("C, run", one_round([&] { gluino_model_run(model, &input, 1, &output, 1); }));
    note("C, predict", one_round([&] {
           gluino_array array;
           gluino_model_predict(model, &input, 1, &array, 1);
           gluino_array_free(array);
         }));
  }
  std::printf("{\"C++\": %.3f, \"C, run\": %.3f, \"C, predict\": %.3f}\n", best["C++"], best["C, run"], best["C, predict"]);
  return gluino_model_free(model);
}
