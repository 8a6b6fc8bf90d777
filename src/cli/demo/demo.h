// The demonstration: digits, imperatively and hybridized. A command of gluino, and the program that `make demo` builds, which needs no
// other.
#pragma once
#include <cstdint>
#include <string>

namespace gluino::cli {

struct DemoOptions {
  int64_t epochs = 20;
  std::string folder = ".";  // where its files go
};

// Returns the exit code. `check_command` is what a shell runs to have check_demo done by a process that knows nothing of the first.
int run_demo(const DemoOptions& options, const std::string& check_command);
int check_demo(const DemoOptions& options);

}  // namespace gluino::cli
