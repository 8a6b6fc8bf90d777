// gluino launch: a program as several ranks. Finds mpirun and becomes it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/env.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/model.h"

namespace gluino::cli {
namespace {

struct Options {
  int ranks = 0, threads = 0;
  std::string hosts, host_file;
  double timeout = 0;
  std::vector<std::string> program;
};

std::string find_mpirun() {
  std::string_view path;
  const std::string all = env_text("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (std::string_view rest = all; !rest.empty(); rest.remove_prefix(std::min(rest.size(), path.size() + 1))) {
    path = rest.substr(0, rest.find(':'));
    const std::string candidate = std::string(path) + "/mpirun";
    if (!path.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  throw SystemError("mpirun was not found; install openmpi-bin, or put the folder of your MPI's mpirun into PATH");
}

// Environment variables are handed on to ranks on other machines too.
void hand_on(std::vector<std::string>& arguments, const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
  arguments.insert(arguments.end(), {"-x", name});
}

int launch(const Options& o) {
  const int cores = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  const int ranks = o.ranks > 0 ? o.ranks : cores;
  const bool is_one_machine = o.hosts.empty() && o.host_file.empty();
  std::vector<std::string> arguments{find_mpirun(), "-n", std::to_string(ranks), "--bind-to", "none"};
  if (::geteuid() == 0) arguments.emplace_back("--allow-run-as-root");
  if (is_one_machine && ranks > cores) arguments.emplace_back("--oversubscribe");
  if (!o.hosts.empty()) arguments.insert(arguments.end(), {"--host", o.hosts});
  if (!o.host_file.empty()) arguments.insert(arguments.end(), {"--hostfile", o.host_file});
  // On several machines each rank finds out how many share its cores; what the user has set stays.
  const int threads = o.threads > 0 ? o.threads : is_one_machine ? std::max(1, cores / ranks) : 0;
  if (threads > 0 && (o.threads > 0 || !env_text("GLUINO_NUM_THREADS"))) {
    hand_on(arguments, "GLUINO_NUM_THREADS", std::to_string(threads));
    if (o.threads > 0 || !env_text("OMP_NUM_THREADS")) hand_on(arguments, "OMP_NUM_THREADS", std::to_string(threads));
  }
  if (o.timeout > 0) hand_on(arguments, "GLUINO_DISTRIBUTED_TIMEOUT", fmt::format("{}", o.timeout));
  arguments.insert(arguments.end(), o.program.begin(), o.program.end());
  std::vector<char*> given;
  for (std::string& a : arguments) given.push_back(a.data());
  given.push_back(nullptr);
  ::execv(given[0], given.data());
  raise<SystemError>("{} could not be started: {}", arguments[0], std::strerror(errno));
}

}  // namespace

void add_launch(Commands& commands) {
  Command command =
      commands.add("launch", "Starts a program as several ranks that train together: gluino launch -n 4 -- program --its-option");
  const auto o = std::make_shared<Options>();
  command.option("PROGRAM", o->program, "The program and its arguments, after --").required().several();
  command.option("-n,--ranks", o->ranks, "How many; as many as the machine has cores where it is not said").positive();
  command.option("--threads", o->threads, "Of each rank; the cores are shared evenly where it is not said").positive();
  command.option("--host", o->hosts, "Machines and how many ranks each takes: one:4,two:4").type("HOSTS");
  command.option("--hostfile", o->host_file, "The same from a file, as mpirun reads it").type("FILE");
  command.option("--timeout", o->timeout, "Seconds that a collective waits for other ranks").positive();
  command.runs_without_json([o] { return launch(*o); });
}

}  // namespace gluino::cli
