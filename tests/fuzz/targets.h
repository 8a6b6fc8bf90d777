// One target per reader: bytes in, and nothing but success or a gluino::Error out. The gtest, the standalone driver
// and libFuzzer all go through these.
#pragma once
#include <string>
#include <vector>

namespace gluino::fuzz {

struct Target {
  const char* name;
  void (*read)(const std::string& bytes);  // may raise gluino::Error
  std::vector<std::string> (*seeds)();     // valid inputs to start from
};
extern const Target kParams, kNpy, kNpz, kSafetensors, kSymbolJson, kGraphText, kStates, kRecords, kModel, kCache;

// What one read may allocate at once; a reader that believes a damaged size asks for more.
inline constexpr size_t kLargestAllocation = size_t{64} << 20;

// Runs a target on one input. Returns what went wrong, or "" when it loaded or raised a gluino::Error.
std::string run(const Target& target, const std::string& bytes);

}  // namespace gluino::fuzz
