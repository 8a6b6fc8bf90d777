// Damaged models through the C interface: graphs, parameters, one-file and ONNX models are loaded, described and run where they load. Each
// call gives a result or a code with a message; none crashes, hangs, or takes much more memory than the file has bytes.
//
//   fuzz_c_api [COUNT]                so many files of each kind (GLUINO_FUZZ_C_API, or 1500)
//   fuzz_c_api COUNT KIND NUMBER      one file, in this process
#include <cstdio>
#include <cstdlib>
#include <regex>

#include "c_api/models.h"
#include "fuzz/isolated_runs.h"
#include "fuzz/mutations.h"
#include "gluino/control_flow.h"
#include "gluino/io.h"
#include "gluino/onnx.h"
#include "gluino/ops.h"

namespace gluino::fuzz {
namespace {

constexpr int64_t kFilesPerProcess = 500;
constexpr int64_t kMostMemory = int64_t{64} << 20;  // beyond a model's own bytes

// Words, a recurrence over them, and a branch on its result.
struct Reader : nn::HybridBlock {
  nn::Embedding words{20, 4};
  nn::Dense cell{4};
  Reader() { GLUINO_CHILDREN(words, cell); }
  Tensor forward(const Tensor& tokens) override {
    const Tensor rows = words(tokens);
    const auto step = [&](const Tensors& x, const Tensors& s) { return TensorsPair{{s[0]}, {tanh(cell(x[0]) + s[0])}}; };
    const Tensor last = foreach (step, {rows}, {zeros({1, 4})}).second[0];
    return cond([](const Tensors& x) { return x[0].sum() > 0.0; }, [](const Tensors& x) { return Tensors{x[0] * 2}; },
                [](const Tensors& x) { return Tensors{x[0] - 1}; }, {last})[0];
  }
};

struct Seeds {
  std::vector<std::string> graphs, params, files, onnx;  // the last is empty without protobuf
  std::vector<Shape> inputs;                             // that the models were made with

  explicit Seeds(const test::TemporaryFolder& folder) {
    inputs = {{2, 8}, {1, 3, 8, 8}, {5, 1}};
    const auto perceptron = test::export_perceptron(folder / "mlp");
    const auto convolutions = test::export_convolutions(folder / "conv");
    seed(9);
    Reader reader;
    reader.initialize();
    reader.hybridize();
    reader(zeros({5, 1}));
    reader.export_model(folder / "reader");
    reader.save(folder / "reader.gluino");
    for (const char* name : {"mlp", "conv", "reader"}) {
      graphs.push_back(test::content_of(folder / (std::string(name) + "-symbol.json")));
      params.push_back(test::content_of(folder / (std::string(name) + "-0000.params")));
      files.push_back(test::content_of(folder / (std::string(name) + ".gluino")));
    }
    try {
      HybridBlock* const nets[] = {perceptron.get(), convolutions.get(), &reader};
      for (size_t i = 0; i < inputs.size(); ++i) {
        onnx::export_model(*nets[i], folder / "net.onnx", {{"data", inputs[i]}});
        onnx.push_back(test::content_of(folder / "net.onnx"));
      }
    } catch (const SystemError& e) {
      std::printf("ONNX models are left out: %s\n", e.what());
    }
  }
};

size_t pick(std::mt19937_64& random, size_t n) { return random() % n; }

// The graph with texts and numbers exchanged for one another or for absurd ones: it stays JSON, and says something else.
std::string with_other_values(const std::string& json, std::mt19937_64& random) {
  static const std::regex value(R"("[^"]*"|-?\d+)");
  static const char* absurd[] = {"-1",         "0",         "1",         "4096",    "99999999999", "\"None\"",
                                 "\"(0, 0)\"", "\"(-1,)\"", "\"1e999\"", "\"nan\"", "\"\"",        "\"int8\""};
  std::vector<std::pair<size_t, size_t>> places;
  for (std::sregex_iterator it(json.begin(), json.end(), value), end; it != end; ++it)
    places.emplace_back(static_cast<size_t>(it->position()), static_cast<size_t>(it->length()));
  std::string out = json;
  for (size_t n = 1 + pick(random, 2); n > 0; --n) {
    const auto [at, length] = places[pick(random, places.size())];
    const auto [from, other_length] = places[pick(random, places.size())];
    const std::string other = pick(random, 2) ? absurd[pick(random, std::size(absurd))] : json.substr(from, other_length);
    if (at + length <= out.size()) out.replace(at, length, other);
  }
  return out;
}

// Parameters that are whole, of other shapes and dtypes, under other names, missing or twice there.
std::string with_other_arrays(const std::string& params, std::mt19937_64& random) {
  NamedTensors tensors = read_params(params, "seed");
  auto& [name, tensor] = tensors[pick(random, tensors.size())];
  switch (pick(random, 6)) {
    case 0: tensor = tensor.astype(kAllDTypes[pick(random, std::size(kAllDTypes))]); break;
    case 1: tensor = tensor.reshape({-1}); break;
    case 2: tensor = zeros({static_cast<int64_t>(pick(random, 4)), static_cast<int64_t>(pick(random, 9))}); break;
    case 3: name = tensors[pick(random, tensors.size())].first; break;
    case 4: tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(pick(random, tensors.size()))); break;
    default: tensor = tensor * 1e30;
  }
  return write_params(tensors);
}

class CInterfaceFuzz {
 public:
  explicit CInterfaceFuzz(const Seeds& seeds) : seeds_(seeds) {}
  IsolatedRuns runs;

  // Whether the models run before they are damaged.
  bool seeds_run() {
    int64_t wanted = 0;
    for (size_t i = 0; i < seeds_.graphs.size(); ++i)
      for (const bool is_one_file : {false, true}) {
        load_and_use(is_one_file ? seeds_.files[i] : seeds_.graphs[i], is_one_file ? "" : seeds_.params[i], seeds_.inputs[i]);
        wanted += kCalls;
      }
    for (size_t i = 0; i < seeds_.onnx.size(); ++i, wanted += kCalls) load_and_use(seeds_.onnx[i], "", seeds_.inputs[i]);
    return runs.results() == wanted;
  }

  void run_case(const std::string& kind, int64_t number) {
    std::mt19937_64 random(static_cast<uint64_t>(number) * 3 + kind.size());
    const size_t which = random() % seeds_.graphs.size();
    std::string graph = seeds_.graphs[which], params = seeds_.params[which];
    if (kind == "graph") graph = mutated({seeds_.graphs[which], seeds_.graphs[random() % seeds_.graphs.size()]}, random);
    if (kind == "params") params = mutated({seeds_.params[which]}, random);
    if (kind == "file") {
      graph = mutated({seeds_.files[which]}, random);
      params.clear();
    }
    if (kind == "onnx") {
      graph = mutated({seeds_.onnx[which]}, random);
      params.clear();
    }
    if (kind == "values") graph = with_other_values(graph, random);
    if (kind == "arrays") params = with_other_arrays(params, random);
    runs.describe(kind + " of " + std::to_string(graph.size() + params.size()) + " bytes");
    load_and_use(graph, params, seeds_.inputs[which]);
  }

 private:
  static constexpr int kCalls = 2;  // as traced, and compiled

  void load_and_use(const std::string& graph, const std::string& params, const Shape& input) {
    gluino_memory before, after;
    gluino_memory_reset_peak(0);
    gluino_memory_statistics(0, &before);
    gluino_model model = 0;
    const gluino_status status = gluino_model_load_memory(graph.data(), graph.size(), params.data(), params.size(), nullptr, &model);
    gluino_memory_statistics(0, &after);
    if (after.peak - before.live > static_cast<int64_t>(graph.size() + params.size()) + kMostMemory)
      runs.fail("loading takes " + std::to_string(after.peak - before.live) + " bytes");
    check(status, "load");
    if (status != GLUINO_OK) return;
    use(model, input);
    if (gluino_model_free(model) != GLUINO_OK) runs.fail("cannot be freed");
  }

  void check(gluino_status status, const char* what) {
    if (status == GLUINO_OK) return;
    const std::string message = gluino_last_error_message();
    if (message.empty() || status == GLUINO_ERROR_INTERNAL || status != gluino_last_error_code())
      runs.fail(std::string(what) + ": " + gluino_status_name(status) + ": " + message);
  }

  void use(gluino_model model, const Shape& shape) {
    size_t num_inputs = 0, num_outputs = 0;
    check(gluino_model_num_inputs(model, &num_inputs), "num_inputs");
    check(gluino_model_num_outputs(model, &num_outputs), "num_outputs");
    gluino_value_info info;
    for (size_t i = 0; i < num_inputs; ++i) check(gluino_model_input(model, i, &info), "input");
    for (size_t i = 0; i < num_outputs; ++i) check(gluino_model_output(model, i, &info), "output");
    std::vector<float> values(static_cast<size_t>(shape.elements()), 1.0f), room(4096);
    std::vector<gluino_buffer> inputs(num_inputs, test::buffer_of(values, shape)), outputs(num_outputs, test::room_in(room));
    for (int call = 0; call < kCalls; ++call) {
      const gluino_status status = gluino_model_run(model, inputs.data(), num_inputs, outputs.data(), num_outputs);
      check(status, "run");
      if (status == GLUINO_OK) runs.count_result();
    }
    std::vector<gluino_array> arrays(num_outputs);
    const gluino_status status = gluino_model_predict(model, inputs.data(), num_inputs, arrays.data(), num_outputs);
    check(status, "predict");
    for (const gluino_array a : arrays)
      if (status == GLUINO_OK) check(gluino_array_free(a), "array_free");
  }

  const Seeds& seeds_;
};

int run(int argc, char** argv) {
  const char* wanted = argc > 1 ? argv[1] : std::getenv("GLUINO_FUZZ_C_API");
  const int64_t count = wanted ? std::atoll(wanted) : 1500;
  const test::TemporaryFolder folder;
  const Seeds seeds(folder);
  CInterfaceFuzz fuzz(seeds);
  if (argc > 3) {
    fuzz.run_case(argv[2], std::atoll(argv[3]));
    return 0;
  }
  if (!fuzz.seeds_run()) {
    std::printf("the models do not run as they were made: %s\n", gluino_last_error_message());
    return 1;
  }
  for (const char* kind : {"graph", "params", "file", "onnx", "values", "arrays"})
    for (int64_t first = 0; first < count && (kind != std::string("onnx") || !seeds.onnx.empty()); first += kFilesPerProcess)
      fuzz.runs.run(kind, first, std::min(count, first + kFilesPerProcess), [&](int64_t number) { fuzz.run_case(kind, number); });
  for (const Failure& f : fuzz.runs.failures())
    std::printf("%s %lld (%s): %s\n", f.subject.c_str(), static_cast<long long>(f.number), f.call.c_str(), f.what.c_str());
  std::printf("%lld files of each kind, %lld runs gave a result, %zu failures\n", static_cast<long long>(count),
              static_cast<long long>(fuzz.runs.results()), fuzz.runs.failures().size());
  return fuzz.runs.failures().empty() && fuzz.runs.results() > 0 ? 0 : 1;
}

}  // namespace
}  // namespace gluino::fuzz

int main(int argc, char** argv) { return gluino::fuzz::run(argc, argv); }
