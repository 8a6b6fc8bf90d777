// The program that `make demo` builds: gluino demo without the other commands, FOLDER [--check].
#include <filesystem>
#include <iostream>

#include "cli/demo/demo.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: gluino_demo FOLDER\n";
    return 2;
  }
  const gluino::cli::DemoOptions options{.folder = argv[1]};
  if (argc == 3 && argv[2] == std::string("--check")) return gluino::cli::check_demo(options);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  return gluino::cli::run_demo(options, '"' + self + "\" \"" + options.folder + "\" --check");
}
