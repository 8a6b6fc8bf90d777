// The command line: of the program gluino, and of python -m gluino.
#pragma once
#include <string>
#include <vector>

namespace gluino::cli {

// Runs one command; returns the exit code. `self` is what a shell runs to start the same program again.
int run_command_line(const std::string& self, std::vector<std::string> arguments);

}  // namespace gluino::cli
