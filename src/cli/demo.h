// gluino demo: the whole job on real digits.
#pragma once
#include <cstdint>
#include <string>

namespace gluino::cli {

struct DemoOptions {
  int64_t epochs = 20;
  std::string folder = ".";  // where its files go
  std::string self;          // what a shell runs to start this program again
};
int demo(const DemoOptions& options);
// Its second process: loads an exported model and compares its answers with recorded ones.
int check_model(const std::string& model, const std::string& vectors);

}  // namespace gluino::cli
