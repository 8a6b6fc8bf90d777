// What the files of the commands are written with: each adds itself to the command line, with its options and what it does. CLI11 stands
// behind it, in one file, because it takes long to compile.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gluino::cli {

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option required();
  Option type(const std::string& name);  // what stands after the option in --help: FILE
  Option choices(const std::vector<std::string>& values);
  Option between(double low, double high);
  Option positive();
  Option several();       // for one that is given by its place: all that stand there
  Option by_commas();     // several values may stand in one argument
  Option with_default();  // --help shows the value that it has now

 private:
  CLI::Option* option_;
};

class Commands;

class Command {
 public:
  Command(Commands& commands, CLI::App& app) : commands_(commands), app_(app) {}
  // "-o,--output", or "MODEL" for one that is given by its place. `into` must live as long as what is given to runs().
  Option option(const std::string& names, std::string& into, const std::string& doc);
  Option option(const std::string& names, int& into, const std::string& doc);
  Option option(const std::string& names, int64_t& into, const std::string& doc);
  Option option(const std::string& names, double& into, const std::string& doc);
  Option option(const std::string& names, std::vector<std::string>& into, const std::string& doc);  // may be given several times
  Option option(const std::string& names, std::vector<double>& into, const std::string& doc);
  Option option(const std::string& names, std::array<double, 3>& into, const std::string& doc);
  void flag(const std::string& names, bool& into, const std::string& doc);
  // Returns the exit code: 0, or 1 when the task has failed. `json`: a report for programs is wanted, by the flag that it adds.
  void runs(std::function<int(bool json)> run);
  void runs_without_json(std::function<int()> run);
  void hide();  // from --help

 private:
  Commands& commands_;
  CLI::App& app_;
};

// All commands, and the one that was chosen.
class Commands {
 public:
  Commands(CLI::App& app, std::string self) : app_(app), self_(std::move(self)) {}
  Command add(const std::string& name, const std::string& doc);
  const std::string& self() const { return self_; }  // what a shell runs to start the same program again
  CLI::App& app() { return app_; }
  bool wants_json() const { return json_; }
  int run_chosen() const { return run_(); }

 private:
  friend class Command;
  CLI::App& app_;
  std::string self_;
  bool json_ = false;
  std::function<int()> run_;
};

void add_inspect(Commands& commands);
void add_run(Commands& commands);
void add_bench(Commands& commands);
void add_explain(Commands& commands);
void add_draw(Commands& commands);
void add_convert(Commands& commands);
void add_diff(Commands& commands);
void add_verify(Commands& commands);
void add_serve(Commands& commands);
void add_launch(Commands& commands);
void add_faces(Commands& commands);
void add_operators(Commands& commands);
void add_demo(Commands& commands);
void add_completion(Commands& commands);

}  // namespace gluino::cli
