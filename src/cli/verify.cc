// gluino verify: one model in every way it can run gives one answer, or the recorded one.

#include "base/format.h"
#include "cli/command.h"
#include "cli/compare.h"
#include "cli/inputs.h"
#include "cli/progress.h"
#include "cli/temporary_folder.h"

namespace gluino::cli {
namespace {

struct VerifyOptions {
  ModelOptions model;
  InputOptions inputs;
  std::string against;
  Tolerance tolerance;
};

// The traced program names its inputs data, or data0, data1, ...; one that it does not read is not there.
Tensors run_exported(SymbolBlock& net, const Tensors& inputs) {
  Tensors given;
  for (const std::string& name : net.inputs())
    given.push_back(inputs.at(name == "data" ? 0 : static_cast<size_t>(std::stoi(name.substr(4)))));
  return net(given);
}

// The answers that a file records as out0, out1, ...; those that it lacks are not compared.
Difference compare_recorded(const Tensors& outputs, const NamedTensors& file, const std::string& path, const Tolerance& tolerance) {
  Tensors given, wanted;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const Tensor* t = find_tensor(file, fmt::format("out{}", i))) given.push_back(outputs[i]), wanted.push_back(*t);
  if (wanted.empty()) raise<SystemError>("'{}' records no answers: no array is called out0", path);
  return compare(given, wanted, tolerance);
}

int verify(VerifyOptions options, bool json) {
  NamedTensors recorded;
  if (!options.against.empty()) {
    recorded = load_tensors(options.against);
    options.inputs.files.push_back(options.against);
  }
  LoadedModel model = load_model(options.model, named_inputs(options.inputs));
  HybridBlock& net = *model.net;
  const Tensors inputs = make_inputs(model, options.inputs, options.against.empty());
  Progress progress("verifying");
  const Tensors eager = net(inputs);
  progress.show(0.2);
  std::vector<std::pair<std::string, Difference>> ways;
  if (!options.against.empty()) ways.emplace_back("recorded", compare_recorded(eager, recorded, options.against, options.tolerance));

  net.hybridize();
  ways.emplace_back("hybridized", compare(net(inputs), eager, options.tolerance));
  ways.emplace_back("hybridized, the second call", compare(net(inputs), eager, options.tolerance));
  progress.show(0.5);
  const TemporaryFolder folder;
  net.export_model(folder.path("model"));
  auto exported = SymbolBlock::imports(folder.path("model-symbol.json"), {}, folder.path("model-0000.params"));
  exported->hybridize();
  ways.emplace_back("exported and imported", compare(run_exported(*exported, inputs), eager, options.tolerance));
  progress.show(0.75);
  net.save(folder.path("model.gluino"));
  auto loaded = SymbolBlock::load(folder.path("model.gluino"));
  ways.emplace_back("saved as one file and loaded", compare(run_exported(*loaded, inputs), eager, options.tolerance));
  progress.end();

  bool same = true;
  Json report{{"model", model.files.symbol_path}, {"compared_with", "eager"}, {"ways", Json::object()}};
  Rows rows;
  for (const auto& [way, difference] : ways) {
    same = same && difference.same;
    report["ways"][way] = difference_json(difference);
    rows.push_back({way, difference_text(difference)});
  }
  report["same"] = same;
  if (json)
    print_json(report);
  else
    fmt::print("beside the eager run, operator by operator:\n{}", table(rows, "ll"));
  return same ? 0 : 1;
}

}  // namespace

void add_verify(Commands& commands) {
  auto options = std::make_shared<VerifyOptions>();
  Command command = commands.add(
      "verify",
      "Checks that a model gives the same answers eagerly, hybridized, exported and loaded again, and those that a file records.");
  add_model_options(command, options->model);
  command.option("--against", options->against, "an .npz with inputs as in:NAME and the answers to them as out0, out1, ...").type("FILE");
  add_input_options(command, options->inputs);
  add_shape_options(command, options->inputs);
  add_tolerance_options(command, options->tolerance);
  command.runs([options](bool json) { return verify(*options, json); });
}

}  // namespace gluino::cli
