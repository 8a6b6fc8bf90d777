#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <new>

#include "base/parallel.h"
#include "cli/command.h"
#include "cli/model.h"
#include "cli/report.h"
#include "gluino/op.h"
#include "gluino/version.h"

namespace gluino::cli {
namespace {

constexpr int kFailed = 1, kWrongUsage = 2;

void (*const kCommands[])(Commands&) = {add_inspect, add_run,   add_bench,  add_explain, add_draw,      add_convert, add_diff,
                                        add_verify,  add_serve, add_launch, add_faces,   add_operators, add_demo,    add_completion};

std::string version_text() {
  return fmt::format("gluino {}, {} operators, {} threads", GLUINO_VERSION, OpRegistry::global().all().size(), num_threads());
}

int report_error(const Commands& commands, const std::string& message, int code) {
  if (commands.wants_json()) print_json({{"error", message}});
  std::cerr << "gluino: " << message << "\n";
  return code;
}

}  // namespace

int run_command_line(const std::string& self, std::vector<std::string> arguments) {
  CLI::App app("Reads ten years of MXNet's models: says what is inside, runs, times, draws, converts and compares them.", "gluino");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Commands commands(app, self);
  for (const auto& add : kCommands) add(commands);

  const bool is_for_programs = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(arguments);
    return commands.run_chosen();
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0 && is_for_programs) print_json({{"error", e.what()}});
    return app.exit(e) == 0 ? 0 : kWrongUsage;
  } catch (const UsageError& e) {
    return report_error(commands, e.what(), kWrongUsage);
  } catch (const std::bad_alloc&) {
    return report_error(commands, "there is not enough memory", kFailed);
  } catch (const std::exception& e) {
    return report_error(commands, e.what(), kFailed);
  }
}

}  // namespace gluino::cli
