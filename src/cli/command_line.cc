#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cli/demo.h"
#include "cli/inspect.h"
#include "gluino/error.h"

namespace gluino::cli {

int run_command_line(const std::string& self, std::vector<std::string> arguments) {
  CLI::App app("gluino: write networks imperatively, run them compiled", "gluino");
  app.require_subcommand(1);
  std::function<int()> run;

  DemoOptions demo_options{.self = self};
  CLI::App* demo_command = app.add_subcommand("demo", "trains on the bundled digits both ways, explains, exports, loads again, draws");
  demo_command->add_option("--epochs", demo_options.epochs, "passes over the training digits")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  demo_command->add_option("--folder", demo_options.folder, "where its files go")->capture_default_str();
  demo_command->callback([&] { run = [&] { return demo(demo_options); }; });

  std::string model, vectors;
  CLI::App* check_command = app.add_subcommand("check", "compares an exported model's answers with recorded ones");
  check_command->add_option("model", model, "path of model-symbol.json and model-0000.params, without the endings")->required();
  check_command->add_option("vectors", vectors, "an .npz with an input x and the answer y")->required()->check(CLI::ExistingFile);
  check_command->callback([&] { run = [&] { return check_model(model, vectors); }; });

  std::string op;
  CLI::App* ops_command = app.add_subcommand("ops", "lists the operators, or describes one");
  ops_command->add_option("operator", op, "its name");
  ops_command->callback([&] { run = [&] { return show_operators(op); }; });

  std::string file;
  std::vector<std::string> shapes;
  CLI::App* graph_command = app.add_subcommand("graph", "shows the graph of a -symbol.json");
  graph_command->add_option("file", file, "the -symbol.json")->required();
  graph_command->add_option("--shape", shapes, "shape of an input, as data=1,3,224,224; gives those of all values");
  graph_command->callback([&] { run = [&] { return show_graph(file, shapes); }; });

  CLI::App* params_command = app.add_subcommand("params", "lists the arrays of a .params, .npz or .npy file");
  params_command->add_option("file", file, "the file")->required();
  params_command->callback([&] { run = [&] { return show_params(file); }; });

  app.add_subcommand("info", "tells the version, the operators and the threads")->callback([&] { run = show_info; });

  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(arguments);
    return run();
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const Error& e) {
    std::cerr << "gluino: " << e.what() << "\n";
    return 1;
  }
}

}  // namespace gluino::cli
