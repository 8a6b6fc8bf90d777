// gluino run: a model's answers to arrays and pictures.
#include <chrono>
#include <fstream>
#include <numeric>

#include "base/format.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/report.h"
#include "gluino/gluino.h"

namespace gluino::cli {
namespace {

struct RunOptions {
  ModelOptions model;
  InputOptions inputs;
  std::string output, synset;
  int64_t top = 0;
  int threads = 0;
  bool eager = false;
};

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) raise<SystemError>("cannot open '{}'", path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  if (file.bad()) raise<SystemError>("cannot read '{}'", path);
  return lines;
}

// The places of the largest of `count` numbers, largest first; NaN counts as smallest.
std::vector<int64_t> largest(const float* values, int64_t count, int64_t wanted) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto key = [&](int64_t i) { return std::isnan(values[i]) ? -std::numeric_limits<float>::infinity() : values[i]; };
  const int64_t kept = std::min(wanted, count);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(),
                    [&](int64_t a, int64_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  order.resize(static_cast<size_t>(kept));
  return order;
}

// For each row of the first output, the classes with the largest values.
Json best_classes(const Tensor& output, const RunOptions& options) {
  const std::vector<std::string> names = options.synset.empty() ? std::vector<std::string>() : read_lines(options.synset);
  const Tensor scores = output.astype(DType::float32);
  const Shape shape = scores.shape();
  const int64_t classes = shape.empty() ? 1 : shape.elements() / std::max<int64_t>(1, shape[0]), rows = shape.empty() ? 1 : shape[0];
  if (!names.empty() && static_cast<int64_t>(names.size()) < classes)
    raise<SystemError>("'{}' has {} lines, but the output {} has {} classes", options.synset, names.size(), shape, classes);
  Json all = Json::array();
  for (int64_t row = 0; row < rows; ++row) {
    Json best = Json::array();
    const float* values = scores.data<float>() + row * classes;
    for (int64_t i : largest(values, classes, options.top)) {
      Json entry{{"class", i}, {"score", values[i]}};
      if (!names.empty()) entry["name"] = names[static_cast<size_t>(i)];
      best.push_back(std::move(entry));
    }
    all.push_back(std::move(best));
  }
  return all;
}

std::string first_values(const Tensor& t) {
  constexpr size_t kShown = 6;
  const std::vector<double> values = t.astype(DType::float64).to_vector<double>();
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kShown, values.size()); ++i) shown.push_back(fmt::format("{:.5g}", values[i]));
  return fmt::format("[{}{}]", fmt::join(shown, ", "), values.size() > kShown ? ", ..." : "");
}

void print_text(const RunOptions& options, const std::vector<std::string>& names, const Tensors& outputs, const Json& report) {
  Rows rows;
  for (size_t i = 0; i < outputs.size(); ++i)
    rows.push_back({names[i], outputs[i].shape().str(), std::string(dtype_name(outputs[i].dtype())), first_values(outputs[i])});
  fmt::print("{}", table(rows, "llll", ""));
  if (report.contains("top"))
    for (const Json& best : report["top"]) {
      Rows classes;
      for (const Json& c : best)
        classes.push_back(
            {std::to_string(c["class"].get<int64_t>()), fmt::format("{:.6f}", c["score"].get<double>()), c.value("name", "")});
      fmt::print("top {}:\n{}", best.size(), table(classes, "rrl"));
    }
  if (!options.output.empty()) fmt::print("written to {}\n", options.output);
}

int run(const RunOptions& options, bool json) {
  if (options.threads > 0) set_num_threads(options.threads);
  LoadedModel model = load_model(options.model, named_inputs(options.inputs));
  const Tensors inputs = make_inputs(model, options.inputs, false);
  if (!options.eager) model.net->hybridize();
  const auto start = std::chrono::steady_clock::now();
  const Tensors outputs = (*model.net)(inputs);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::vector<std::string>& names = model.outputs;

  Json report{{"outputs", Json::array()}, {"seconds", seconds}};
  NamedTensors named;
  for (size_t i = 0; i < outputs.size(); ++i) {
    named.emplace_back(names[i], outputs[i]);
    report["outputs"].push_back({{"name", names[i]},
                                 {"shape", std::vector<int64_t>(outputs[i].shape().begin(), outputs[i].shape().end())},
                                 {"dtype", std::string(dtype_name(outputs[i].dtype()))}});
    if (options.output.empty() && outputs[i].size() <= 10000)
      report["outputs"].back()["values"] = outputs[i].astype(DType::float64).to_vector<double>();
  }
  if (options.top > 0) report["top"] = best_classes(outputs.at(0), options);
  if (!options.output.empty()) {
    if (options.output.ends_with(".npy") && named.size() != 1)
      raise<UsageError>("--output {}: an .npy file holds one array, but the model has {} outputs; write an .npz", options.output,
                        named.size());
    save_tensors(options.output, named);
    report["written"] = options.output;
  }
  if (json)
    print_json(report);
  else
    print_text(options, names, outputs, report);
  return 0;
}

}  // namespace

void add_run(Commands& commands) {
  auto options = std::make_shared<RunOptions>();
  Command command = commands.add("run", "Runs a model on arrays or pictures.");
  add_model_options(command, options->model);
  add_input_options(command, options->inputs);
  add_shape_options(command, options->inputs);
  command.option("-o,--output", options->output, "where the answers go: .npz, .npy or .params; printed when left out").type("FILE");
  command.option("--top", options->top, "show so many classes of the first output, the best first").positive();
  command.option("--synset", options->synset, "the classes' names for --top, one a line").type("FILE");
  command.option("--threads", options->threads, "threads that an operator may use").positive();
  command.flag("--eager", options->eager, "operator by operator instead of compiled");
  command.runs([options](bool json) { return run(*options, json); });
}

}  // namespace gluino::cli
