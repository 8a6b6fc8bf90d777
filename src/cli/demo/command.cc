// gluino demo.
#include "base/format.h"
#include "cli/command.h"
#include "cli/demo/demo.h"

namespace gluino::cli {

void add_demo(Commands& commands) {
  struct Given : DemoOptions {
    bool check = false;
  };
  auto given = std::make_shared<Given>();
  Command command = commands.add("demo", "Trains on the bundled digits both ways, explains, exports, loads again, draws.");
  command.option("--epochs", given->epochs, "passes over the training digits").positive().with_default();
  command.option("--folder", given->folder, "where its files go").with_default();
  command.flag("--check", given->check, "only loads what the demo left in the folder, and compares");
  command.runs_without_json([&commands, given] {
    if (given->check) return check_demo(*given);
    return run_demo(*given, fmt::format("{} demo --check --folder \"{}\"", commands.self(), given->folder));
  });
}

}  // namespace gluino::cli
