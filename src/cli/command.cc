#include "cli/command.h"

#include <CLI/CLI.hpp>

namespace gluino::cli {

Option Option::required() { return option_->required(), *this; }
Option Option::type(const std::string& name) { return option_->type_name(name), *this; }
Option Option::choices(const std::vector<std::string>& values) { return option_->check(CLI::IsMember(values)), *this; }
Option Option::between(double low, double high) { return option_->check(CLI::Range(low, high)), *this; }
Option Option::positive() { return option_->check(CLI::PositiveNumber), *this; }
Option Option::several() { return option_->expected(1, -1), *this; }
Option Option::by_commas() { return option_->delimiter(','), *this; }
Option Option::with_default() { return option_->capture_default_str(), *this; }

Option Command::option(const std::string& names, std::string& into, const std::string& doc) {
  return Option(app_.add_option(names, into, doc)->type_name("TEXT"));
}
Option Command::option(const std::string& names, int& into, const std::string& doc) { return Option(app_.add_option(names, into, doc)); }
Option Command::option(const std::string& names, int64_t& into, const std::string& doc) {
  return Option(app_.add_option(names, into, doc));
}
Option Command::option(const std::string& names, double& into, const std::string& doc) { return Option(app_.add_option(names, into, doc)); }
// One value for each time, so that what follows the last one may be given by its place.
Option Command::option(const std::string& names, std::vector<std::string>& into, const std::string& doc) {
  return Option(app_.add_option(names, into, doc)->expected(1)->take_all());
}
Option Command::option(const std::string& names, std::vector<double>& into, const std::string& doc) {
  return Option(app_.add_option(names, into, doc)->expected(1)->take_all());
}
Option Command::option(const std::string& names, std::array<double, 3>& into, const std::string& doc) {
  return Option(app_.add_option(names, into, doc));
}
void Command::flag(const std::string& names, bool& into, const std::string& doc) { app_.add_flag(names, into, doc); }

void Command::runs(std::function<int(bool json)> run) {
  app_.add_flag("--json", commands_.json_, "print a report for programs, as JSON");
  runs_without_json([run = std::move(run), &commands = commands_] { return run(commands.wants_json()); });
}
void Command::runs_without_json(std::function<int()> run) {
  app_.callback([run = std::move(run), &commands = commands_] { commands.run_ = run; });
}
void Command::hide() { app_.group(""); }

Command Commands::add(const std::string& name, const std::string& doc) { return {*this, *app_.add_subcommand(name, doc)}; }

}  // namespace gluino::cli
