// The command line: gluino demo.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/demo.h"
#include "gluino/error.h"

int main(int argc, char** argv) {
  using namespace gluino::cli;
  CLI::App app("gluino: write networks imperatively, run them compiled");
  app.require_subcommand(1);
  DemoOptions demo_options;
  CLI::App* demo_command = app.add_subcommand("demo", "trains on the bundled digits both ways, explains, exports, loads again, draws");
  demo_command->add_option("--epochs", demo_options.epochs, "passes over the training digits")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  demo_command->add_option("--folder", demo_options.folder, "where its files go")->capture_default_str();
  std::string model, vectors;
  CLI::App* check_command = app.add_subcommand("check", "compares an exported model's answers with recorded ones");
  check_command->add_option("model", model, "path of model-symbol.json and model-0000.params, without the endings")->required();
  check_command->add_option("vectors", vectors, "an .npz with an input x and the answer y")->required()->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  try {
    if (*demo_command) return demo(demo_options);
    return check_model(model, vectors);
  } catch (const gluino::Error& e) {
    std::cerr << "gluino: " << e.what() << "\n";
    return 1;
  }
}
