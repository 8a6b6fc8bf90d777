// libFuzzer's entry point for the safetensors reader; standalone.cc runs it without libFuzzer.
#include <cstdio>
#include <cstdlib>

#include "fuzz/targets.h"

namespace gluino::fuzz {
const Target& fuzz_target() { return kSafetensors; }
}  // namespace gluino::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string problem = gluino::fuzz::run(gluino::fuzz::kSafetensors, std::string(reinterpret_cast<const char*>(data), size));
  if (problem.empty()) return 0;
  std::fprintf(stderr, "%s\n", problem.c_str());
  std::abort();
}
