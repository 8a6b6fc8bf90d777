// The program gluino.
#include <filesystem>

#include "cli/command_line.h"

int main(int argc, char** argv) {
  return gluino::cli::run_command_line('"' + std::filesystem::read_symlink("/proc/self/exe").string() + '"', {argv + 1, argv + argc});
}
